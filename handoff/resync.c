// SPDX-License-Identifier: GPL-2.0
/*
 * A link that was down and is up again, with a peer that never stopped: messages may be lost,
 * connections are not. The taker names all that it holds of the giver (HELD), those that wait
 * for a decision, too, says again what it gave up without one (LIFE), and when that was all
 * (HELD_END). The giver decides again what waits, resets the clients of what it had let go and
 * the taker gave up, and takes what was not named for closed: the message that said so is lost.
 * Only what was taken in the same life of the taker's module, though: what was taken before lives
 * on there, and it knows nothing of it.
 */

#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "kmod/link.h"

#include "adopt.h"
#include "claim.h"
#include "entry.h"
#include "life.h"
#include "message.h"
#include "net.h"
#include "peer.h"
#include "resync.h"
#include "ticket.h"
#include "transfer.h"

#define HOF_RESYNC_RETRY_MS	10

/*
 * Up to HOF_LIFE_MAX records from the front of the list, which goes to its end; @left is how
 * many of the list are yet to be seen. Under @peer->held_turn.
 */
static unsigned int hof_resync_collect(struct hof_net *hn, struct hof_peer *peer,
				       struct hof_msg_life *record, unsigned int *left)
{
	struct hof_adoption *a;
	unsigned int nr = 0;

	spin_lock_bh(&hn->adopt_lock);
	for (; *left && nr < HOF_LIFE_MAX; --*left) {
		if (list_empty(&peer->held)) {
			*left = 0;
			break;
		}
		a = list_first_entry(&peer->held, struct hof_adoption, held);
		list_move_tail(&a->held, &peer->held);
		hof_life_record(a, a->committed ? HOF_HELD_OURS : HOF_HELD_PENDING, &record[nr++]);
		/* What was told of it last may be lost, too. */
		if (a->committed && !a->passed && a->flags & HOF_ADOPT_WANT_IDLE)
			hof_life_again(a);
	}
	spin_unlock_bh(&hn->adopt_lock);
	return nr;
}

/* The same of those given up: whether the giver had let go of them only it knows. */
static unsigned int hof_resync_collect_late(struct hof_net *hn, struct hof_peer *peer,
					    struct hof_msg_life *record, unsigned int *left)
{
	struct hof_adoption *a;
	unsigned int nr = 0;

	spin_lock_bh(&hn->adopt_lock);
	for (; *left && nr < HOF_LIFE_MAX; --*left) {
		if (list_empty(&peer->late)) {
			*left = 0;
			break;
		}
		a = list_first_entry(&peer->late, struct hof_adoption, asking);
		list_move_tail(&a->asking, &peer->late);
		hof_life_record(a, HOF_LIFE_LOST, &record[nr++]);
	}
	spin_unlock_bh(&hn->adopt_lock);
	return nr;
}

/*
 * Over the link that came up as the @ups'th and over no other: a HELD_END that came over the
 * next one, before what is told there, would end all connections.
 * False: the link is down again, or the namespace goes.
 */
static bool hof_resync_send(struct hof_net *hn, struct hof_peer *peer, u32 ups,
			    enum hof_msg_type type, const void *body, size_t size)
{
	struct kvec vec = { .iov_base = (void *)body, .iov_len = size };
	int err;

	for (;;) {
		mutex_lock(&peer->link_lock);
		err = -ENOTCONN;
		if (peer->up && peer->ups == ups)
			err = flt_link_send(peer->node, type, &vec, 1, GFP_KERNEL);
		mutex_unlock(&peer->link_lock);
		if (err != -ENOBUFS && err != -ENOMEM)
			return !err;
		/* A link that takes nothing for long is ended, and so is this. */
		msleep(HOF_RESYNC_RETRY_MS);
		if (READ_ONCE(hn->going))
			return false;
	}
}

/* All that it gave us and has not ended, or with LIFE what we gave up. False as above. */
static bool hof_resync_list(struct hof_net *hn, struct hof_peer *peer, u32 ups,
			    enum hof_msg_type type, struct hof_msg_life *record)
{
	bool late = type == HOF_MSG_LIFE;
	unsigned int left, nr;

	left = late ? READ_ONCE(peer->nr_late) : READ_ONCE(peer->nr_held);
	while (left) {
		if (!hof_net_enter(hn))
			return false;
		if (late)
			nr = hof_resync_collect_late(hn, peer, record, &left);
		else
			nr = hof_resync_collect(hn, peer, record, &left);
		hof_net_leave(hn);
		if (nr && !hof_resync_send(hn, peer, ups, type, record, nr * sizeof(*record)))
			return false;
		cond_resched();
	}
	return true;
}

