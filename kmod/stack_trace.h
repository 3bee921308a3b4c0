/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoints of the socket stack. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM flotilla

#if !defined(FLT_STACK_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define FLT_STACK_TRACE_H

#include <linux/tracepoint.h>
#include <net/sock.h>

DECLARE_EVENT_CLASS(flt_layer,
	TP_PROTO(const struct sock *sk, const char *name, int err),
	TP_ARGS(sk, name, err),
	TP_STRUCT__entry(
		__field(const void *, sk)
		__string(name, name)
		__field(int, state)
		__field(int, err)
	),
	TP_fast_assign(
		__entry->sk = sk;
		__assign_str(name);
		__entry->state = sk->sk_state;
		__entry->err = err;
	),
	TP_printk("sk=%p layer=%s state=%d err=%d",
		  __entry->sk, __get_str(name), __entry->state, __entry->err)
);

DEFINE_EVENT(flt_layer, flt_layer_add,
	TP_PROTO(const struct sock *sk, const char *name, int err),
	TP_ARGS(sk, name, err)
);

DEFINE_EVENT(flt_layer, flt_layer_inherit,
	TP_PROTO(const struct sock *sk, const char *name, int err),
	TP_ARGS(sk, name, err)
);

DEFINE_EVENT(flt_layer, flt_layer_remove,
	TP_PROTO(const struct sock *sk, const char *name, int err),
	TP_ARGS(sk, name, err)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH kmod
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE stack_trace
#include <trace/define_trace.h>
