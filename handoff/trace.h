/* SPDX-License-Identifier: GPL-2.0 */
/* One event for each decision: which connection, what, why. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM handoff

#if !defined(_HOF_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _HOF_TRACE_H

#include <linux/tracepoint.h>
#include <flotilla/flotilla.h>

#include "assign.h"
#include "entry.h"
#include "message.h"
#include "redirect.h"

DECLARE_EVENT_CLASS(hof_connection,
	TP_PROTO(const struct flt_tuple *tuple, u64 id, u32 node, u32 value),
	TP_ARGS(tuple, id, node, value),
	TP_STRUCT__entry(
		/* IPv4 addresses mapped, so that one format prints both */
		__array(__u8, client, 16)
		__array(__u8, server, 16)
		__field(__u16, client_port)
		__field(__u16, server_port)
		__field(__u64, id)
		__field(__u32, node)
		__field(__u32, value)
	),
	TP_fast_assign(
		hof_tuple_map(tuple, __entry->client, __entry->server);
		__entry->client_port = ntohs(tuple->client_port);
		__entry->server_port = ntohs(tuple->server_port);
		__entry->id = id;
		__entry->node = node;
		__entry->value = value;
	),
	TP_printk("%pI6c:%u -> %pI6c:%u id=%llx node=%u refusal=%u",
		  __entry->client, __entry->client_port, __entry->server, __entry->server_port,
		  __entry->id, __entry->node, __entry->value)
);

/* The giver: a connection was submitted; 0: it is on its way. */
DEFINE_EVENT(hof_connection, hof_submit,
	TP_PROTO(const struct flt_tuple *tuple, u64 id, u32 node, u32 value),
	TP_ARGS(tuple, id, node, value)
);

/* The giver: decided; 0: the node owns the connection now. */
DEFINE_EVENT(hof_connection, hof_settle,
	TP_PROTO(const struct flt_tuple *tuple, u64 id, u32 node, u32 value),
	TP_ARGS(tuple, id, node, value)
);

/* The taker: built, or refused (then its addresses are not known: zeros). */
DEFINE_EVENT(hof_connection, hof_adopt,
	TP_PROTO(const struct flt_tuple *tuple, u64 id, u32 node, u32 value),
	TP_ARGS(tuple, id, node, value)
);

/* The taker: acceptable now, or lost. */
DEFINE_EVENT(hof_connection, hof_commit,
	TP_PROTO(const struct flt_tuple *tuple, u64 id, u32 node, u32 value),
	TP_ARGS(tuple, id, node, value)
);

/* The taker: taken back by the giver or cut off from it. */
DEFINE_EVENT(hof_connection, hof_abort,
	TP_PROTO(const struct flt_tuple *tuple, u64 id, u32 node, u32 value),
	TP_ARGS(tuple, id, node, value)
);

/* The taker tells how the connection lives on. */
DEFINE_EVENT_PRINT(hof_connection, hof_life,
	TP_PROTO(const struct flt_tuple *tuple, u64 id, u32 node, u32 value),
	TP_ARGS(tuple, id, node, value),
	TP_printk("%pI6c:%u -> %pI6c:%u id=%llx node=%u %s",
		  __entry->client, __entry->client_port, __entry->server, __entry->server_port,
		  __entry->id, __entry->node,
		  __print_symbolic(__entry->value, { HOF_LIFE_CLOSED, "CLOSED" },
				   { HOF_LIFE_IDLE, "IDLE" }, { HOF_LIFE_BUSY, "BUSY" }))
);

