// SPDX-License-Identifier: GPL-2.0
/*
 * A node that is to be emptied is asked to hand on what it was given by us: the contract is
 * flotilla/relocate.h, what the node does is in removal.c. Which connections it has of us is said
 * by our table of forwarding, which is also what says that they have left: nothing is kept here
 * from one call to the next.
 */

#include <linux/capability.h>
#include <linux/random.h>
#include <linux/rhashtable.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <flotilla/relocate.h>

#include "kmod/node.h"
#include "kmod/service.h"

#include "entry.h"
#include "life.h"
#include "message.h"
#include "net.h"
#include "peer.h"
#include "relocate.h"
#include "ticket.h"

#define HOF_RELOCATE_WAIT_MAX_MS	60000
/* A question without an answer is put again. */
#define HOF_ASK_AGAIN			(HZ / 4)

/**
 * struct hof_asking - one call
 * @list:  in hn->askings, under hn->relocate_lock as @seq, @answered and what is out of @args
 * @hn:    namespace
 * @node:  that is asked; the caller has a reference
 * @args:  in and out
 * @until: jiffies when the time is over
 * @seq:   of the question; 0: there has been none
 * @answered: it has been, or none is waited for
 * @wait:  for that
 * @ask:   the question, and behind it names
 * @page:  and records
 */
struct hof_asking {
	struct list_head list;
	struct hof_net *hn;
	struct flt_node *node;
	struct hof_relocate *args;
	unsigned long until;
	u32 seq;
	bool answered;
	wait_queue_head_t wait;
	struct {
		struct hof_msg_relocate head;
		char names[HOF_MOVE_NODES][FLT_NAME_MAX];
	} ask;
	struct hof_msg_life page[HOF_LIFE_MAX];
};

static void hof_relocate_send(struct hof_asking *a, unsigned int nr, u16 flags)
{
	struct kvec vec[2] = {
		{ .iov_base = &a->ask,
		  .iov_len = sizeof(a->ask.head) + a->args->nr_to * FLT_NAME_MAX },
		{ .iov_base = a->page, .iov_len = nr * sizeof(a->page[0]) },
	};

	a->ask.head = (struct hof_msg_relocate){
		.run = cpu_to_be64(a->args->run),
		.seq = cpu_to_be32(a->seq),
		.idle_ms = cpu_to_be32(a->args->idle_ms),
		.flags = cpu_to_be16(flags),
		.nodes = cpu_to_be16(a->args->nr_to),
		.conns = cpu_to_be32(nr),
	};
	flt_link_send(a->node, HOF_MSG_RELOCATE, vec, 2, GFP_KERNEL);
}

/* Without an answer, which is not heard any more. Return: 1. */
static int hof_relocate_fails(struct hof_asking *a, enum flt_refusal why)
{
	mutex_lock(&a->hn->relocate_lock);
	if (!a->answered) {
		a->args->refusal = why;
		a->answered = true;
	}
	mutex_unlock(&a->hn->relocate_lock);
	return 1;
}

/* Put the question until it is answered. 0: it may go on; 1: not; or -EINTR. */
static int hof_relocate_ask(struct hof_asking *a, unsigned int nr)
{
	long left;

	mutex_lock(&a->hn->relocate_lock);
	a->seq = hof_net_new_id(a->hn);
	a->args->answered = 0;
	WRITE_ONCE(a->answered, false);
	mutex_unlock(&a->hn->relocate_lock);
	do {
		if (!flt_node_is_up(a->node))
			return hof_relocate_fails(a, FLT_REFUSE_NODEDOWN);
		hof_relocate_send(a, nr, 0);
		left = wait_event_interruptible_timeout(a->wait, READ_ONCE(a->answered),
							HOF_ASK_AGAIN);
		if (left < 0)
			return -EINTR;
		if (left)
			return a->args->refusal != FLT_REFUSE_NONE;
	} while (time_before(jiffies, a->until));
	return hof_relocate_fails(a, FLT_REFUSE_TIMEOUT);
}

static void hof_relocate_reasons(struct hof_relocate *args, const struct hof_msg_reason *reason,
				 u32 nr)
{
	u32 code;

	memset(args->stuck_by, 0, sizeof(args->stuck_by));
	memset(args->put_off, 0, sizeof(args->put_off));
	for (; nr--; reason++) {
		code = be32_to_cpu(reason->code);
		if (code >= HOF_MOVE_REASONS)
			continue;	/* of a newer node */
		args->stuck_by[code] = be32_to_cpu(reason->stuck);
		args->put_off[code] = be32_to_cpu(reason->put_off);
	}
}

