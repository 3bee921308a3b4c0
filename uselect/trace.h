/* SPDX-License-Identifier: GPL-2.0 */
/* One event for each decision: which descriptor, what, why. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM uselect

#if !defined(_USEL_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _USEL_TRACE_H

#include <linux/tracepoint.h>
#include <net/sock.h>

#include "sock.h"

/* From now on the bits of @fd are right. */
TRACE_EVENT(usel_track,
	TP_PROTO(const struct sock *sk, unsigned int fd, bool guessed),
	TP_ARGS(sk, fd, guessed),
	TP_STRUCT__entry(
		__field(const void *, sk)
		__field(unsigned int, fd)
		__field(bool, guessed)
	),
	TP_fast_assign(
		__entry->sk = sk;
		__entry->fd = fd;
		__entry->guessed = guessed;
	),
	TP_printk("sk=%p fd=%u guessed=%d", __entry->sk, __entry->fd, __entry->guessed)
);

TRACE_EVENT(usel_untrack,
	TP_PROTO(const struct sock *sk, unsigned int fd, enum usel_why why),
	TP_ARGS(sk, fd, why),
	TP_STRUCT__entry(
		__field(const void *, sk)
		__field(unsigned int, fd)
		__field(int, why)
	),
	TP_fast_assign(
		__entry->sk = sk;
		__entry->fd = fd;
		__entry->why = why;
	),
	TP_printk("sk=%p fd=%u why=%s", __entry->sk, __entry->fd,
		  __print_symbolic(__entry->why,
				   { USEL_WHY_CLOSE, "close" },
				   { USEL_WHY_REUSED, "reused" },
				   { USEL_WHY_FORGET, "forget" },
				   { USEL_WHY_END, "end" },
				   { USEL_WHY_FOREIGN, "foreign" },
				   { USEL_WHY_WRONG, "wrong" }))
);

/* A wanted thing happened and somebody slept. */
TRACE_EVENT(usel_wake,
	TP_PROTO(unsigned int fd, unsigned int what),
	TP_ARGS(fd, what),
	TP_STRUCT__entry(
		__field(unsigned int, fd)
		__field(unsigned int, what)
	),
	TP_fast_assign(
		__entry->fd = fd;
		__entry->what = what;
	),
	TP_printk("fd=%u what=%s", __entry->fd,
		  __print_flags(__entry->what, "|", { 1, "R" }, { 2, "W" }, { 4, "E" }))
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
