attack_calls_SRCS := tools/testing/tests/lib/calls.c tools/testing/tests/lib/devices.c tools/testing/tests/lib/genl.c
attack_calls_LIBS := -lpthread