static void hof_relocate_heard(struct hof_asking *a, const struct hof_msg_relocated *said)
{
	struct hof_relocate *args = a->args;

	args->answered = 1;
	args->refusal = be32_to_cpu(said->refusal);
	args->known = be32_to_cpu(said->known);
	args->up = be32_to_cpu(said->up);
	args->begun += be32_to_cpu(said->begun);
	args->had += be32_to_cpu(said->had);
	args->queued += be32_to_cpu(said->queued);
	args->held += be32_to_cpu(said->held);
	args->fixed += be32_to_cpu(said->fixed);
	args->absent += be32_to_cpu(said->absent);
	args->moved = be64_to_cpu(said->moved);
	args->ended = be64_to_cpu(said->ended);
	args->waiting = be32_to_cpu(said->waiting);
	args->busy = be32_to_cpu(said->busy);
	args->stuck = be32_to_cpu(said->stuck);
	args->through = be32_to_cpu(said->through);
	hof_relocate_reasons(args, (const void *)(said + 1), be32_to_cpu(said->reasons));
	WRITE_ONCE(a->answered, true);
	wake_up(&a->wait);
}

int hof_relocate_answer(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg)
{
	const struct hof_msg_relocated *said = msg->body;
	struct hof_asking *a;

	if (msg->len < sizeof(*said) ||
	    (msg->len - sizeof(*said)) / sizeof(struct hof_msg_reason) !=
	    be32_to_cpu(said->reasons) ||
	    (msg->len - sizeof(*said)) % sizeof(struct hof_msg_reason))
		return -EBADMSG;
	mutex_lock(&hn->relocate_lock);
	list_for_each_entry(a, &hn->askings, list)
		if (a->node == node && !a->answered && a->seq == be32_to_cpu(said->seq) &&
		    a->args->run == be64_to_cpu(said->run))
			hof_relocate_heard(a, said);
	mutex_unlock(&hn->relocate_lock);
	return 0;
}

/* May one more be named? */
static bool hof_relocate_names(const struct hof_asking *a, unsigned int nr)
{
	const struct hof_relocate *args = a->args;

	return args->refusal == FLT_REFUSE_NONE && args->flags & HOF_RELOCATE_NAME &&
	       (!args->max || args->named + nr < args->max);
}

/* The node has it, or is just being given it: then there is nothing to name yet. RCU. */
static void hof_relocate_see(struct hof_asking *a, const struct hof_entry *e, unsigned int *nr)
{
	u64 id = hof_entry_id(e);
	u8 state = hof_entry_state(e);
	struct flt_tuple tuple;

	if ((state != HOF_FORWARD && state != HOF_HOLD) || READ_ONCE(e->peer)->node != a->node)
		return;
	a->args->left++;
	if (state == HOF_HOLD || !hof_relocate_names(a, *nr))
		return;
	hof_entry_tuple(e, &tuple);
	hof_life_fill(&tuple, id, 0, &a->page[(*nr)++]);
}

static int hof_relocate_name(struct hof_asking *a, unsigned int *nr)
{
	int err = hof_relocate_ask(a, *nr);

	a->args->named += *nr;
	*nr = 0;
	return min(err, 0);
}

/*
 * All of a table; once the node has not answered, or not as it should, they are only counted.
 * Return: 0 or -EINTR.
 */
static int hof_relocate_walk(struct hof_asking *a, struct rhashtable *table, unsigned int *nr)
{
	u32 left = a->args->left;
	struct rhashtable_iter iter;
	struct hof_entry *e;
	unsigned int n = 0;
	int err = 0;

	rhashtable_walk_enter(table, &iter);
	rhashtable_walk_start(&iter);
	while (!err && (e = rhashtable_walk_next(&iter))) {
		if (IS_ERR(e)) {
			a->args->left = left;	/* it grows, and is begun anew */
			continue;
		}
		hof_relocate_see(a, e, nr);
		if (*nr < HOF_LIFE_MAX && ++n % 256)
			continue;
		rhashtable_walk_stop(&iter);
		if (*nr == HOF_LIFE_MAX)
			err = hof_relocate_name(a, nr);
		cond_resched();
		if (rhashtable_walk_start_check(&iter))
			a->args->left = left;	/* the same */
	}
	rhashtable_walk_stop(&iter);
	rhashtable_walk_exit(&iter);
	return err;
}

static void hof_relocate_find(struct hof_asking *a, unsigned int *nr)
{
	struct hof_entry *e;

	rcu_read_lock();
	e = hof_entry_find_tuple(a->hn, &a->args->tuple);
	if (e)
		hof_relocate_see(a, e, nr);
	rcu_read_unlock();
}

static int hof_relocate_round(struct hof_asking *a)
{
	unsigned int nr = 0;
	int err = 0;

	if (a->args->tuple.family) {
		hof_relocate_find(a, &nr);
	} else {
		err = hof_relocate_walk(a, &a->hn->entries4, &nr);
		if (!err)
			err = hof_relocate_walk(a, &a->hn->entries6, &nr);
	}
	if (!err && a->args->refusal == FLT_REFUSE_NONE)
		err = hof_relocate_name(a, &nr);
	return err;
}

