LIBRARIES += libflotilla
libflotilla_ABOUT := Flotilla: nodes, links, services and counters of a cluster
libflotilla_SRCS := kmod/lib/client.c kmod/lib/attrs.c kmod/lib/node.c kmod/lib/local.c \
	kmod/lib/service.c kmod/lib/policy.c kmod/lib/redirect.c kmod/lib/conn.c kmod/lib/stat.c kmod/lib/event.c kmod/lib/dispatch.c
libflotilla_PKGS := libmnl
MANPAGES += kmod/lib/libflotilla.3

kmod_message_DEPS := libflotilla
kmod_message_LIBS := -lcmocka
kmod_dispatch_DEPS := libflotilla
kmod_dispatch_LIBS := -lcmocka
