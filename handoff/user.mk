LIBRARIES += libhandoff
libhandoff_SRCS := handoff/lib/handoff.c
