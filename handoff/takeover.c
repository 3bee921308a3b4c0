// SPDX-License-Identifier: GPL-2.0
/*
 * A service address has come to this node, whose front-end has died. The nodes that have its
 * connections are asked for them, page by page; each answers with claims (origin.c), and each
 * granted one is an entry like that of a connection which was handed off here. The contract is
 * flotilla/takeover.h; what the nodes do is in successor.c.
 *
 * Believed is a node that was asked, of connections of the service, while it is being asked, and
 * never against a socket of this machine or an entry of another node.
 */

#include <linux/capability.h>
#include <linux/memcontrol.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <flotilla/takeover.h>

#include "kmod/node.h"
#include "kmod/service.h"

#include "counter.h"
#include "entry.h"
#include "forward.h"
#include "hold.h"
#include "message.h"
#include "net.h"
#include "peer.h"
#include "standby.h"
#include "takeover.h"
#include "ticket.h"

#define HOF_TAKEOVER_WAIT_MAX_MS	60000

/* A question without an answer is put again. */
#define HOF_ASK_AGAIN	(HZ / 4)

/**
 * struct hof_asked - one node
 * @node:    a counted reference
 * @page:    that it is asked for, or was last
 * @at:      jiffies of the last question
 * @asked:   there was one
 * @refusal: with REFUSED
 * @state:   enum hof_takeover_state; 0: it has not answered
 * @taken:   entries
 * @kept:    see the uapi
 */
struct hof_asked {
	struct flt_node *node;
	u32 page;
	unsigned long at;
	bool asked;
	u16 refusal;
	u16 state;
	u32 taken;
	u32 kept;
};

/**
 * struct hof_takeover_run - one that is under way
 * @node:    in hn->takeovers
 * @file:    who asks; valid as long as this is
 * @memcg:   of who asks, who pays for what is taken; a counted reference, or NULL
 * @service: for what
 * @proof:   random, that the answers are to this
 * @wait:    who asks waits here
 * @open:    nodes that have not answered; READ_ONCE
 * @nr:      of @asked
 * @asked:   the nodes
 *
 * All of it under hn->takeover_lock.
 */
struct hof_takeover_run {
	struct list_head node;
	struct hof_file *file;
	struct mem_cgroup *memcg;
	struct hof_service service;
	u64 proof;
	wait_queue_head_t wait;
	unsigned int open;
	unsigned int nr;
	struct hof_asked asked[] __counted_by(nr);
};

static struct hof_takeover_run *hof_takeover_find(struct hof_net *hn, u64 proof)
{
	struct hof_takeover_run *run;

	lockdep_assert_held(&hn->takeover_lock);
	list_for_each_entry(run, &hn->takeovers, node)
		if (run->proof == proof)
			return run;
	return NULL;
}

/* NULL: it is not asked, or not any more. */
static struct hof_asked *hof_takeover_asked(struct hof_takeover_run *run,
					    const struct flt_node *node)
{
	unsigned int i;

	for (i = 0; run && i < run->nr; i++)
		if (run->asked[i].node == node)
			return run->asked[i].asked && !run->asked[i].state ? &run->asked[i] : NULL;
	return NULL;
}

/* FLT_REFUSE_NONE: it is that node's under a new id; _STATE: there is none that lives. */
static enum flt_refusal hof_takeover_known(struct hof_net *hn, struct hof_peer *peer, u64 to,
					   u32 epoch, const struct flt_tuple *tuple)
{
	enum flt_refusal why = FLT_REFUSE_STATE;
	struct hof_entry *e;
	u8 state;

	rcu_read_lock();
	e = hof_entry_find_tuple(hn, tuple);
	state = e ? hof_entry_state(e) : HOF_GONE;
	if (state == HOF_HOLD || (state == HOF_FORWARD && READ_ONCE(e->peer) != peer)) {
		why = FLT_REFUSE_DUPLICATE;
	} else if (state == HOF_FORWARD) {
		refcount_inc(&peer->ref);
		if (hof_entry_redirect(hn, e, hof_entry_id(e), to, peer, epoch)) {
			why = FLT_REFUSE_NONE;
		} else {
			hof_peer_put(peer);
			why = FLT_REFUSE_BUSY;	/* it ends just now */
		}
	}
	rcu_read_unlock();
	return why;
}