/* A policy's service: what became of a request (enum hof_policy_stat); id: how many before it. */
DEFINE_EVENT_PRINT(hof_connection, hof_policy,
	TP_PROTO(const struct flt_tuple *tuple, u64 id, u32 node, u32 value),
	TP_ARGS(tuple, id, node, value),
	TP_printk("%pI6c:%u -> %pI6c:%u request=%llu node=%u %s",
		  __entry->client, __entry->client_port, __entry->server, __entry->server_port,
		  __entry->id, __entry->node,
		  __print_symbolic(__entry->value, { HOF_POLICY_MOVED, "moved" },
				   { HOF_POLICY_STAYED, "stayed" },
				   { HOF_POLICY_STAYED_MORE, "stayed: more" },
				   { HOF_POLICY_STAYED_CAME, "stayed: came" },
				   { HOF_POLICY_STAYED_HOPS, "stayed: hops" },
				   { HOF_POLICY_STAYED_UNSURE, "stayed: unsure" },
				   { HOF_POLICY_STAYED_ENDED, "stayed: ended" },
				   { HOF_POLICY_STAYED_TARGET, "stayed: target" },
				   { HOF_POLICY_STAYED_REFUSED, "stayed: refused" },
				   { HOF_POLICY_STAYED_PLAIN, "stayed: plain" }))
);

/* A service with admission (enum hof_admit_stat); id: how many more would be tagged now. */
DEFINE_EVENT_PRINT(hof_connection, hof_admit,
	TP_PROTO(const struct flt_tuple *tuple, u64 id, u32 node, u32 value),
	TP_ARGS(tuple, id, node, value),
	TP_printk("%pI6c:%u -> %pI6c:%u window=%llu node=%u %s",
		  __entry->client, __entry->client_port, __entry->server, __entry->server_port,
		  __entry->id, __entry->node,
		  __print_symbolic(__entry->value, { HOF_ADMIT_TAGGED, "tagged" },
				   { HOF_ADMIT_MOVED, "moved" },
				   { HOF_ADMIT_REJECTED, "rejected" },
				   { HOF_ADMIT_KEPT, "kept" },
				   { HOF_ADMIT_DROPPED, "dropped" },
				   { HOF_ADMIT_CLOSED, "closed" },
				   { HOF_ADMIT_NOTIFIED, "opened: notified" },
				   { HOF_ADMIT_AGAIN, "opened: again" }))
);

/* A SYN of a service with a rule (enum hof_redirect_stat); id: the service's load here. */
DEFINE_EVENT_PRINT(hof_connection, hof_redirect,
	TP_PROTO(const struct flt_tuple *tuple, u64 id, u32 node, u32 value),
	TP_ARGS(tuple, id, node, value),
	TP_printk("%pI6c:%u -> %pI6c:%u load=%llu node=%u %s",
		  __entry->client, __entry->client_port, __entry->server, __entry->server_port,
		  __entry->id, __entry->node,
		  __print_symbolic(__entry->value, { HOF_REDIRECT_SENT, "sent" },
				   { HOF_REDIRECT_SILENT, "stayed: silent" },
				   { HOF_REDIRECT_NONE, "stayed: none" },
				   { HOF_REDIRECT_HEAVY, "stayed: heavy" },
				   { HOF_REDIRECT_FULL, "stayed: full" },
				   { HOF_REDIRECT_NO_ROUTE, "stayed: noroute" },
				   { HOF_REDIRECT_TAKEN, "taken" },
				   { HOF_REDIRECT_REFUSED, "refused" }))
);

/* A forwarding entry enters a state; GONE is its end. */
DEFINE_EVENT_PRINT(hof_connection, hof_entry,
	TP_PROTO(const struct flt_tuple *tuple, u64 id, u32 node, u32 value),
	TP_ARGS(tuple, id, node, value),
	TP_printk("%pI6c:%u -> %pI6c:%u id=%llx node=%u state=%s",
		  __entry->client, __entry->client_port, __entry->server, __entry->server_port,
		  __entry->id, __entry->node,
		  __print_symbolic(__entry->value, { HOF_HOLD, "HOLD" },
				   { HOF_FORWARD, "FORWARD" }, { HOF_LINGER, "LINGER" },
				   { HOF_DEAD, "DEAD" }, { HOF_GONE, "GONE" }))
);

#endif /* _HOF_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
