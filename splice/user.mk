LIBRARIES += libsksplice
libsksplice_ABOUT := Flotilla: sockets joined in the kernel
libsksplice_SRCS := splice/lib/sksplice.c

splice_sessions_SRCS := splice/tests/lib/session.c splice/tests/lib/pattern.c
splice_sessions_DEPS := libsksplice

splice_uselect_SRCS := splice/tests/lib/pattern.c
splice_uselect_DEPS := libsksplice libuselect
splice_uselect_LIBS := -lpthread
MANPAGES += splice/lib/libsksplice.3 splice/sksplice.4
