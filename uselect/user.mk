LIBRARIES += libuselect
libuselect_SRCS := uselect/lib/region.c uselect/lib/sys.c uselect/lib/select.c uselect/lib/poll.c uselect/lib/loop.c
libuselect_LIBS := -lpthread

uselect_random_DEPS := libuselect