/* What it has not answered, and may have granted: else it would miss that in what is listed. */
static bool hof_resync_claim(struct hof_net *hn, struct hof_peer *peer, u32 ups,
			     struct hof_msg_claim *record)
{
	unsigned int left, nr;
	bool said = true;

	mutex_lock(&peer->claims_turn);
	for (left = READ_ONCE(peer->nr_claims); left && said; cond_resched()) {
		said = hof_net_enter(hn);
		if (!said)
			break;
		nr = hof_claim_collect(hn, peer, record, HOF_LIFE_MAX, &left);
		hof_net_leave(hn);
		if (nr)
			said = hof_resync_send(hn, peer, ups, HOF_MSG_CLAIM, record,
					       nr * sizeof(*record));
	}
	mutex_unlock(&peer->claims_turn);
	return said;
}

/* Somebody who looks for what is taken over turns the list, too (successor.c). */
static bool hof_resync_tell_held(struct hof_net *hn, struct hof_peer *peer, u32 ups, void *record)
{
	bool told;

	mutex_lock(&peer->held_turn);
	told = hof_resync_list(hn, peer, ups, HOF_MSG_HELD, record);
	mutex_unlock(&peer->held_turn);
	return told;
}

void hof_resync_tell(struct hof_net *hn, struct hof_peer *peer)
{
	struct hof_msg_id end = { .epoch = cpu_to_be32(hn->epoch) };
	u32 ups = READ_ONCE(peer->ups);
	void *record;

	/* Room for either kind. */
	record = kcalloc(HOF_LIFE_MAX, sizeof(struct hof_msg_claim), GFP_KERNEL);
	if (!record)
		return;		/* nobody is told: what is closed there goes when idle */
	/* Those given up second: what is given up meanwhile is in one of the two. */
	if (hof_resync_claim(hn, peer, ups, record) &&
	    hof_resync_tell_held(hn, peer, ups, record) &&
	    hof_resync_list(hn, peer, ups, HOF_MSG_LIFE, record))
		hof_resync_send(hn, peer, ups, HOF_MSG_HELD_END, &end, sizeof(end));
	kfree(record);
}

/*
 * With its addresses, by which the giver finds what it has let go of: of what is not under way
 * any more it would say ABORT, when its COMMIT went with the link before.
 */
void hof_resync_ask(const struct hof_adoption *a)
{
	struct hof_msg_life record;
	struct kvec vec = { .iov_base = &record, .iov_len = sizeof(record) };

	hof_life_record(a, HOF_HELD_PENDING, &record);
	flt_link_send(a->node, HOF_MSG_HELD, &vec, 1, GFP_KERNEL);
}

/* That the COMMIT said. */
static u64 hof_resync_proof(struct hof_entry *e)
{
	u64 proof;

	spin_lock_bh(&e->lock);
	proof = e->ticket ? e->ticket->proof : 0;
	spin_unlock_bh(&e->lock);
	return proof;
}

static void hof_resync_one(struct hof_net *hn, struct flt_node *node,
			   const struct hof_msg_life *record)
{
	bool pending = record->what == cpu_to_be16(HOF_HELD_PENDING);
	u64 id = be64_to_cpu(record->id);
	struct flt_tuple tuple;
	struct hof_entry *e;
	u8 state = HOF_GONE;
	u64 proof = 0;

	hof_life_tuple(record, &tuple);
	rcu_read_lock();
	e = hof_entry_find_tuple(hn, &tuple);
	if (e && hof_entry_id(e) == id && READ_ONCE(e->peer)->node == node) {
		WRITE_ONCE(e->ups, READ_ONCE(READ_ONCE(e->peer)->ups));
		state = hof_entry_state(e);
		proof = pending ? hof_resync_proof(e) : 0;
	}
	rcu_read_unlock();
	if (!pending)
		return;
	/* We have let go, and it has not heard; or we have not, and will not. */
	if (state == HOF_FORWARD)
		hof_message_send_commit(node, id, 0, proof, GFP_KERNEL);
	else
		hof_transfer_query(hn, node, id);
}

int hof_resync_held(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg)
{
	const struct hof_msg_life *record = msg->body;
	u32 left = msg->len;

	for (; left >= sizeof(*record); left -= sizeof(*record))
		hof_resync_one(hn, node, record++);
	return left ? -EBADMSG : 0;
}

int hof_resync_end(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg)
{
	const struct hof_msg_id *end = msg->body;
	struct hof_peer *peer;

	if (msg->len != sizeof(*end))
		return -EBADMSG;
	peer = hof_peer_find(hn, node);
	if (!peer)
		return 0;
	/* Once for each link: it costs a walk through the table. */
	if (xchg(&peer->heard, READ_ONCE(peer->ups)) != READ_ONCE(peer->ups))
		hof_entry_close_stale(hn, peer, be32_to_cpu(end->epoch));
	hof_peer_put(peer);
	return 0;
}
