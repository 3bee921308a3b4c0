# Both use what the command line reads, compares and changes nodes with.
follow_COMMON := $(addprefix tools/follow/,etcd.c http.c log.c privilege.c)

PROGRAMS += flotilla-follow flotilla-announce
flotilla-follow_SRCS := $(addprefix tools/follow/,main.c rules.c members.c source.c source_file.c source_dns.c \
	source_etcd.c source_kube.c) $(follow_COMMON) $(filter-out tools/flotilla/main.c,$(flotilla_SRCS))
flotilla-follow_DEPS := libflotilla libhandoff libafpa
flotilla-follow_PKGS := jansson libmnl libcurl
flotilla-follow_LIBS := -lresolv

flotilla-announce_SRCS := tools/follow/announce.c $(follow_COMMON) $(filter-out tools/flotilla/main.c,$(flotilla_SRCS))
flotilla-announce_DEPS := libflotilla libhandoff libafpa
flotilla-announce_PKGS := jansson libmnl libcurl

MANPAGES += tools/follow/flotilla-follow.8
MANLINKS += flotilla-announce.8=flotilla-follow.8
COMPLETIONS += tools/follow/flotilla-follow.bash

# A table in place of the kernel's.
follow_owner_SRCS := $(addprefix tools/follow/,members.c rules.c log.c) $(filter-out tools/flotilla/main.c,$(flotilla_SRCS))
follow_owner_DEPS := libflotilla libhandoff libafpa
follow_owner_PKGS := jansson libmnl
follow_owner_LIBS := -lcmocka $(foreach f,apply_lock apply_unlock changes_permitted changes_run config_live_nodes,-Wl,--wrap=$(f))