/* What is over goes when its place is needed, and not for a claim that fails. */
static void hof_takeover_clear(struct hof_net *hn, const struct flt_tuple *tuple)
{
	struct hof_entry *e;

	rcu_read_lock();
	e = hof_entry_find_tuple(hn, tuple);
	if (e && hof_entry_state(e) != HOF_FORWARD)
		hof_entry_remove(hn, e);
	rcu_read_unlock();
}

static enum flt_refusal hof_takeover_insert(struct hof_net *hn, struct hof_entry *e,
					    const struct flt_tuple *tuple)
{
	int err = hof_entry_insert(hn, e);

	if (err == -EEXIST) {
		hof_takeover_clear(hn, tuple);
		err = hof_entry_insert(hn, e);
	}
	switch (err) {
	case 0:
		return FLT_REFUSE_NONE;
	case -ENOSPC:
		return FLT_REFUSE_TABLEFULL;
	default:
		return FLT_REFUSE_BUSY;		/* no memory, or somebody was faster */
	}
}

/* It is a kernel thread that works on the claims. NULL: no memory. */
static struct hof_entry *hof_takeover_alloc(struct hof_takeover_run *run, struct hof_peer *peer,
					    const struct flt_tuple *tuple, struct hof_hold *hold,
					    struct hof_ticket **ticket)
{
	struct mem_cgroup *old = set_active_memcg(run->memcg);
	struct hof_entry *e = NULL;

	hof_hold_init(hold);
	*ticket = hof_ticket_create(run->file, 0, peer->node->id, true, HOF_ENTRY_GFP);
	if (*ticket)
		e = hof_entry_alloc(tuple, peer, hold, HOF_ENTRY_GFP);
	if (*ticket && !e)
		hof_ticket_put(*ticket);
	set_active_memcg(old);
	return e;
}

/* As hof_transfer_done() leaves one. */
static enum flt_refusal hof_takeover_enter(struct hof_takeover_run *run, struct hof_net *hn,
					   struct hof_peer *peer,
					   const struct hof_msg_claim *claim,
					   const struct flt_tuple *tuple)
{
	int downs = atomic_read(&peer->downs);
	struct hof_ticket *ticket;
	enum flt_refusal why;
	struct hof_hold hold;
	struct hof_entry *e;

	e = hof_takeover_alloc(run, peer, tuple, &hold, &ticket);
	if (!e)
		return FLT_REFUSE_BUSY;
	ticket->direct = true;
	e->id = be64_to_cpu(claim->to);
	e->acked = be32_to_cpu(claim->acked);
	why = hof_takeover_insert(hn, e, tuple);
	if (why != FLT_REFUSE_NONE) {
		hof_entry_free(e);
		hof_ticket_put(ticket);
		return why;
	}
	atomic_inc(&peer->node->load);
	rcu_read_lock();	/* once it forwards, it may go at any time */
	spin_lock_bh(&e->lock);
	e->ticket = ticket;
	WRITE_ONCE(e->ups, READ_ONCE(peer->ups));
	WRITE_ONCE(e->epoch, be32_to_cpu(claim->epoch));
	spin_unlock_bh(&e->lock);
	hof_hold_forward(hn, e);
	/* Pairs with hof_peer_lose(): either it sees FORWARD or we see the node go. */
	smp_mb();
	if (atomic_read(&peer->downs) != downs)
		hof_entry_kill(hn, e, be64_to_cpu(claim->to));
	rcu_read_unlock();
	return FLT_REFUSE_NONE;
}

