/* SPDX-License-Identifier: GPL-2.0 */
/* One event for each decision: which connection, what, how it went. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM afpa

#if !defined(_AFPA_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _AFPA_TRACE_H

#include <linux/tracepoint.h>
#include <net/inet_sock.h>

#include "answer.h"
#include "request.h"

/* A request is complete: it is answered with @obj, or NULL: it is the program's. */
TRACE_EVENT(afpa_request,
	TP_PROTO(const struct sock *sk, const char *path, unsigned int len,
		 const struct afpa_object *obj),
	TP_ARGS(sk, path, len, obj),
	TP_STRUCT__entry(
		__field(__u16, port)
		__field(__u16, peer)
		__field(bool, hit)
		__field(__u64, version)
		__array(char, path, 64)
	),
	TP_fast_assign(
		unsigned int n = min_t(unsigned int, len, sizeof(__entry->path) - 1);

		__entry->port = inet_sk(sk)->inet_num;
		__entry->peer = ntohs(inet_sk(sk)->inet_dport);
		__entry->hit = obj;
		__entry->version = obj ? obj->version : 0;
		memcpy(__entry->path, path, n);
		__entry->path[n] = '\0';
	),
	TP_printk("port=%u peer=%u hit=%d version=%llu path=%s", __entry->port, __entry->peer,
		  __entry->hit, __entry->version, __entry->path)
);

/* A request is not for the cache, whatever follows: it is the program's. */
TRACE_EVENT(afpa_deferred,
	TP_PROTO(const struct sock *sk, unsigned int why),
	TP_ARGS(sk, why),
	TP_STRUCT__entry(
		__field(__u16, port)
		__field(__u16, peer)
		__field(unsigned int, why)
	),
	TP_fast_assign(
		__entry->port = inet_sk(sk)->inet_num;
		__entry->peer = ntohs(inet_sk(sk)->inet_dport);
		__entry->why = why;
	),
	TP_printk("port=%u peer=%u why=%s", __entry->port, __entry->peer,
		  __print_symbolic(__entry->why,
				   { AFPA_WHY_METHOD, "method" }, { AFPA_WHY_LINE, "line" },
				   { AFPA_WHY_PATH, "path" }, { AFPA_WHY_HOST, "host" },
				   { AFPA_WHY_FIELD, "field" },
				   { AFPA_WHY_CONNECTION, "connection" },
				   { AFPA_WHY_BODY, "body" }, { AFPA_WHY_CONDITION, "condition" },
				   { AFPA_WHY_COOKIE, "cookie" },
				   { AFPA_WHY_CREDENTIALS, "credentials" },
				   { AFPA_WHY_FRESH, "fresh" }, { AFPA_WHY_LARGE, "large" }))
);

/* An answer is over: TCP has taken all of it, or @err says why not. */
TRACE_EVENT(afpa_answered,
	TP_PROTO(const struct sock *sk, const struct afpa_answer *ans, int err),
	TP_ARGS(sk, ans, err),
	TP_STRUCT__entry(
		__field(__u16, port)
		__field(__u16, peer)
		__field(__u64, version)
		__field(__u64, bytes)
		__field(bool, closes)
		__field(int, err)
	),
	TP_fast_assign(
		__entry->port = inet_sk(sk)->inet_num;
		__entry->peer = ntohs(inet_sk(sk)->inet_dport);
		__entry->version = ans->obj->version;
		__entry->bytes = ans->pos;
		__entry->closes = ans->closes;
		__entry->err = err < 0 ? err : 0;
	),
	TP_printk("port=%u peer=%u version=%llu bytes=%llu closes=%d err=%d", __entry->port,
		  __entry->peer, __entry->version, __entry->bytes, __entry->closes, __entry->err)
);

/* A thread has read a chunk of an object's file, from @pos on, or @err says why not. */
TRACE_EVENT(afpa_read,
	TP_PROTO(const struct afpa_object *obj, u64 pos, int err),
	TP_ARGS(obj, pos, err),
	TP_STRUCT__entry(
		__field(__u64, version)
		__field(__u64, pos)
		__field(int, err)
	),
	TP_fast_assign(
		__entry->version = obj->version;
		__entry->pos = pos;
		__entry->err = err;
	),
	TP_printk("version=%llu pos=%llu err=%d", __entry->version, __entry->pos, __entry->err)
);

/* An object has left the cache: replaced, deleted, banned, flushed, expired, evicted, shrunk. */
TRACE_EVENT(afpa_gone,
	TP_PROTO(const struct afpa_object *obj, const char *why),
	TP_ARGS(obj, why),
	TP_STRUCT__entry(
		__string(why, why)
		__field(__u64, version)
		__field(__u64, charged)
		__field(bool, automatic)
		__array(char, path, 64)
	),
	TP_fast_assign(
		unsigned int n = min_t(unsigned int, obj->key.path_len, sizeof(__entry->path) - 1);

		__assign_str(why);
		__entry->version = obj->version;
		__entry->charged = obj->charged;
		__entry->automatic = obj->automatic;
		memcpy(__entry->path, obj->key.path, n);
		__entry->path[n] = '\0';
	),
	TP_printk("why=%s version=%llu charged=%llu automatic=%d path=%s", __get_str(why),
		  __entry->version, __entry->charged, __entry->automatic, __entry->path)
);

/* A command for a cache: this node's for @node's (@asks), or the other way round, and its end. */
TRACE_EVENT(afpa_remote,
	TP_PROTO(const char *node, u8 number, bool asks, int err),
	TP_ARGS(node, number, asks, err),
	TP_STRUCT__entry(
		__string(node, node)
		__field(u8, number)
		__field(bool, asks)
		__field(int, err)
	),
	TP_fast_assign(
		__assign_str(node);
		__entry->number = number;
		__entry->asks = asks;
		__entry->err = err;
	),
	TP_printk("node=%s number=%u asks=%d err=%d", __get_str(node), __entry->number,
		  __entry->asks, __entry->err)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
