LIBRARIES += libiolite
libiolite_ABOUT := Flotilla: one copy of data for file cache, processes and sockets
libiolite_SRCS := iolite/lib/process.c iolite/lib/buffer.c iolite/lib/allocator.c iolite/lib/aggregate.c \
	iolite/lib/context.c iolite/lib/digest.c iolite/lib/io.c
libiolite_LIBS := -lpthread
MANPAGES += iolite/man/libiolite.3 iolite/man/iolite.4 iolite/man/iolite-utils.1
MANLINKS += $(foreach p,cat fcgi grep permute wc,iol-$(p).1=iolite-utils.1)

iolite_aggregate_DEPS := libiolite
iolite_aggregate_LIBS := -lcmocka
iolite_pass_DEPS := libiolite
iolite_files_DEPS := libiolite
iolite_calls_DEPS := libiolite
iolite_calls_LIBS := -lpthread
iolite_denied_DEPS := libiolite
iolite_sharing_DEPS := libiolite
iolite_hits_DEPS := libiolite
iolite_cold_DEPS := libiolite
iolite_coherence_DEPS := libiolite
iolite_coherence_LIBS := -luring
iolite_stale_DEPS := libiolite
iolite_stale_LIBS := -luring
iolite_attack_LIBS := -lpthread
iolite_holds_LIBS := -lpthread
iolite_net_DEPS := libiolite
iolite_death_DEPS := libiolite
iolite_pressure_DEPS := libiolite
iolite_policy_DEPS := libiolite

# Programs of the paper, converted
PROGRAMS += iol-cat iol-wc iol-grep iol-permute iol-fcgi
iol-cat_SRCS := iolite/tools/cat.c
iol-wc_SRCS := iolite/tools/wc.c
iol-grep_SRCS := iolite/tools/grep.c
iol-permute_SRCS := iolite/tools/permute.c
iol-fcgi_SRCS := iolite/tools/fcgi.c iolite/tools/document.c
iol-cat_DEPS := libiolite
iol-wc_DEPS := libiolite
iol-grep_DEPS := libiolite
iol-permute_DEPS := libiolite
iol-fcgi_DEPS := libiolite

# Streams of stdio by reference, for LD_PRELOAD or -liolstdio
LIBRARIES += libiolstdio
libiolstdio_ABOUT := Flotilla: streams of stdio by reference
libiolstdio_SRCS := iolite/lib/stdio.c iolite/lib/stream.c
libiolstdio_DEPS := libiolite
iolite_stdio_DEPS := libiolstdio
iolite_stdio_LIBS := -lcmocka

# What bench/iolite/relays and policies run in their guests
TEST_PROGRAMS += iol-relay iol-trace
iol-trace_SRCS := bench/iolite/trace.c lard/sim/trace.c
iol-trace_DEPS := libiolite
iol-relay_SRCS := bench/iolite/relay.c
iol-relay_DEPS := libiolite
