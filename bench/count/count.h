/* SPDX-License-Identifier: GPL-2.0 */
/* What count.bpf.c counts, in the order of its array. */
#ifndef FLT_COUNT_H
#define FLT_COUNT_H

enum count_what {
	COUNT_SYSCALLS,
	COUNT_SWITCHES_WAIT,	/* gave the CPU away to wait */
	COUNT_SWITCHES_FORCED,	/* had it taken away */
	COUNT_COPIED_TO_USER,
	COUNT_COPIED_FROM_USER,
	COUNT_PACKETS_IN,
	COUNT_PACKETS_OUT,
	COUNT_BYTES_IN,		/* TCP payload and headers as TCP sees them */
	COUNT_BYTES_OUT,
	COUNT_WHATS
};

/* System calls are also counted by number up to here. */
#define COUNT_CALLS	512

#endif
