// SPDX-License-Identifier: GPL-2.0
/*
 * A front-end asks for connections to be handed on (relocate.c): those that it gave to us, and no
 * others. They leave as by HOF_MOVE_NODE, at the same moments and to nodes of our own table; what
 * is here is who may ask, and how long.
 *
 * Each message is answered, by a work item: what is looked at may be a program's. A front-end that
 * asks no more is not missed: its run ends after a while.
 */

#include <linux/slab.h>
#include <linux/workqueue.h>
#include <net/inet_hashtables.h>

#include "kmod/node.h"
#include "kmod/service.h"

#include "adopt.h"
#include "counter.h"
#include "drain.h"
#include "life.h"
#include "message.h"
#include "move.h"
#include "net.h"
#include "removal.h"
#include "standby.h"

/* Runs: each may have threads of its own for a while. */
#define HOF_REMOVALS_MAX	16
#define HOF_REMOVALS_OF_NODE	4
/* Of one that has not been heard of. */
#define HOF_REMOVAL_LEASE	(5 * HZ)
/* How far it is, is counted so often at most: that looks at each connection. */
#define HOF_REMOVAL_COUNT	(HZ / 10)
#define HOF_REMOVAL_IDLE_MIN	10

/**
 * struct hof_removal - a run
 * @node:  in hn->removals; not in it: it is over, and who took it off frees it. If that is @work,
 *	   it is in hn->endings meanwhile
 * @hn:    namespace; it ends all runs before it goes
 * @asker: whose connections they are; a counted reference
 * @run:   its number
 * @move:  hands them on
 * @nodes: of @move, in the order of their names; 0: not known here
 * @nr_nodes: of them
 * @heard: jiffies of the last message
 * @over:  nothing more is wanted
 * @asked: there is a message to be answered: what follows is @work's until it has been
 * @seq:   of it
 * @nr:    of @page
 * @page:  connections
 * @counted: jiffies of @status; 0: not yet
 * @status: what was counted last
 * @work:  answers, and ends it
 *
 * Under hn->relocate_lock from @node on, but for what never changes.
 */
struct hof_removal {
	struct list_head node;
	struct hof_net *hn;
	struct flt_node *asker;
	u64 run;
	struct hof_move *move;
	u32 nodes[HOF_MOVE_NODES];
	unsigned int nr_nodes;
	unsigned long heard;
	bool over;
	bool asked;
	u32 seq;
	unsigned int nr;
	struct hof_msg_life page[HOF_LIFE_MAX];
	unsigned long counted;
	struct hof_move_status status;
	struct delayed_work work;
};

/**
 * struct hof_removal_answer - RELOCATED as it is sent
 * @head:   the counts
 * @reason: as many as it says
 */
struct hof_removal_answer {
	struct hof_msg_relocated head;
	struct hof_msg_reason reason[HOF_MOVE_REASONS];
};

static struct workqueue_struct *hof_removal_wq __ro_after_init;
/* Of the machine, its threads and its time; and of the user namespaces in it, together. */
static atomic_t hof_removals[2] = { ATOMIC_INIT(0), ATOMIC_INIT(0) };

static atomic_t *hof_removals_like(const struct hof_net *hn)
{
	return &hof_removals[hn->net->user_ns != &init_user_ns];
}

/* Its move has ended. */
static void hof_removal_free(struct hof_removal *r)
{
	flt_node_put(r->asker);
	atomic_dec(hof_removals_like(r->hn));
	kfree(r);
}

/* Is it what @r's front-end gave by that id, and ours alone now? */
static bool hof_removal_is_his(struct hof_removal *r, struct hof_adoption *a, u64 id)
{
	bool is;

	spin_lock_bh(&r->hn->adopt_lock);
	is = a->node == r->asker && a->id == id && a->committed && !a->passed && !a->dead;
	spin_unlock_bh(&r->hn->adopt_lock);
	return is;
}

/* What the asker may have moved, with a reference; NULL: there is no such thing. */
static struct sock *hof_removal_find(struct hof_removal *r, const struct hof_msg_life *record)
{
	struct hof_adoption *a = NULL;
	struct flt_tuple tuple;
	struct sock *sk;
	bool is;

	hof_life_tuple(record, &tuple);
	rcu_read_lock();
	sk = hof_standby_sock(r->hn, &tuple, 0);
	rcu_read_unlock();
	if (!sk)
		return NULL;
	if (sk_fullsock(sk))
		a = hof_adoption_of(sk);
	is = a && hof_removal_is_his(r, a, be64_to_cpu(record->id));
	if (a)
		hof_adoption_put(a);
	if (is)
		return sk;
	sock_gen_put(sk);
	return NULL;
}

static __be32 *hof_removal_begin(struct hof_removal *r, const struct hof_msg_life *record,
				 struct hof_msg_relocated *said)
{
	struct sock *sk = hof_removal_find(r, record);
	int err = -EAGAIN;

