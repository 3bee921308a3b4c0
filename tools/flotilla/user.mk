PROGRAMS += flotilla
flotilla_SRCS := $(addprefix tools/flotilla/,main.c command.c value.c table.c node.c local.c service.c auth.c \
	conn.c stats.c policy.c explain.c probe.c probe_room.c probe_kernel.c monitor.c card.c \
	card_wire.c card_show.c card_device.c)
flotilla_DEPS := libflotilla
flotilla_PKGS := jansson libmnl

MANPAGES += tools/flotilla/flotilla.8
COMPLETIONS += tools/flotilla/flotilla.bash
