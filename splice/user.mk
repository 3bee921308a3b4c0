LIBRARIES += libsksplice
libsksplice_SRCS := splice/lib/sksplice.c

splice_sessions_SRCS := splice/tests/lib/session.c splice/tests/lib/pattern.c
splice_sessions_DEPS := libsksplice
MANPAGES += splice/lib/libsksplice.3
