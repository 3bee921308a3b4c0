LIBRARIES += libhandoff
libhandoff_ABOUT := Flotilla: hand established TCP connections to other nodes
libhandoff_SRCS := handoff/lib/handoff.c
MANPAGES += handoff/handoff.4 handoff/lib/libhandoff.3

# The smallest dispatcher and a client that checks every byte, for the tests of this room.
TEST_PROGRAMS += handoff-dispatch handoff-client
handoff-dispatch_SRCS := handoff/tests/lib/dispatch.c handoff/tests/lib/program.c
handoff-dispatch_DEPS := libhandoff
handoff-client_SRCS := handoff/tests/lib/client.c handoff/tests/lib/program.c handoff/tests/lib/secure.c
handoff-client_PKGS := openssl
TEST_PROGRAMS += handoff-passer handoff-callers
handoff-passer_SRCS := handoff/tests/lib/passer.c handoff/tests/lib/program.c
handoff-passer_DEPS := libhandoff
handoff-callers_SRCS := handoff/tests/lib/callers.c handoff/tests/lib/program.c
TEST_PROGRAMS += handoff-move-race
handoff-move-race_SRCS := handoff/tests/lib/move_race.c
handoff-move-race_LIBS := -lpthread
TEST_PROGRAMS += handoff-flood
handoff-flood_SRCS := handoff/tests/lib/flood.c
TEST_PROGRAMS += policy-ways
policy-ways_SRCS := handoff/tests/lib/ways.c
policy-ways_LIBS := -luring

# A policy that is a BPF program, and what registers it. Debian 12's libbpf cannot.
TEST_PROGRAMS += policy-load
policy-load_SRCS := handoff/examples/load.c
policy-load_LIBS := $(CACHE)/libbpf/libbpf.a -lelf -lz
$(B)/obj/handoff/examples/load.o: FLAGS += -isystem $(CACHE)/libbpf/include
$(B)/obj/handoff/examples/load.o: | $(CACHE)/libbpf/libbpf.a
$(CACHE)/libbpf/libbpf.a:
	$(Q)tools/build/kernel libbpf

handoff_policies := elsewhere empty everything forges loops nameless nonsense overruns sleeps spaced staying taken writes
tests: $(B)/gen/big.bpf.o $(handoff_policies:%=$(B)/gen/policy_%.bpf.o)

$(B)/gen/big.bpf.o: handoff/examples/big.bpf.c
$(handoff_policies:%=$(B)/gen/policy_%.bpf.o): handoff/tests/lib/policies.bpf.c
$(B)/gen/big.bpf.o $(handoff_policies:%=$(B)/gen/policy_%.bpf.o): handoff/uapi/flotilla/policy.bpf.h
	$(call say,BPF,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) -target bpf -g -O2 -Wall -I/usr/include/$(shell $(CC) -dumpmachine) -Ihandoff/uapi \
		$(patsubst policy_%.bpf.o,-DCASE_%,$(filter policy_%,$(@F))) -c -o $@ $(filter %.c,$^)