	if (!sk)
		return &said->absent;
	/* Nobody reads the end of file that is left, of one that is not accepted. */
	if (READ_ONCE(sk->sk_socket))
		err = hof_move_add_conn(r->move, sk);
	sock_put(sk);
	switch (err) {
	case 0:
		hof_count(r->hn, HOF_STAT_RELOCATE_BEGUN);
		return &said->begun;
	case -EEXIST:
		return &said->had;
	case -EAGAIN:
		return &said->queued;
	case -EBUSY:
	case -ENOMEM:
		return &said->held;
	case -ENOTCONN:
		return &said->absent;
	default:
		return &said->fixed;
	}
}

static void hof_removal_count(struct hof_removal *r)
{
	if (r->counted && time_before(jiffies, r->counted + HOF_REMOVAL_COUNT))
		return;
	hof_move_get_status(r->move, &r->status);
	r->counted = jiffies ?: 1;
}

static void hof_removal_say_nodes(struct hof_removal *r, struct hof_msg_relocated *said)
{
	u32 known = 0, up = 0;
	struct flt_node *node;
	unsigned int i;

	for (i = 0; i < r->nr_nodes; i++) {
		node = r->nodes[i] ? flt_node_by_id(r->hn->net, r->nodes[i]) : NULL;
		if (!node)
			continue;
		known |= BIT(i);
		if (flt_node_is_up(node))
			up |= BIT(i);
		flt_node_put(node);
	}
	said->known = cpu_to_be32(known);
	said->up = cpu_to_be32(up);
}

static void hof_removal_say_status(struct hof_removal *r, struct hof_removal_answer *answer)
{
	struct hof_msg_relocated *said = &answer->head;
	const struct hof_move_status *s = &r->status;
	struct hof_move_passed passed;
	unsigned int i, nr = 0;

	hof_removal_count(r);
	hof_drain_passed(r->move->drain, &passed);
	said->moved = cpu_to_be64(s->moved);
	said->ended = cpu_to_be64(s->ended);
	said->waiting = cpu_to_be32(s->waiting);
	said->busy = cpu_to_be32(s->busy);
	said->stuck = cpu_to_be32(s->stuck);
	said->through = cpu_to_be32(passed.through);
	for (i = 1; i < HOF_MOVE_REASONS; i++) {
		if (!s->stuck_by[i] && !s->refused[i])
			continue;
		answer->reason[nr++] = (struct hof_msg_reason){
			.code = cpu_to_be32(i),
			.stuck = cpu_to_be32(s->stuck_by[i]),
			.put_off = cpu_to_be32(s->refused[i]),
		};
	}
	said->reasons = cpu_to_be32(nr);
}

static void hof_removal_refuse(struct hof_net *hn, struct flt_node *node, __be64 run, __be32 seq,
			       enum flt_refusal why)
{
	struct hof_msg_relocated said = {
		.run = run,
		.seq = seq,
		.refusal = cpu_to_be32(why),
	};
	struct kvec vec = { .iov_base = &said, .iov_len = sizeof(said) };

	hof_count(hn, HOF_STAT_RELOCATE_REFUSED);
	flt_link_send(node, HOF_MSG_RELOCATED, &vec, 1, GFP_KERNEL);
}

/* What it was asked is not needed any more, and the next may be taken. */
static void hof_removal_is_answered(struct hof_removal *r)
{
	mutex_lock(&r->hn->relocate_lock);
	r->asked = false;
	mutex_unlock(&r->hn->relocate_lock);
}

/* When the answer is lost, or there is no memory for it, it is asked again. */
static void hof_removal_answer(struct hof_removal *r)
{
	struct hof_removal_answer *answer = kzalloc(sizeof(*answer), GFP_KERNEL);
	struct kvec vec = { .iov_base = answer };
	unsigned int i;
	__be32 *nr;

	if (!answer) {
		hof_removal_is_answered(r);
		return;
	}
	answer->head.run = cpu_to_be64(r->run);
	answer->head.seq = cpu_to_be32(r->seq);
	for (i = 0; i < r->nr; i++) {
		nr = hof_removal_begin(r, &r->page[i], &answer->head);
		be32_add_cpu(nr, 1);
		cond_resched();
	}
	if (i)
		r->counted = 0;		/* there is news */
	hof_removal_say_nodes(r, &answer->head);
	hof_removal_say_status(r, answer);
	vec.iov_len = offsetof(struct hof_removal_answer,
			       reason[be32_to_cpu(answer->head.reasons)]);
	hof_removal_is_answered(r);	/* the next may come at once */
	flt_link_send(r->asker, HOF_MSG_RELOCATED, &vec, 1, GFP_KERNEL);
	kfree(answer);
}