static enum flt_refusal hof_takeover_take(struct hof_takeover_run *run, struct hof_net *hn,
					  struct flt_node *node,
					  const struct hof_msg_claim *claim,
					  const struct flt_tuple *tuple)
{
	enum flt_refusal why;
	struct hof_peer *peer;

	if (!claim->to || !hof_service_has(&run->service, tuple))
		return FLT_REFUSE_SERVICE;
	if (hof_standby_owned(hn, tuple))
		return FLT_REFUSE_DUPLICATE;
	peer = hof_peer_get(hn, node);
	if (IS_ERR(peer))
		return PTR_ERR(peer) == -EHOSTUNREACH ? FLT_REFUSE_NOROUTE : FLT_REFUSE_BUSY;
	why = hof_takeover_known(hn, peer, be64_to_cpu(claim->to), be32_to_cpu(claim->epoch),
				 tuple);
	if (why == FLT_REFUSE_STATE)
		why = hof_takeover_enter(run, hn, peer, claim, tuple);
	hof_peer_put(peer);
	return why;
}

enum flt_refusal hof_takeover_claim(struct hof_net *hn, struct flt_node *node,
				    const struct hof_msg_claim *claim,
				    const struct flt_tuple *tuple)
{
	enum flt_refusal why = FLT_REFUSE_STATE;
	struct hof_takeover_run *run;
	struct hof_asked *asked;

	mutex_lock(&hn->takeover_lock);
	run = hof_takeover_find(hn, be64_to_cpu(claim->proof));
	asked = hof_takeover_asked(run, node);
	if (asked)
		why = hof_takeover_take(run, hn, node, claim, tuple);
	if (why == FLT_REFUSE_NONE) {
		asked->taken++;
		hof_count(hn, HOF_STAT_TAKEOVER_TAKEN);
	} else if (why != FLT_REFUSE_BUSY) {
		if (asked)
			asked->kept++;
		hof_count(hn, HOF_STAT_TAKEOVER_REFUSED);
	}
	mutex_unlock(&hn->takeover_lock);
	return why;
}

static void hof_takeover_send(struct hof_takeover_run *run, struct hof_asked *asked)
{
	struct hof_msg_takeover ask = {
		.proof = cpu_to_be64(run->proof),
		.page = cpu_to_be32(asked->page),
		.family = cpu_to_be16(run->service.family == AF_INET ? 4 : 6),
		.port = run->service.port,
	};
	struct kvec vec = { .iov_base = &ask, .iov_len = sizeof(ask) };

	memcpy(ask.server, run->service.addr, sizeof(ask.server));
	asked->at = jiffies;
	asked->asked = true;
	flt_link_send(asked->node, HOF_MSG_TAKEOVER, &vec, 1, GFP_KERNEL);
}

static void hof_takeover_answered(struct hof_takeover_run *run, struct hof_asked *asked,
				  enum hof_takeover_state state, u32 refusal)
{
	asked->refusal = min_t(u32, refusal, U16_MAX);
	asked->state = state;
	WRITE_ONCE(run->open, run->open - 1);
}

int hof_takeover_taken(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg)
{
	const struct hof_msg_taken *said = msg->body;
	struct hof_takeover_run *run;
	struct hof_asked *asked;

	if (msg->len != sizeof(*said))
		return -EBADMSG;
	mutex_lock(&hn->takeover_lock);
	run = hof_takeover_find(hn, be64_to_cpu(said->proof));
	asked = hof_takeover_asked(run, node);
	if (!asked || be32_to_cpu(said->page) != asked->page)
		goto out;
	if (said->refusal == cpu_to_be32(FLT_REFUSE_NOMEM))
		goto out;	/* that passes: it is asked again */
	if (said->refusal) {
		hof_takeover_answered(run, asked, HOF_TAKEOVER_REFUSED,
				      be32_to_cpu(said->refusal));
	} else if (!said->more) {
		hof_takeover_answered(run, asked, HOF_TAKEOVER_DONE, FLT_REFUSE_NONE);
	} else {
		asked->page++;
		if (said->begun)
			hof_takeover_send(run, asked);
		else
			asked->at = jiffies;	/* not at once: it waits for something */
	}
	wake_up(&run->wait);
out:
	mutex_unlock(&hn->takeover_lock);
	return 0;
}

