/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoints: one at each decision about a node, a link or a message. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM flotilla

#if !defined(FLT_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define FLT_TRACE_H

#include <linux/tracepoint.h>
#include "chan.h"
#include "node.h"

#define flt_show_event(e) __print_symbolic(e,		\
	{ FLT_EVENT_NODE_ADDED,		"added" },	\
	{ FLT_EVENT_NODE_REMOVED,	"removed" },	\
	{ FLT_EVENT_NODE_CHANGED,	"changed" },	\
	{ FLT_EVENT_NODE_UP,		"up" },		\
	{ FLT_EVENT_NODE_DOWN,		"down" })

#define flt_show_state(s) __print_symbolic(s,		\
	{ FLT_NODE_DOWN,		"down" },	\
	{ FLT_NODE_CONNECTING,		"connecting" },	\
	{ FLT_NODE_UP,			"up" })

TRACE_EVENT(flt_node,
	TP_PROTO(const struct flt_node *node, enum flt_event event),
	TP_ARGS(node, event),
	TP_STRUCT__entry(
		__field(unsigned int, netns)
		__field(u32, id)
		__string(name, node->name)
		__field(u8, event)
		__field(u8, admin)
		__field(u32, weight)
	),
	TP_fast_assign(
		__entry->netns = node->net->ns.inum;
		__entry->id = node->id;
		__assign_str(name);
		__entry->event = event;
		__entry->admin = READ_ONCE(node->admin);
		__entry->weight = READ_ONCE(node->weight);
	),
	TP_printk("netns=%u node=%s id=%u event=%s admin=%u weight=%u",
		  __entry->netns, __get_str(name), __entry->id, flt_show_event(__entry->event),
		  __entry->admin, __entry->weight)
);

TRACE_EVENT(flt_link_state,
	TP_PROTO(const struct flt_node *node, u8 from, u8 to, u8 why),
	TP_ARGS(node, from, to, why),
	TP_STRUCT__entry(
		__field(unsigned int, netns)
		__field(u32, id)
		__string(name, node->name)
		__field(u8, from)
		__field(u8, to)
		__field(u8, why)
		__string(reason, flt_why_name(why))
	),
	TP_fast_assign(
		__entry->netns = node->net->ns.inum;
		__entry->id = node->id;
		__assign_str(name);
		__entry->from = from;
		__entry->to = to;
		__entry->why = why;
		__assign_str(reason);
	),
	TP_printk("netns=%u node=%s id=%u %s -> %s: %s",
		  __entry->netns, __get_str(name), __entry->id, flt_show_state(__entry->from),
		  flt_show_state(__entry->to), __get_str(reason))
);

TRACE_EVENT(flt_link_refused,
	TP_PROTO(const struct net *net, const union flt_addr *from, u8 why),
	TP_ARGS(net, from, why),
	TP_STRUCT__entry(
		__field(unsigned int, netns)
		__array(u8, from, sizeof(struct sockaddr_in6))
		__string(reason, flt_why_name(why))
	),
	TP_fast_assign(
		__entry->netns = net->ns.inum;
		memcpy(__entry->from, from, sizeof(struct sockaddr_in6));
		__assign_str(reason);
	),
	TP_printk("netns=%u from=%pISpc: %s", __entry->netns, __entry->from, __get_str(reason))
);

TRACE_EVENT(flt_msg_refused,
	TP_PROTO(const struct flt_node *node, u8 type, u32 len, u8 why),
	TP_ARGS(node, type, len, why),
	TP_STRUCT__entry(
		__field(unsigned int, netns)
		__field(u32, id)
		__string(name, node->name)
		__field(u8, type)
		__field(u32, len)
		__string(reason, flt_why_name(why))
	),
	TP_fast_assign(
		__entry->netns = node->net->ns.inum;
		__entry->id = node->id;
		__assign_str(name);
		__entry->type = type;
		__entry->len = len;
		__assign_str(reason);
	),
	TP_printk("netns=%u node=%s id=%u type=0x%02x len=%u: %s", __entry->netns,
		  __get_str(name), __entry->id, __entry->type, __entry->len,
		  __get_str(reason))
);

TRACE_EVENT(flt_link_auth,
	TP_PROTO(const struct flt_node *node, bool client, int status),
	TP_ARGS(node, client, status),
	TP_STRUCT__entry(
		__field(unsigned int, netns)
		__field(u32, id)
		__string(name, node->name)
		__field(bool, client)
		__field(int, status)
	),
	TP_fast_assign(
		__entry->netns = node->net->ns.inum;
		__entry->id = node->id;
		__assign_str(name);
		__entry->client = client;
		__entry->status = status;
	),
	TP_printk("netns=%u node=%s id=%u %s status=%d", __entry->netns, __get_str(name),
		  __entry->id, __entry->client ? "client" : "server", __entry->status)
);

#endif /* FLT_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