/* Is it asked at all? */
static enum flt_refusal hof_relocate_permit(const struct hof_asking *a)
{
	if (!flt_node_is_up(a->node))
		return FLT_REFUSE_NODEDOWN;
	if (!(READ_ONCE(a->node->features) & FLT_FEATURE_RELOCATE))
		return FLT_REFUSE_VERSION;
	if (!flt_node_is_proven(a->node) && !flt_service_insecure(a->hn->net))
		return FLT_REFUSE_INSECURE;
	return FLT_REFUSE_NONE;
}

static int hof_relocate_do(struct hof_asking *a)
{
	struct hof_relocate *args = a->args;
	int err = 0;

	/* A node that does not know the message takes it for a fault of the link. */
	args->refusal = hof_relocate_permit(a);
	if (args->flags & HOF_RELOCATE_END) {
		if (args->refusal == FLT_REFUSE_NONE)
			hof_relocate_send(a, 0, HOF_RELOCATE_OVER);
		return 0;
	}
	a->until = jiffies + msecs_to_jiffies(args->timeout_ms);
	mutex_lock(&a->hn->relocate_lock);
	list_add_tail(&a->list, &a->hn->askings);
	mutex_unlock(&a->hn->relocate_lock);
	err = hof_relocate_round(a);
	mutex_lock(&a->hn->relocate_lock);
	list_del(&a->list);
	mutex_unlock(&a->hn->relocate_lock);
	return err;
}

/* 0 or -ENOENT. */
static int hof_relocate_nodes(struct hof_asking *a)
{
	struct net *net = a->hn->net;
	struct flt_node *node;
	unsigned int i;

	for (i = 0; i < a->args->nr_to; i++) {
		node = flt_node_by_id(net, a->args->to[i]);
		if (!node)
			return -ENOENT;
		strscpy_pad(a->ask.names[i], node->name);
		flt_node_put(node);
	}
	a->node = flt_node_by_id(net, a->args->node);
	return a->node ? 0 : -ENOENT;
}

/* 0 or -EINVAL. What comes out begins with zeros. */
static int hof_relocate_check(struct hof_relocate *args)
{
	const size_t out = offsetof(struct hof_relocate, answered);
	const struct flt_tuple none = {};
	unsigned int i;

	if (args->size != sizeof(*args) || args->pad ||
	    args->flags & ~(HOF_RELOCATE_NAME | HOF_RELOCATE_END) ||
	    args->flags == (HOF_RELOCATE_NAME | HOF_RELOCATE_END) ||
	    (args->flags & HOF_RELOCATE_END && !args->run))
		return -EINVAL;
	if (!args->timeout_ms || args->timeout_ms > HOF_RELOCATE_WAIT_MAX_MS ||
	    (args->idle_ms && args->idle_ms < 10) || args->idle_ms > INT_MAX / 2)
		return -EINVAL;
	if (!args->nr_to || args->nr_to > HOF_MOVE_NODES)
		return -EINVAL;
	for (i = args->nr_to; i < HOF_MOVE_NODES; i++)
		if (args->to[i])
			return -EINVAL;
	if (args->tuple.family != AF_INET && args->tuple.family != AF_INET6 &&
	    memcmp(&args->tuple, &none, sizeof(none)))
		return -EINVAL;
	memset((void *)args + out, 0, sizeof(*args) - out);
	while (!args->run)
		get_random_bytes(&args->run, sizeof(args->run));
	return 0;
}

/* @fresh: the run has its number by this call. */
static int hof_relocate_run(struct hof_net *hn, struct hof_asking *a, struct hof_relocate *args,
			    bool fresh, void __user *arg)
{
	int err;

	a->hn = hn;
	a->args = args;
	init_waitqueue_head(&a->wait);
	err = hof_relocate_nodes(a);
	if (err)
		return err;
	err = hof_relocate_do(a);
	if (!err && copy_to_user(arg, args, sizeof(*args)))
		err = -EFAULT;
	/* Else the node would keep a run that nobody can end: its number was not told. */
	if (err && fresh && a->seq)
		hof_relocate_send(a, 0, HOF_RELOCATE_OVER);
	flt_node_put(a->node);
	return err;
}

int hof_relocate_ioctl(struct hof_file *file, void __user *arg)
{
	struct hof_relocate *args;
	struct hof_asking *a;
	bool fresh;
	int err;

	if (!ns_capable(file->hn->net->user_ns, CAP_NET_ADMIN))
		return -EPERM;
	args = memdup_user(arg, sizeof(*args));
	if (IS_ERR(args))
		return PTR_ERR(args);
	fresh = !args->run;
	a = kzalloc(sizeof(*a), GFP_KERNEL_ACCOUNT);
	err = a ? hof_relocate_check(args) : -ENOMEM;
	if (!err)
		err = hof_relocate_run(file->hn, a, args, fresh, arg);
	kfree(a);
	kfree(args);
	return err;
}

void hof_relocate_net_init(struct hof_net *hn)
{
	mutex_init(&hn->relocate_lock);
	INIT_LIST_HEAD(&hn->askings);
}