/* Is it to be freed? Else it looks again when its time is over. */
static bool hof_removal_ends(struct hof_removal *r)
{
	struct hof_net *hn = r->hn;
	bool ends = false;
	long left;

	mutex_lock(&hn->relocate_lock);
	/* A message has come meanwhile: then there is another turn. */
	if (list_empty(&r->node) || delayed_work_pending(&r->work))
		goto out;
	left = r->heard + HOF_REMOVAL_LEASE - jiffies;
	ends = r->over || left <= 0;
	if (ends)
		list_move_tail(&r->node, &hn->endings);
	else
		queue_delayed_work(hof_removal_wq, &r->work, left);
out:
	mutex_unlock(&hn->relocate_lock);
	return ends;
}

/* That may take a while. */
static void hof_removal_end(struct hof_removal *r)
{
	hof_move_end(r->move);
	mutex_lock(&r->hn->relocate_lock);
	list_del(&r->node);
	mutex_unlock(&r->hn->relocate_lock);
	hof_removal_free(r);
}

static void hof_removal_work(struct work_struct *work)
{
	struct hof_removal *r = container_of(to_delayed_work(work), struct hof_removal, work);
	bool answers;

	mutex_lock(&r->hn->relocate_lock);
	answers = r->asked && !r->over;
	mutex_unlock(&r->hn->relocate_lock);
	if (answers)
		hof_removal_answer(r);
	if (hof_removal_ends(r))
		hof_removal_end(r);
}

static enum flt_refusal hof_removal_permit(struct hof_net *hn, const struct flt_node *node)
{
	if (!flt_node_is_proven(node) && !flt_service_insecure(hn->net))
		return FLT_REFUSE_INSECURE;
	if (READ_ONCE(node->role) != FLT_ROLE_FRONTEND)
		return FLT_REFUSE_ROLE;
	return READ_ONCE(hn->tunables.relocate) ? FLT_REFUSE_NONE : FLT_REFUSE_POLICY;
}

/* Of a run, with its nodes; 0: none of them is known here. */
static unsigned int hof_removal_nodes(struct hof_removal *r, const struct hof_msg_relocate *ask,
				      const char (*names)[FLT_NAME_MAX])
{
	unsigned int i, nr = 0;
	struct flt_node *node;

	r->nr_nodes = be16_to_cpu(ask->nodes);
	for (i = 0; i < r->nr_nodes; i++) {
		node = names[i][FLT_NAME_MAX - 1] ? NULL : flt_node_by_name(r->hn->net, names[i]);
		if (!node)
			continue;
		/* Who asks has them come in, and wants them elsewhere. */
		if (node != r->asker && !hof_move_add_node(r->move, node->id)) {
			r->nodes[i] = node->id;
			nr++;
		}
		flt_node_put(node);
	}
	return nr;
}

static struct hof_removal *hof_removal_find_run(struct hof_net *hn, const struct flt_node *node,
						u64 run)
{
	struct hof_removal *r;

	lockdep_assert_held(&hn->relocate_lock);
	list_for_each_entry(r, &hn->removals, node)
		if (r->asker == node && r->run == run)
			return r;
	return NULL;
}

/* FLT_REFUSE_BUSY: soon; what ends counts, or one node would have all that the machine has. */
static enum flt_refusal hof_removal_has_room(struct hof_net *hn, const struct flt_node *node)
{
	unsigned int nr = 0, ending = 0;
	const struct hof_removal *r;

	lockdep_assert_held(&hn->relocate_lock);
	list_for_each_entry(r, &hn->removals, node) {
		nr += r->asker == node && !r->over;
		ending += r->asker == node && r->over;
	}
	list_for_each_entry(r, &hn->endings, node)
		ending += r->asker == node;
	if (nr >= HOF_REMOVALS_OF_NODE)
		return FLT_REFUSE_FULL;
	return nr + ending < HOF_REMOVALS_OF_NODE ? FLT_REFUSE_NONE : FLT_REFUSE_BUSY;
}

static enum flt_refusal hof_removal_create(struct hof_net *hn, struct flt_node *node,
					   const struct hof_msg_relocate *ask,
					   struct hof_removal **out)
{
	struct hof_removal *r;

	if (atomic_inc_return(hof_removals_like(hn)) > HOF_REMOVALS_MAX) {
		atomic_dec(hof_removals_like(hn));
		return FLT_REFUSE_FULL;
	}
	r = kzalloc(sizeof(*r), GFP_KERNEL);
	if (r)
		r->move = hof_move_begin(hn->net, be32_to_cpu(ask->idle_ms));
	if (!r || !r->move) {
		kfree(r);
		atomic_dec(hof_removals_like(hn));
		return FLT_REFUSE_NOMEM;
	}
	INIT_LIST_HEAD(&r->node);
	INIT_DELAYED_WORK(&r->work, hof_removal_work);
	r->hn = hn;
	r->asker = flt_node_get(node);
	r->run = be64_to_cpu(ask->run);
	if (!hof_removal_nodes(r, ask, (const void *)(ask + 1))) {
		hof_move_end(r->move);
		hof_removal_free(r);
		return FLT_REFUSE_NONODE;
	}
	*out = r;
	return FLT_REFUSE_NONE;
}