/* Ask who has not answered, if there is a link. */
static void hof_takeover_ask_one(struct hof_net *hn, struct hof_takeover_run *run,
				 struct hof_asked *asked)
{
	if (asked->state || !flt_node_is_up(asked->node))
		return;
	if (asked->asked && time_before(jiffies, asked->at + HOF_ASK_AGAIN))
		return;
	if (!(READ_ONCE(asked->node->features) & FLT_FEATURE_TAKEOVER))
		hof_takeover_answered(run, asked, HOF_TAKEOVER_REFUSED, FLT_REFUSE_VERSION);
	else if (!flt_node_is_proven(asked->node) && !flt_service_insecure(hn->net))
		hof_takeover_answered(run, asked, HOF_TAKEOVER_REFUSED, FLT_REFUSE_INSECURE);
	else
		hof_takeover_send(run, asked);
}

static void hof_takeover_ask(struct hof_net *hn, struct hof_takeover_run *run)
{
	unsigned int i;

	mutex_lock(&hn->takeover_lock);
	for (i = 0; i < run->nr; i++)
		hof_takeover_ask_one(hn, run, &run->asked[i]);
	mutex_unlock(&hn->takeover_lock);
}

static int hof_takeover_wait(struct hof_net *hn, struct hof_takeover_run *run, u32 ms)
{
	unsigned long end = jiffies + msecs_to_jiffies(ms);
	long left;

	do {
		hof_takeover_ask(hn, run);
		left = wait_event_interruptible_timeout(run->wait, !READ_ONCE(run->open),
							HOF_ASK_AGAIN);
		if (left < 0)
			return -EINTR;
	} while (READ_ONCE(run->open) && time_before(jiffies, end));
	return 0;
}

/* Who may have been given connections. */
static bool hof_takeover_concerns(const struct flt_node *node)
{
	return READ_ONCE(node->role) == FLT_ROLE_BACKEND &&
	       READ_ONCE(node->admin) != FLT_ADMIN_MAINTENANCE;
}

static void hof_takeover_free(struct hof_takeover_run *run)
{
	unsigned int i;

	for (i = 0; i < run->nr; i++)
		flt_node_put(run->asked[i].node);
	mem_cgroup_put(run->memcg);
	kvfree(run);
}

/* 0 or -ENOSPC. */
static int hof_takeover_choose(struct hof_takeover_run *run, struct net *net, unsigned int room)
{
	struct flt_node *node;
	u32 id = 0;

	while ((node = flt_node_walk(net, &id))) {
		if (!hof_takeover_concerns(node)) {
			flt_node_put(node);
			continue;
		}
		if (run->nr == room) {
			flt_node_put(node);
			return -ENOSPC;
		}
		run->nr++;
		run->asked[run->nr - 1].node = node;
	}
	run->open = run->nr;
	return 0;
}

static struct hof_takeover_run *hof_takeover_create(struct hof_file *file,
						    const struct hof_service *service,
						    unsigned int room)
{
	struct hof_takeover_run *run;
	int err;

	run = kvzalloc(struct_size(run, asked, room), GFP_KERNEL_ACCOUNT);
	if (!run)
		return ERR_PTR(-ENOMEM);
	run->file = file;
	run->memcg = get_mem_cgroup_from_mm(current->mm);
	run->service = *service;
	do {
		get_random_bytes(&run->proof, sizeof(run->proof));
	} while (!run->proof);
	init_waitqueue_head(&run->wait);
	err = hof_takeover_choose(run, file->hn->net, room);
	if (!err)
		return run;
	hof_takeover_free(run);
	return ERR_PTR(err);
}

/* Held back first, then asked. */
static int hof_takeover_begin(struct hof_net *hn, struct hof_takeover_run *run)
{
	struct hof_takeover_run *other;
	int err = 0;

	mutex_lock(&hn->takeover_lock);
	/* Two would be told of the same connection by turns, and come to no end. */
	list_for_each_entry(other, &hn->takeovers, node)
		if (hof_service_overlaps(&other->service, &run->service))
			err = -EBUSY;
	if (!err)
		err = hof_standby_begin(hn, &run->service);
	if (!err)
		list_add_tail(&run->node, &hn->takeovers);
	mutex_unlock(&hn->takeover_lock);
	return err;
}

