LIBRARIES += libuselect
libuselect_ABOUT := Flotilla: readiness of sockets by shared memory
libuselect_SRCS := uselect/lib/region.c uselect/lib/sys.c uselect/lib/select.c uselect/lib/poll.c \
	uselect/lib/ready.c uselect/lib/loop.c uselect/lib/list.c uselect/lib/move.c
libuselect_LIBS := -lpthread

LIBRARIES += libuselect-preload
libuselect-preload_SRCS := $(libuselect_SRCS) $(addprefix uselect/lib/preload/,descriptor.c real.c \
	register.c shadow.c wait.c)
# Nothing of its inside is to be taken for a program's, or the other way round.
libuselect-preload_LIBS := -lpthread -Wl,--version-script=uselect/lib/preload/exports.map

MANPAGES += uselect/man/uselect.3 uselect/man/uselect.4 uselect/man/uselect-preload.1

uselect_random_DEPS := libuselect
uselect_rules_DEPS := libuselect
uselect_rules_LIBS := -lpthread
uselect_rules_LDFLAGS := -Wl,--wrap=syscall
uselect_loop_DEPS := libuselect
uselect_edges_DEPS := libuselect
uselect_edges_LIBS := -lpthread
uselect_race_DEPS := libuselect
uselect_race_LIBS := -lpthread
uselect_unload_DEPS := libuselect
uselect_owner_DEPS := libuselect
uselect_owner_LIBS := -lpthread

TEST_PROGRAMS += preload_case
preload_case_SRCS := $(addprefix uselect/tests/lib/,preload_case.c preload_model.c preload_threads.c)
preload_case_LIBS := -lpthread