/* Of one that is under way nothing is taken until it was answered: it is asked again. */
static void hof_removal_take(struct hof_removal *r, const struct hof_msg_relocate *ask)
{
	const struct hof_msg_life *page = (const void *)(ask + 1) +
					  be16_to_cpu(ask->nodes) * FLT_NAME_MAX;

	r->heard = jiffies;
	if (ask->flags & cpu_to_be16(HOF_RELOCATE_OVER)) {
		r->over = true;
	} else if (!r->asked) {
		r->asked = true;
		r->seq = be32_to_cpu(ask->seq);
		r->nr = be32_to_cpu(ask->conns);
		memcpy(r->page, page, r->nr * sizeof(*page));
	}
	mod_delayed_work(hof_removal_wq, &r->work, 0);
}

/* Return: FLT_REFUSE_NONE: it will be answered, if that is wanted. */
static enum flt_refusal hof_removal_receive(struct hof_net *hn, struct flt_node *node,
					    const struct hof_msg_relocate *ask)
{
	bool over = ask->flags & cpu_to_be16(HOF_RELOCATE_OVER);
	enum flt_refusal why = hof_removal_permit(hn, node);
	struct hof_removal *r;

	mutex_lock(&hn->relocate_lock);
	r = hof_removal_find_run(hn, node, be64_to_cpu(ask->run));
	if (r && why != FLT_REFUSE_NONE) {
		r->over = true;
		mod_delayed_work(hof_removal_wq, &r->work, 0);
	} else if (r) {
		hof_removal_take(r, ask);
	} else if (why == FLT_REFUSE_NONE && !over) {
		why = hof_removal_has_room(hn, node);
		if (why == FLT_REFUSE_NONE)
			why = hof_removal_create(hn, node, ask, &r);
		if (why == FLT_REFUSE_NONE) {
			list_add_tail(&r->node, &hn->removals);
			hof_removal_take(r, ask);
		}
	}
	mutex_unlock(&hn->relocate_lock);
	return why;
}

static bool hof_removal_is_sound(const struct hof_msg_relocate *ask, u32 len)
{
	u32 nodes, conns, idle_ms;

	if (len < sizeof(*ask))
		return false;
	nodes = be16_to_cpu(ask->nodes);
	conns = be32_to_cpu(ask->conns);
	idle_ms = be32_to_cpu(ask->idle_ms);
	return ask->run && nodes <= HOF_MOVE_NODES && conns <= HOF_LIFE_MAX &&
	       (!idle_ms || idle_ms >= HOF_REMOVAL_IDLE_MIN) && idle_ms <= INT_MAX / 2 &&
	       len == sizeof(*ask) + nodes * FLT_NAME_MAX + conns * sizeof(struct hof_msg_life);
}

int hof_removal_asks(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg)
{
	const struct hof_msg_relocate *ask = msg->body;
	enum flt_refusal why;

	if (!hof_removal_is_sound(ask, msg->len))
		return -EBADMSG;
	hof_count(hn, HOF_STAT_RELOCATE_ASKED);
	why = hof_removal_receive(hn, node, ask);
	/* Who is told nothing asks again. */
	if (why != FLT_REFUSE_NONE && why != FLT_REFUSE_BUSY)
		hof_removal_refuse(hn, node, ask->run, ask->seq, why);
	return 0;
}

void hof_removal_withdraw(struct hof_net *hn)
{
	struct hof_removal *r;

	mutex_lock(&hn->relocate_lock);
	while ((r = list_first_entry_or_null(&hn->removals, struct hof_removal, node))) {
		list_del_init(&r->node);
		mutex_unlock(&hn->relocate_lock);
		cancel_delayed_work_sync(&r->work);
		hof_move_end(r->move);
		hof_removal_free(r);
		mutex_lock(&hn->relocate_lock);
	}
	mutex_unlock(&hn->relocate_lock);
	/* One may be just ending by itself. */
	flush_workqueue(hof_removal_wq);
}

void hof_removal_net_init(struct hof_net *hn)
{
	INIT_LIST_HEAD(&hn->removals);
	INIT_LIST_HEAD(&hn->endings);
}

int __init hof_removal_init(void)
{
	hof_removal_wq = alloc_workqueue("hof_removal", WQ_UNBOUND, 0);
	return hof_removal_wq ? 0 : -ENOMEM;
}

void hof_removal_exit(void)
{
	destroy_workqueue(hof_removal_wq);
}
