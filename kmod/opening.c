// SPDX-License-Identifier: GPL-2.0
/* Checkpoints of connections that never had a socket here. */
#include <linux/log2.h>
#include <linux/module.h>
#include <net/tcp.h>
#include "adopt.h"
#include "checkpoint.h"
#include "opening.h"

/* What tcp_select_initial_window() makes of it, which is not exported. */
bool flt_door_of(const struct sock *listener, struct flt_door *door)
{
	const struct tcp_sock *tp = tcp_sk(listener);
	const struct net *net = sock_net(listener);
	u32 space = max(tcp_full_space(listener), 0);
	u32 clamp = READ_ONCE(tp->window_clamp) ?: U16_MAX << TCP_MAX_WSCALE;
	u32 most;

	if (flt_listener_wants_signatures(listener))
		return false;
	if (listener->sk_userlocks & SOCK_RCVBUF_LOCK)
		clamp = min(clamp, space);
	space = min(space, clamp);
	if (READ_ONCE(net->ipv4.sysctl_tcp_workaround_signed_windows))
		space = min_t(u32, space, MAX_TCP_WINDOW);
	most = max_t(u32, space, READ_ONCE(net->ipv4.sysctl_tcp_rmem[2]));
	most = min(max_t(u32, most, READ_ONCE(sysctl_rmem_max)), clamp);
	if (!most)
		return false;
	door->scale = clamp_t(int, ilog2(most) - 15, 0, TCP_MAX_WSCALE);
	door->clamp = min_t(u32, U16_MAX << door->scale, clamp);
	door->space = space;
	return space;
}
EXPORT_SYMBOL_GPL(flt_door_of);

static void flt_opening_state(const struct flt_opening *o, u32 len, struct flt_state *state)
{
	*state = (struct flt_state){
		.tuple = o->tuple,
		.flags = FLT_WIRE_ACK_PENDING | (o->wscale ? FLT_WIRE_WSCALE : 0) |
			 (o->sack ? FLT_WIRE_SACK : 0) | (o->timestamp ? FLT_WIRE_TIMESTAMP : 0),
		.mss_clamp = o->mss,
		.snd_wscale = o->snd_wscale,
		.rcv_wscale = o->scale,
		.snd_una = o->ack,
		.snd_nxt = o->ack,
		.write_seq = o->ack,
		.snd_wnd = o->window,
		.snd_wl1 = o->seq,
		.max_window = o->window,
		.rcv_start = o->seq,
		.unread = len,
		.rcv_wup = o->seq,
		.rcv_wnd = o->promised,
		.rcv_ssthresh = o->promised,
		.window_clamp = o->clamp,
		.ts_recent = o->timestamp ? o->ts_recent : 0,
		.tsval = o->timestamp ? o->tsval : 0,
	};
}

struct flt_checkpoint *flt_opening_checkpoint(const struct flt_opening *o,
					      const struct sk_buff *skb, unsigned int offset,
					      u32 len, const char **data)
{
	struct flt_checkpoint *ckpt;
	struct flt_state state;
	struct flt_wire *wire;

	if (!len || len > o->promised)
		return NULL;
	flt_opening_state(o, len, &state);
	ckpt = kmalloc(struct_size(ckpt, wire, flt_wire_len(&state)),
		       GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOWARN);
	if (!ckpt)
		return NULL;
	ckpt->tuple = o->tuple;
	ckpt->len = flt_wire_len(&state);
	wire = (struct flt_wire *)ckpt->wire;
	if (skb_copy_bits(skb, offset, wire + 1, len)) {
		kfree(ckpt);
		return NULL;
	}
	flt_wire_encode(wire, &state);
	*data = (const char *)(wire + 1);
	return ckpt;
}
EXPORT_SYMBOL_GPL(flt_opening_checkpoint);
