// SPDX-License-Identifier: GPL-2.0
/*
 * How an entry of a redirected connection ends. The node that has the connection does not know that
 * it was redirected: it has an ordinary socket. So it is asked, about what has been still for a
 * while, and much sooner when the client has ended its side; it names what it does not have.
 */

#include <linux/slab.h>

#include "kmod/link.h"
#include "kmod/service.h"

#include "counter.h"
#include "life.h"
#include "message.h"
#include "peer.h"
#include "redirect.h"
#include "standby.h"

#define HOF_ASK_STILL	(30 * HZ)
#define HOF_ASK_ENDING	(2 * HZ)

/**
 * struct hof_redirect_batch - what one node is to be asked; of the sweep alone
 * @node:   a counted reference; NULL: empty
 * @nr:     of @record
 * @record: as they go out
 */
struct hof_redirect_batch {
	struct flt_node *node;
	unsigned int nr;
	struct hof_msg_life record[HOF_LIFE_MAX];
};

void hof_redirect_settle(struct hof_net *hn, struct hof_entry *e)
{
	lockdep_assert_held(&e->lock);
	if (e->redirect == HOF_REDIRECT_PENDING)
		atomic_dec(&hn->nr_unopened);
	atomic_dec(&hn->nr_redirected);
	hof_count(hn, HOF_STAT_REDIRECT_CLOSED);
}

void hof_redirect_open(struct hof_net *hn, struct hof_entry *e)
{
	spin_lock_bh(&e->lock);
	if (e->redirect == HOF_REDIRECT_PENDING && e->state == HOF_FORWARD) {
		WRITE_ONCE(e->redirect, HOF_REDIRECT_OPEN);
		atomic_dec(&hn->nr_unopened);
	}
	spin_unlock_bh(&e->lock);
}

void hof_redirect_doubt(struct hof_net *hn, struct hof_entry *e)
{
	spin_lock_bh(&e->lock);
	if (e->state == HOF_FORWARD) {
		WRITE_ONCE(e->seen, HOF_SAW_SYN);
		/* Pairs with hof_entry_id(). */
		smp_store_release(&e->id, hof_net_new_id(hn));
	}
	spin_unlock_bh(&e->lock);
}

/* --- who asks --- */

void hof_redirect_ask(struct hof_net *hn)
{
	struct hof_redirect_batch *batch = hn->redirect_batch;
	struct kvec vec;

	if (!batch || !batch->nr)
		return;
	vec.iov_base = batch->record;
	vec.iov_len = batch->nr * sizeof(batch->record[0]);
	/* What does not go out is asked again. */
	if (!flt_link_send(batch->node, HOF_MSG_HAVE, &vec, 1, GFP_ATOMIC))
		hof_count_add(hn, HOF_STAT_REDIRECT_ASKED, batch->nr);
	flt_node_put(batch->node);
	batch->node = NULL;
	batch->nr = 0;
}

static void hof_redirect_ask_of(struct hof_net *hn, struct hof_entry *e)
{
	struct flt_node *node = READ_ONCE(e->peer)->node;
	struct hof_redirect_batch *batch;
	struct flt_tuple tuple;

	if (!hn->redirect_batch)
		hn->redirect_batch = kzalloc(sizeof(*batch), GFP_ATOMIC | __GFP_NOWARN);
	batch = hn->redirect_batch;
	if (!batch)
		return;
	if (batch->nr == HOF_LIFE_MAX || (batch->node && batch->node != node))
		hof_redirect_ask(hn);
	if (!batch->node)
		batch->node = flt_node_get(node);
	hof_entry_tuple(e, &tuple);
	hof_life_fill(&tuple, hof_entry_id(e), 0, &batch->record[batch->nr++]);
	spin_lock_bh(&e->lock);
	if (e->state == HOF_FORWARD)	/* else it is @expires by now */
		WRITE_ONCE(e->asked, jiffies);
	spin_unlock_bh(&e->lock);
}

bool hof_redirect_expired(struct hof_net *hn, struct hof_entry *e)
{
	unsigned long still = jiffies - READ_ONCE(e->used);
	u8 seen = READ_ONCE(e->seen);
	unsigned long asked, wait;

	if (READ_ONCE(e->redirect) == HOF_REDIRECT_PENDING) {
		u32 ms = READ_ONCE(hn->tunables.redirect_syn_ms);

		if (seen & HOF_SAW_RST)
			ms = min(ms, READ_ONCE(hn->tunables.linger_rst_ms));
		if (still < msecs_to_jiffies(ms))
			return false;
		hof_count(hn, HOF_STAT_REDIRECT_EXPIRED);
		return true;
	}
	if (still >= READ_ONCE(hn->tunables.idle_s) * (unsigned long)HZ) {
		hof_count(hn, HOF_STAT_FORWARD_IDLE_EXPIRED);
		return true;
	}
	/* Ever more seldom, while it goes on and nothing is said. */
	asked = jiffies - READ_ONCE(e->asked);
	wait = max_t(unsigned long, seen ? HOF_ASK_ENDING : HOF_ASK_STILL, still / 2);
	if (still >= (seen ? HZ : HOF_ASK_STILL) && asked >= wait)
		hof_redirect_ask_of(hn, e);
	return false;
}

void hof_redirect_batch_free(struct hof_net *hn)
{
	if (hn->redirect_batch && hn->redirect_batch->node)
		flt_node_put(hn->redirect_batch->node);
	kfree(hn->redirect_batch);
	hn->redirect_batch = NULL;
}

/* --- who is asked --- */

/* By a socket, or handed on from here. */
static bool hof_redirect_has(struct hof_net *hn, const struct flt_tuple *tuple)
{
	struct hof_entry *e;
	struct sock *sk;
	bool has;
	u8 state;

	rcu_read_lock();
	e = hof_entry_find_tuple(hn, tuple);
	state = e ? hof_entry_state(e) : HOF_GONE;
	has = state == HOF_FORWARD || state == HOF_HOLD;
	/* One that only waits for late packets has them from the lingering entry, too. */
	sk = has ? NULL : hof_standby_sock(hn, tuple, 0);
	if (sk) {
		has = sk->sk_state != TCP_TIME_WAIT;
		sock_gen_put(sk);
	}
	rcu_read_unlock();
	return has || (!sk && hof_standby_owned(hn, tuple));
}

int hof_redirect_asked(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg)
{
	const struct hof_msg_life *asked = msg->body;
	unsigned int nr = msg->len / sizeof(*asked), i, gone = 0;
	struct hof_msg_life *records;
	struct flt_tuple tuple;
	struct kvec vec;

	if (msg->len % sizeof(*asked) || nr > HOF_LIFE_MAX)
		return -EBADMSG;
	if (!nr || (!flt_node_is_proven(node) && !flt_service_insecure(hn->net)))
		return 0;
	records = kcalloc(nr, sizeof(*records), GFP_KERNEL);
	if (!records)
		return 0;
	for (i = 0; i < nr; i++) {
		hof_life_tuple(&asked[i], &tuple);
		/* Nobody learns here who has connections to what else there is. */
		if (!flt_service_has(hn->net, tuple.family, tuple.server, tuple.server_port) ||
		    hof_redirect_has(hn, &tuple))
			continue;
		hof_life_fill(&tuple, be64_to_cpu(asked[i].id), HOF_LIFE_CLOSED, &records[gone++]);
	}
	vec.iov_base = records;
	vec.iov_len = gone * sizeof(*records);
	if (gone)
		flt_link_send(node, HOF_MSG_LIFE, &vec, 1, GFP_KERNEL);
	kfree(records);
	return 0;
}
