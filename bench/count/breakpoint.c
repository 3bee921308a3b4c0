// SPDX-License-Identifier: GPL-2.0
/*
 * The functions that copy between kernel and program live in the kernel's lib/, which is built
 * without ftrace: fentry cannot reach them, and kprobe events refuse them unless the kernel has
 * CONFIG_KPROBE_EVENTS_ON_NOTRACE, which distributions leave out. The CPU's own breakpoints do
 * reach them.
 */
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "bench/count/breakpoint.h"

/* Where the kernel's own (not a module's) @function begins; 0: nowhere, or we may not know. */
static uint64_t address_of(const char *function)
{
	unsigned long long address;
	uint64_t found = 0;
	char line[512], name[256], type;
	FILE *symbols = fopen("/proc/kallsyms", "r");

	while (symbols && !found && fgets(line, sizeof(line), symbols)) {
		if (sscanf(line, "%llx %c %255s", &address, &type, name) == 3 && !strcmp(name, function) &&
		    !strchr(line, '['))
			found = address;
	}
	if (symbols)
		fclose(symbols);
	return found;
}

static int open_on(uint64_t address, int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.sample_period = 1,
		.bp_type = HW_BREAKPOINT_X,
		.bp_addr = address,
		.bp_len = sizeof(long),
		.exclude_user = 1,
	};

	return syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* On each CPU that is there; 0, or a negative errno with nothing left behind of this call's. */
int breakpoint_attach(struct breakpoints *bp, struct bpf_program *prog, const char *function, int cpus)
{
	uint64_t address = address_of(function);
	int fd, err, begin = bp->n;
	struct bpf_link **links;

	if (!address)
		return -ENOENT;
	links = reallocarray(bp->links, bp->n + cpus, sizeof(*links));
	if (!links)
		return -ENOMEM;
	bp->links = links;
	for (int cpu = 0; cpu < cpus; cpu++) {
		fd = open_on(address, cpu);
		if (fd < 0 && errno == ENODEV)
			continue;	/* possible, not there */
		err = -errno;
		if (fd < 0)
			goto undo;
		links[bp->n] = bpf_program__attach_perf_event(prog, fd);
		if (!links[bp->n]) {
			err = -errno;
			close(fd);
			goto undo;
		}
		bp->n++;
	}
	return 0;

undo:
	while (bp->n > begin)
		bpf_link__destroy(bp->links[--bp->n]);
	return err;
}

void breakpoint_detach(struct breakpoints *bp)
{
	while (bp->n > 0)
		bpf_link__destroy(bp->links[--bp->n]);
	free(bp->links);
	bp->links = NULL;
}
