LIBRARIES += libuselect
libuselect_SRCS := uselect/lib/region.c uselect/lib/sys.c uselect/lib/select.c uselect/lib/poll.c \
	uselect/lib/loop.c uselect/lib/list.c
libuselect_LIBS := -lpthread

LIBRARIES += libuselect-preload
libuselect-preload_SRCS := $(libuselect_SRCS) uselect/lib/preload/descriptor.c \
	uselect/lib/preload/epoll.c uselect/lib/preload/register.c uselect/lib/preload/wait.c
libuselect-preload_LIBS := -lpthread

MANPAGES += uselect/man/uselect.3 uselect/man/uselect-preload.1

uselect_random_DEPS := libuselect
uselect_rules_DEPS := libuselect
uselect_rules_LIBS := -lpthread
uselect_rules_LDFLAGS := -Wl,--wrap=syscall
uselect_loop_DEPS := libuselect
uselect_race_DEPS := libuselect
uselect_race_LIBS := -lpthread
uselect_unload_DEPS := libuselect
