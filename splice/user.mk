LIBRARIES += libsksplice
libsksplice_SRCS := splice/lib/sksplice.c
MANPAGES += splice/lib/libsksplice.3
