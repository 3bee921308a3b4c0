/* SPDX-License-Identifier: GPL-2.0 */
/* Breakpoints of the CPU on functions of the kernel, each running a BPF program. See breakpoint.c. */
#ifndef FLT_COUNT_BREAKPOINT_H
#define FLT_COUNT_BREAKPOINT_H

#include <bpf/libbpf.h>


struct breakpoints {
	struct bpf_link **links;
	int n;
};

int breakpoint_attach(struct breakpoints *bp, struct bpf_program *prog, const char *function, int cpus);
void breakpoint_detach(struct breakpoints *bp);

#endif
