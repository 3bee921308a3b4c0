/* SPDX-License-Identifier: GPL-2.0 */
/* One event for each decision. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM iolite

#if !defined(_IOL_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _IOL_TRACE_H

#include <linux/tracepoint.h>

DECLARE_EVENT_CLASS(iol_buffer,
	TP_PROTO(u64 pool, unsigned long pgoff, unsigned int npages, u64 generation),
	TP_ARGS(pool, pgoff, npages, generation),
	TP_STRUCT__entry(
		__field(u64, pool)
		__field(unsigned long, pgoff)
		__field(unsigned int, npages)
		__field(u64, generation)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->pgoff = pgoff;
		__entry->npages = npages;
		__entry->generation = generation;
	),
	TP_printk("pool=%llu page=%lx pages=%u generation=%llu", __entry->pool, __entry->pgoff,
		  __entry->npages, __entry->generation)
);

DEFINE_EVENT(iol_buffer, iol_alloc,
	TP_PROTO(u64 pool, unsigned long pgoff, unsigned int npages, u64 generation),
	TP_ARGS(pool, pgoff, npages, generation)
);

DEFINE_EVENT(iol_buffer, iol_seal,
	TP_PROTO(u64 pool, unsigned long pgoff, unsigned int npages, u64 generation),
	TP_ARGS(pool, pgoff, npages, generation)
);

TRACE_EVENT(iol_grant,
	TP_PROTO(u64 domain, u64 pool),
	TP_ARGS(domain, pool),
	TP_STRUCT__entry(
		__field(u64, domain)
		__field(u64, pool)
	),
	TP_fast_assign(
		__entry->domain = domain;
		__entry->pool = pool;
	),
	TP_printk("domain=%llu may read pool=%llu", __entry->domain, __entry->pool)
);

/* A page fault that was refused; fill tells which mapping. */
TRACE_EVENT(iol_fault_refused,
	TP_PROTO(u64 domain, unsigned long pgoff, bool fill),
	TP_ARGS(domain, pgoff, fill),
	TP_STRUCT__entry(
		__field(u64, domain)
		__field(unsigned long, pgoff)
		__field(bool, fill)
	),
	TP_fast_assign(
		__entry->domain = domain;
		__entry->pgoff = pgoff;
		__entry->fill = fill;
	),
	TP_printk("domain=%llu page=%lx fill=%d", __entry->domain, __entry->pgoff, __entry->fill)
);

/* A call that ended: bytes by reference or a negative errno. */
TRACE_EVENT(iol_io,
	TP_PROTO(u64 domain, bool write, umode_t mode, ssize_t result),
	TP_ARGS(domain, write, mode, result),
	TP_STRUCT__entry(
		__field(u64, domain)
		__field(bool, write)
		__field(umode_t, mode)
		__field(ssize_t, result)
	),
	TP_fast_assign(
		__entry->domain = domain;
		__entry->write = write;
		__entry->mode = mode;
		__entry->result = result;
	),
	TP_printk("domain=%llu %s mode=%o result=%zd", __entry->domain,
		  __entry->write ? "write" : "read", __entry->mode, __entry->result)
);

#endif

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