static void hof_takeover_end(struct hof_net *hn, struct hof_takeover_run *run)
{
	mutex_lock(&hn->takeover_lock);
	list_del(&run->node);
	hof_standby_end(hn, &run->service);
	mutex_unlock(&hn->takeover_lock);
}

static int hof_takeover_report(const struct hof_takeover_run *run, struct hof_takeover *args)
{
	struct hof_takeover_node __user *to = u64_to_user_ptr(args->nodes);
	unsigned int i;

	for (i = 0; i < run->nr; i++) {
		const struct hof_asked *asked = &run->asked[i];
		struct hof_takeover_node one = {
			.node = asked->node->id,
			.state = asked->state,
			.refusal = asked->refusal,
			.taken = asked->taken,
			.kept = asked->kept,
		};

		if (!one.state && flt_node_is_up(asked->node))
			one.state = HOF_TAKEOVER_SILENT;
		else if (!one.state)
			one.state = HOF_TAKEOVER_DOWN;
		if (copy_to_user(&to[i], &one, sizeof(one)))
			return -EFAULT;
	}
	args->nr_nodes = run->nr;
	return 0;
}

static int hof_takeover_do(struct hof_file *file, const struct hof_service *service,
			   struct hof_takeover *args)
{
	struct hof_takeover_run *run;
	int err;

	run = hof_takeover_create(file, service, args->nr_nodes);
	if (IS_ERR(run))
		return PTR_ERR(run);
	err = hof_takeover_begin(file->hn, run);
	if (err)
		goto free;
	err = hof_takeover_wait(file->hn, run, args->timeout_ms);
	hof_takeover_end(file->hn, run);
	if (!err)
		err = hof_takeover_report(run, args);
free:
	hof_takeover_free(run);
	return err;
}

static int hof_takeover_prepare(struct hof_net *hn, const struct hof_service *service, u32 op)
{
	int err;

	mutex_lock(&hn->takeover_lock);
	if (op == HOF_TAKEOVER_PREPARE)
		err = hof_standby_begin(hn, service);
	else
		err = hof_standby_end(hn, service);
	mutex_unlock(&hn->takeover_lock);
	return err;
}

/* 0 or -EINVAL. */
static int hof_takeover_check(const struct hof_takeover *args)
{
	static const u8 zeros[16];
	bool asks = args->op == HOF_TAKEOVER_ASK;

	if (args->size != sizeof(*args) || args->pad ||
	    args->op < HOF_TAKEOVER_PREPARE || args->op > HOF_TAKEOVER_RELEASE)
		return -EINVAL;
	if (args->family != AF_INET && args->family != AF_INET6)
		return -EINVAL;
	if (!memcmp(args->address, zeros, sizeof(zeros)) ||
	    (args->family == AF_INET && memcmp(args->address + 4, zeros, 12)))
		return -EINVAL;
	if (!asks)
		return args->timeout_ms || args->nr_nodes || args->nodes ? -EINVAL : 0;
	if (!args->timeout_ms || args->timeout_ms > HOF_TAKEOVER_WAIT_MAX_MS)
		return -EINVAL;
	return !args->nr_nodes || args->nr_nodes > HOF_TAKEOVER_NODES ? -EINVAL : 0;
}

int hof_takeover_ioctl(struct hof_file *file, void __user *arg)
{
	struct hof_service service = {};
	struct hof_net *hn = file->hn;
	struct hof_takeover args;
	int err;

	if (!ns_capable(hn->net->user_ns, CAP_NET_ADMIN))
		return -EPERM;
	if (copy_from_user(&args, arg, sizeof(args)))
		return -EFAULT;
	err = hof_takeover_check(&args);
	if (err)
		return err;
	service.family = args.family;
	service.port = args.port;
	memcpy(service.addr, args.address, sizeof(service.addr));
	err = hof_forward_hook(hn);
	if (err)
		return err;
	if (args.op != HOF_TAKEOVER_ASK)
		return hof_takeover_prepare(hn, &service, args.op);
	err = hof_takeover_do(file, &service, &args);
	if (!err && copy_to_user(arg, &args, sizeof(args)))
		return -EFAULT;
	return err;
}
