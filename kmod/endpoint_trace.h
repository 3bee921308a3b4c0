/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoints of endpoints: one for each thing that can be done with one, saying why not. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM flotilla

#if !defined(FLT_ENDPOINT_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define FLT_ENDPOINT_TRACE_H

#include <linux/in6.h>
#include <linux/tracepoint.h>
#include "endpoint.h"

#ifndef FLT_ENDPOINT_TRACE_ADDR
#define FLT_ENDPOINT_TRACE_ADDR
/* In the form that %pISpc prints. */
static inline void flt_trace_addr(void *to, u16 family, __be16 port, const u8 *addr)
{
	struct sockaddr_in6 *v6 = to;
	struct sockaddr_in *v4 = to;

	memset(to, 0, sizeof(*v6));
	if (family == AF_INET) {
		v4->sin_family = AF_INET;
		v4->sin_port = port;
		memcpy(&v4->sin_addr, addr, sizeof(v4->sin_addr));
	} else {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = port;
		memcpy(&v6->sin6_addr, addr, sizeof(v6->sin6_addr));
	}
}
#endif

DECLARE_EVENT_CLASS(flt_endpoint,
	TP_PROTO(const struct flt_tuple *tuple, u32 unread, enum flt_refusal why),
	TP_ARGS(tuple, unread, why),
	TP_STRUCT__entry(
		__array(u8, client, sizeof(struct sockaddr_in6))
		__array(u8, server, sizeof(struct sockaddr_in6))
		__field(u32, unread)
		__field(u8, why)
		__string(name, flt_refusal_name(why))
	),
	TP_fast_assign(
		flt_trace_addr(__entry->client, tuple->family, tuple->client_port,
			       tuple->client);
		flt_trace_addr(__entry->server, tuple->family, tuple->server_port,
			       tuple->server);
		__entry->unread = unread;
		__entry->why = why;
		__assign_str(name);
	),
	TP_printk("client=%pISpc server=%pISpc unread=%u refusal=%u (%s)", __entry->client,
		  __entry->server, __entry->unread, __entry->why, __get_str(name))
);

/* On the giver: copied out, or cannot move. */
DEFINE_EVENT(flt_endpoint, flt_endpoint_checkpoint,
	TP_PROTO(const struct flt_tuple *tuple, u32 unread, enum flt_refusal why),
	TP_ARGS(tuple, unread, why)
);

/* On the giver: it stands still until it is known whose it is. */
DEFINE_EVENT(flt_endpoint, flt_endpoint_freeze,
	TP_PROTO(const struct flt_tuple *tuple, u32 unread, enum flt_refusal why),
	TP_ARGS(tuple, unread, why)
);

/* On the giver: it stays, and goes on. */
DEFINE_EVENT(flt_endpoint, flt_endpoint_thaw,
	TP_PROTO(const struct flt_tuple *tuple, u32 unread, enum flt_refusal why),
	TP_ARGS(tuple, unread, why)
);

/* On the giver: let go; the unread bytes are elsewhere now. */
DEFINE_EVENT(flt_endpoint, flt_endpoint_release,
	TP_PROTO(const struct flt_tuple *tuple, u32 unread, enum flt_refusal why),
	TP_ARGS(tuple, unread, why)
);

/* On the taker: built and parked, or refused. */
DEFINE_EVENT(flt_endpoint, flt_endpoint_adopt,
	TP_PROTO(const struct flt_tuple *tuple, u32 unread, enum flt_refusal why),
	TP_ARGS(tuple, unread, why)
);

/* On the taker: in the accept queue, or reset since nobody listens any more. */
DEFINE_EVENT(flt_endpoint, flt_adoption_commit,
	TP_PROTO(const struct flt_tuple *tuple, u32 unread, enum flt_refusal why),
	TP_ARGS(tuple, unread, why)
);

/* On the taker: gone without a trace. */
DEFINE_EVENT(flt_endpoint, flt_adoption_abort,
	TP_PROTO(const struct flt_tuple *tuple, u32 unread, enum flt_refusal why),
	TP_ARGS(tuple, unread, why)
);

/* Both at once: to another listener of this machine, or where it was. */
DEFINE_EVENT(flt_endpoint, flt_endpoint_requeue,
	TP_PROTO(const struct flt_tuple *tuple, u32 unread, enum flt_refusal why),
	TP_ARGS(tuple, unread, why)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH kmod
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE endpoint_trace
#include <trace/define_trace.h>
