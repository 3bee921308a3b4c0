LIBRARIES += libafpa
libafpa_ABOUT := Flotilla: HTTP answers that the kernel gives
libafpa_SRCS := kmod/afpa/lib/afpa.c
MANPAGES += kmod/afpa/lib/libafpa.3 kmod/afpa/afpa.4

afpa_request_SRCS := kmod/afpa/request.c kmod/afpa/tests/lib/judge.c kmod/afpa/tests/lib/mutate.c lard/request.c \
	lard/header.c lard/message.c $(lard_http)
afpa_get_SRCS := kmod/afpa/get.c kmod/afpa/tests/lib/judge_get.c kmod/afpa/tests/lib/mutate.c

# Mutated requests for the kernel itself.
TEST_PROGRAMS += afpa_mutants
afpa_mutants_SRCS := $(addprefix kmod/afpa/tests/lib/,mutants.c model.c mutate.c echo.c) kmod/afpa/request.c kmod/afpa/get.c
afpa_mutants_DEPS := libafpa
afpa_mutants_LIBS := -lpthread

# Clients in numbers.
TEST_PROGRAMS += afpa_crowd afpa_updates
afpa_crowd_SRCS := kmod/afpa/tests/lib/crowd.c kmod/afpa/tests/lib/echo.c
afpa_crowd_LIBS := -lpthread
afpa_updates_SRCS := kmod/afpa/tests/lib/updates.c
afpa_updates_DEPS := libafpa
afpa_updates_LIBS := -lpthread

FUZZERS += fuzz_afpa_request fuzz_afpa_get
fuzz_afpa_request_SRCS := kmod/afpa/tests/lib/fuzz_request.c $(afpa_request_SRCS)
fuzz_afpa_request_CORPUS := kmod/afpa/tests/lib/corpus unpack
fuzz_afpa_request_ARGS := -max_len=300 -dict=kmod/afpa/tests/lib/words.dict
fuzz_afpa_get_SRCS := kmod/afpa/tests/lib/fuzz_get.c $(afpa_get_SRCS)
fuzz_afpa_get_ARGS := -max_len=600

# The door for programs on other machines.
afpad_parts := $(addprefix kmod/afpa/door/,config.c address.c token.c target.c fields.c change.c mark.c peer.c crowd.c \
	http.c object.c take.c privilege.c) tools/base/capability.c tools/base/reader.c tools/base/log.c tools/base/notify.c kmod/afpa/request.c
PROGRAMS += afpad
afpad_SRCS := kmod/afpa/door/main.c $(afpad_parts)
afpad_DEPS := libafpa libuselect
afpad_PKGS := jansson libcurl libmicrohttpd gnutls
afpad_LIBS := -lpthread
MANPAGES += kmod/afpa/door/afpad.8 kmod/afpa/door/afpad.conf.5

# On a table in place of the device.
TEST_PROGRAMS += afpad_pretend
afpad_pretend_SRCS := $(afpad_SRCS) kmod/afpa/tests/lib/pretend.c
afpad_pretend_DEPS := $(afpad_DEPS)
afpad_pretend_PKGS := $(afpad_PKGS)
afpad_pretend_LIBS := $(afpad_LIBS) $(foreach f,open info site_each put update del query ttl flush ban ban_tag ticket,-Wl,--wrap=afpa_$(f))
