// SPDX-License-Identifier: GPL-2.0
/*
 * Where the packets of a connection come in. Whoever it is forwarded to may hand it on; the new
 * owner then claims it here, and from then on the packets go straight to it.
 *
 * That who had it agrees is shown by the voucher that it got with the connection over its own link,
 * and that it tells to whom it hands it on, with COMMIT. A voucher is good for one id and one
 * owner, and each claim makes a new id: who has shown or seen one cannot use it again. None is
 * kept: they are made with a key of this namespace. One has 64 bits, and each guess is a message
 * of a listed node.
 */

#include "kmod/service.h"

#include "adopt.h"
#include "claim.h"
#include "counter.h"
#include "entry.h"
#include "life.h"
#include "message.h"
#include "net.h"
#include "origin.h"
#include "peer.h"
#include "relay.h"
#include "takeover.h"
#include "ticket.h"

/* Never 0. */
static u64 hof_origin_voucher(const struct hof_net *hn, u64 id, const struct flt_node *owner)
{
	return siphash_2u64(id, owner->id, &hn->voucher_key) ?: 1;
}

u64 hof_origin_name(struct hof_net *hn, u64 id, const struct flt_node *node,
		    struct hof_adoption *from, struct hof_msg_origin *out, bool *back)
{
	struct hof_adoption *up;
	u64 proof = 0;

	out->voucher = cpu_to_be64(hof_origin_voucher(hn, id, node));
	if (!from)
		return 0;
	spin_lock_bh(&hn->adopt_lock);
	up = hof_relay_up(from);
	/*
	 * Not while it is not known by whom its packets will come: while we claim it ourselves, or
	 * who gave it back did. Nor to the origin, which has it when it takes it.
	 */
	if (up && up->voucher && !hof_claim_is_open(up) && !up->behind && up->node != node) {
		out->instance = cpu_to_be64(READ_ONCE(up->node->instance));
		out->id = cpu_to_be64(up->id);
		strscpy_pad(out->name, up->node->name);
		proof = up->voucher;
	}
	*back = hof_relay_is_back(from, node);
	spin_unlock_bh(&hn->adopt_lock);
	return proof;
}

/* Is it so, or was it so before? FLT_REFUSE_NONE: it is not yet, and may be. RCU. */
static enum flt_refusal hof_origin_judge(struct hof_net *hn, const struct hof_entry *e, u64 from,
					 u64 proof)
{
	u8 state;

	if (!e || hof_entry_id(e) != from)
		return FLT_REFUSE_STATE;
	if (proof != hof_origin_voucher(hn, from, READ_ONCE(e->peer)->node)) {
		hof_count(hn, HOF_STAT_ORIGIN_FORGED);
		return FLT_REFUSE_ROLE;
	}
	state = hof_entry_state(e);
	if (state == HOF_HOLD)
		return FLT_REFUSE_BUSY;		/* it may be on its way back to us */
	return state == HOF_FORWARD ? FLT_REFUSE_NONE : FLT_REFUSE_STATE;
}

/* Said before, and the answer was lost. */
static bool hof_origin_repeats(const struct hof_entry *e, const struct flt_node *node, u64 to)
{
	return e && hof_entry_id(e) == to && READ_ONCE(e->peer)->node == node;
}

static enum flt_refusal hof_origin_redirect(struct hof_net *hn, struct flt_node *node,
					    const struct flt_tuple *tuple, u64 from, u64 to,
					    u32 epoch)
{
	struct hof_peer *peer = hof_peer_get(hn, node);
	enum flt_refusal why = FLT_REFUSE_BUSY;
	struct hof_entry *e;
	int downs;

	if (IS_ERR(peer))
		return PTR_ERR(peer) == -EHOSTUNREACH ? FLT_REFUSE_NOROUTE : FLT_REFUSE_BUSY;
	downs = atomic_read(&peer->downs);
	refcount_inc(&peer->ref);
	rcu_read_lock();
	e = hof_entry_find_tuple(hn, tuple);
	if (e && hof_entry_redirect(hn, e, from, to, peer, epoch)) {
		why = FLT_REFUSE_NONE;
		/* Pairs with hof_peer_lose(): either it sees the new peer or we see the node go. */
		smp_mb();
		if (atomic_read(&peer->downs) != downs)
			hof_entry_kill(hn, e, to);
	} else {
		hof_peer_put(peer);
	}
	rcu_read_unlock();
	hof_peer_put(peer);
	return why;
}

static u32 hof_origin_flags(struct hof_entry *e)
{
	u32 flags;

	spin_lock_bh(&e->lock);
	flags = e->ticket && e->ticket->watch ? HOF_ADOPT_WANT_IDLE : 0;
	spin_unlock_bh(&e->lock);
	return flags;
}

static void hof_origin_claim(struct hof_net *hn, struct flt_node *node,
			     const struct hof_msg_claim *claim)
{
	u64 from = be64_to_cpu(claim->conn.id), to = be64_to_cpu(claim->to);
	struct hof_msg_grant grant = { .to = claim->to };
	struct kvec vec = { .iov_base = &grant, .iov_len = sizeof(grant) };
	enum flt_refusal why = FLT_REFUSE_NONE;
	struct flt_tuple tuple;
	bool takeover = !from;
	bool repeats = false;
	struct hof_entry *e;

	if (!takeover)
		hof_count(hn, HOF_STAT_ORIGIN_CLAIMS);
	hof_life_tuple(&claim->conn, &tuple);
	if (!flt_node_is_proven(node) && !flt_service_insecure(hn->net))
		why = FLT_REFUSE_INSECURE;
	rcu_read_lock();
	e = hof_entry_find_tuple(hn, &tuple);
	if (e && why == FLT_REFUSE_NONE) {
		grant.flags = cpu_to_be32(hof_origin_flags(e));
		repeats = hof_origin_repeats(e, node, to);
		if (repeats)
			WRITE_ONCE(e->ups, READ_ONCE(READ_ONCE(e->peer)->ups));
	}
	if (why == FLT_REFUSE_NONE && !repeats && !takeover)
		why = hof_origin_judge(hn, e, from, be64_to_cpu(claim->proof));
	rcu_read_unlock();
	if (why == FLT_REFUSE_NONE && !repeats && takeover) {
		why = hof_takeover_claim(hn, node, claim, &tuple);
	} else if (why == FLT_REFUSE_NONE && !repeats) {
		why = hof_origin_redirect(hn, node, &tuple, from, to, be32_to_cpu(claim->epoch));
		if (why == FLT_REFUSE_NONE)
			hof_count(hn, HOF_STAT_ORIGIN_GRANTED);
	}
	if (why == FLT_REFUSE_NONE)
		grant.voucher = cpu_to_be64(hof_origin_voucher(hn, to, node));
	grant.refusal = cpu_to_be32(why);
	flt_link_send(node, HOF_MSG_GRANT, &vec, 1, GFP_KERNEL);
}

int hof_origin_claims(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg)
{
	const struct hof_msg_claim *claim = msg->body;
	u32 left = msg->len;

	for (; left >= sizeof(*claim); left -= sizeof(*claim))
		hof_origin_claim(hn, node, claim++);
	return left ? -EBADMSG : 0;
}
