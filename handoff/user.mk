LIBRARIES += libhandoff
libhandoff_ABOUT := Flotilla: hand established TCP connections to other nodes
libhandoff_SRCS := handoff/lib/handoff.c

# The smallest dispatcher and a client that checks every byte, for the tests of this room.
TEST_PROGRAMS += handoff-dispatch handoff-client
handoff-dispatch_SRCS := handoff/tests/lib/dispatch.c
handoff-dispatch_DEPS := libhandoff
handoff-client_SRCS := handoff/tests/lib/client.c handoff/tests/lib/secure.c
handoff-client_PKGS := openssl
TEST_PROGRAMS += handoff-move-race
handoff-move-race_SRCS := handoff/tests/lib/move_race.c
handoff-move-race_LIBS := -lpthread
TEST_PROGRAMS += policy-ways
policy-ways_SRCS := handoff/tests/lib/ways.c
policy-ways_LIBS := -luring
