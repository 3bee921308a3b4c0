/* SPDX-License-Identifier: GPL-2.0 */
/* One event for each decision: which transfer, what, why. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM sksplice

#if !defined(_SSP_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _SSP_TRACE_H

#include <linux/tracepoint.h>
#include <net/inet_sock.h>

#include "pair.h"

DECLARE_EVENT_CLASS(ssp_pair,
	TP_PROTO(const struct ssp_pair *p),
	TP_ARGS(p),
	TP_STRUCT__entry(
		__field(const void *, pair)
		__field(__u16, port0)
		__field(__u16, port1)
		__field(__u32, flags)
		__field(__u64, limit)
		__field(__u64, moved01)
		__field(__u64, moved10)
		__field(__u8, cause)
		__field(int, error)
		__field(__u32, unread)
	),
	TP_fast_assign(
		__entry->pair = p;
		__entry->port0 = ntohs(inet_sk(p->sk[0])->inet_dport);
		__entry->port1 = ntohs(inet_sk(p->sk[1])->inet_dport);
		__entry->flags = p->flags;
		__entry->limit = p->limit;
		__entry->moved01 = p->moved[0];
		__entry->moved10 = p->moved[1];
		__entry->cause = p->cause;
		__entry->error = p->error;
		__entry->unread = p->end[0]->copy_bytes;
	),
	TP_printk("pair=%p ports=%u,%u flags=%x limit=%llu moved=%llu,%llu cause=%u error=%d unread=%u",
		  __entry->pair, __entry->port0, __entry->port1, __entry->flags, __entry->limit,
		  __entry->moved01, __entry->moved10, __entry->cause, __entry->error,
		  __entry->unread)
);

DEFINE_EVENT(ssp_pair, ssp_start, TP_PROTO(const struct ssp_pair *p), TP_ARGS(p));

/* All is forwarded; a part of the copy is unread. */
DEFINE_EVENT(ssp_pair, ssp_drain, TP_PROTO(const struct ssp_pair *p), TP_ARGS(p));

/* The destination is lost; the copy goes on. */
DEFINE_EVENT(ssp_pair, ssp_sink_gone, TP_PROTO(const struct ssp_pair *p), TP_ARGS(p));

DEFINE_EVENT(ssp_pair, ssp_end, TP_PROTO(const struct ssp_pair *p), TP_ARGS(p));

/* Bytes went from the end @from to the other; @where: enum ssp_where. */
TRACE_EVENT(ssp_forward,
	TP_PROTO(const struct ssp_pair *p, int from, unsigned int bytes, int where),
	TP_ARGS(p, from, bytes, where),
	TP_STRUCT__entry(
		__field(const void *, pair)
		__field(int, from)
		__field(unsigned int, bytes)
		__field(int, where)
	),
	TP_fast_assign(
		__entry->pair = p;
		__entry->from = from;
		__entry->bytes = bytes;
		__entry->where = where;
	),
	TP_printk("pair=%p from=%d bytes=%u where=%d", __entry->pair, __entry->from,
		  __entry->bytes, __entry->where)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
