# SPDX-License-Identifier: GPL-2.0
# count: BPF programs that any kernel with BTF takes; their types are those of the guest's kernel.
LOCAL_PROGRAMS += count
count_SRCS := bench/count/main.c bench/count/breakpoint.c bench/count/process.c bench/count/calls.c
count_PKGS := libbpf

# The image that guests boot, or the running kernel where there is none.
bench_image = $(firstword $(wildcard $(CACHE)/kernel/current/boot/vmlinuz-*))

$(B)/gen/vmlinux.h: $(wildcard $(CACHE)/kernel/current/version) | $(CACHE_HEADERS)/kselftest_harness.h
	$(call say,BTF,$@)
	@mkdir -p $(@D)
	$(Q)if [ -n "$(bench_image)" ]; then \
		sh $(CACHE_HEADERS)/extract-vmlinux $(bench_image) >$(B)/gen/vmlinux; \
	else cp /sys/kernel/btf/vmlinux $(B)/gen/vmlinux; fi
	$(Q)$(BPFTOOL) btf dump file $(B)/gen/vmlinux format c >$@
	@rm -f $(B)/gen/vmlinux

$(B)/gen/count.bpf.o: bench/count/count.bpf.c bench/count/count.h $(B)/gen/vmlinux.h
	$(call say,BPF,$<)
	$(Q)$(CLANG) -target bpf -D__TARGET_ARCH_x86 -g -O2 -Wall -I$(B)/gen -Ibench/count -c -o $@ $<

$(B)/gen/count.skel.h: $(B)/gen/count.bpf.o
	$(Q)$(BPFTOOL) gen skeleton $< name count_bpf >$@

$(B)/obj/bench/count/main.o: $(B)/gen/count.skel.h

TEST_PROGRAMS += uselect-bench
uselect-bench_SRCS := bench/uselect/main.c bench/uselect/load.c bench/uselect/wait.c bench/uselect/complete.c
uselect-bench_DEPS := libuselect
uselect-bench_LIBS := -luring -lpthread
uselect-bench_LDFLAGS := -Wl,--wrap=syscall

# What bench/splice/relays runs in its guest.
TEST_PROGRAMS += bench_relay bench_relay_load
bench_relay_SRCS := bench/splice/relay.c bench/splice/sockmap.c
bench_relay_DEPS := libsksplice
bench_relay_load_SRCS := bench/splice/load.c bench/splice/busy.c

# What bench/mix/run runs in its guest.
TEST_PROGRAMS += mix-proxy mix-origin mix-load
mix-proxy_SRCS := bench/mix/proxy.c bench/mix/common.c bench/uselect/wait.c
mix-proxy_DEPS := libuselect libsksplice
mix-proxy_LIBS := -luring
mix-proxy_LDFLAGS := -Wl,--wrap=syscall
mix-origin_SRCS := bench/mix/origin.c bench/mix/common.c bench/mix/due.c
mix-origin_LIBS := -lm
mix-load_SRCS := bench/mix/load.c bench/mix/common.c bench/mix/due.c bench/splice/busy.c
mix-load_LIBS := -lm

# What bench/moves/run runs in its guest.
TEST_PROGRAMS += moves-bench
moves-bench_SRCS := bench/moves/moves.c bench/moves/steps.c bench/moves/actor.c bench/program.c
moves-bench_DEPS := libhandoff
moves-bench_LIBS := -lpthread

# Loads, servers and the profile: for the benches alone, not installed.
tests: $(B)/bench/load $(B)/bench/turns $(B)/bench/pace $(B)/bench/serve $(B)/bench/offer $(B)/bench/flood $(B)/bench/howl $(B)/bench/profile.so $(B)/bench/marks.so \
	$(B)/bench/shortcut.bpf.o $(B)/bench/patient.bpf.o

$(B)/bench/load $(B)/bench/turns: $(B)/bench/%: bench/pathlen/%.c
$(B)/bench/load: bench/pathlen/secure.c bench/pathlen/secure.h
$(B)/bench/load: LIBS := -lssl -lcrypto
$(B)/bench/pace: $(B)/bench/%: bench/turns/%.c
$(B)/bench/serve $(B)/bench/offer: $(B)/bench/%: bench/migration/%.c bench/migration/web.h
$(B)/bench/flood: bench/flood/flood.c
$(B)/bench/howl: bench/howl/howl.c bench/howl/ring.c bench/howl/howl.h
$(B)/bench/pace $(B)/bench/serve $(B)/bench/offer $(B)/bench/flood $(B)/bench/howl: bench/program.c bench/program.h
$(B)/bench/serve: LIBS := -lpthread
$(B)/bench/howl: LIBS := -luring
$(B)/bench/offer $(B)/bench/flood: LIBS := -lm
$(B)/bench/load $(B)/bench/turns $(B)/bench/pace $(B)/bench/serve $(B)/bench/offer $(B)/bench/flood $(B)/bench/howl:
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -D_GNU_SOURCE -o $@ $(filter %.c,$^) $(LIBS)

# QEMU resolves what it uses of QEMU.
$(B)/bench/profile.so: bench/pathlen/profile.c
$(B)/bench/marks.so: bench/moves/marks.c bench/moves/marks.h
$(B)/bench/profile.so $(B)/bench/marks.so:
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -D_GNU_SOURCE -fPIC -fvisibility=hidden -shared -o $@ $(filter %.c,$^) -lpthread

$(B)/bench/shortcut.bpf.o $(B)/bench/patient.bpf.o: $(B)/bench/%.bpf.o: bench/pathlen/%.bpf.c $(B)/gen/vmlinux.h
	$(call say,BPF,$<)
	@mkdir -p $(@D)
	$(Q)$(CLANG) -target bpf -D__TARGET_ARCH_x86 -g -O2 -Wall -I$(B)/gen -c -o $@ $<
