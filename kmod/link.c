// SPDX-License-Identifier: GPL-2.0
/*
 * The link of a node. One work item for each node decides everything about it:
 * when to connect, which channel counts, when it is dead; so nothing here needs
 * a lock against itself. It never waits for the network: what takes time ends
 * in a kick.
 *
 * Of two nodes the one with the lower address connects, and the other refuses
 * to be connected to in the wrong direction. So two nodes that begin at the same
 * time still end with one connection. A new connection from the right side never
 * displaces one that lives: after its HELLO the old one is asked for a PONG. If that
 * comes, the new one is refused, whoever it is. If the peer was restarted, or noticed
 * before us that the old one is dead, a RST comes in its place, or nothing until the
 * heartbeats have run out.
 */

#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <net/ipv6.h>
#include <net/sock.h>
#include "compat/work.h"
#include "counter.h"
#include "linkwork.h"
#include "report.h"
#include "table.h"
#include "trace.h"

#define FLT_BACKOFF_MIN_MS	100
#define FLT_BACKOFF_MAX_MS	4000
#define FLT_TURN_MS		20	/* between attempts of a namespace's links */
#define FLT_CONTEST_MS		100	/* between looks at a link whose place is wanted */
#define FLT_STEADY_MS		5000	/* up for so long: the next failure is a new one */
#define FLT_REST_MAX_MS		1000	/* most that a peer waits who comes and goes */
#define FLT_KNOCK_MS		500	/* between connections that come to nothing */

struct workqueue_struct *flt_link_wq;
struct workqueue_struct *flt_msg_wq;

static const char *const flt_why_names[] = {
	[FLT_WHY_NONE]		= "",
	[FLT_WHY_CLOSED]	= "closed by the peer",
	[FLT_WHY_CONNECT]	= "cannot connect",
	[FLT_WHY_TIMEOUT]	= "no HELLO came",
	[FLT_WHY_HEARTBEAT]	= "heartbeats stopped",
	[FLT_WHY_STALLED]	= "the peer takes no more data",
	[FLT_WHY_MAGIC]		= "does not speak this protocol",
	[FLT_WHY_VERSION]	= "speaks another version of the protocol",
	[FLT_WHY_LENGTH]	= "impossible message length",
	[FLT_WHY_TYPE]		= "unknown message type",
	[FLT_WHY_BODY]		= "impossible message content",
	[FLT_WHY_NAME]		= "its name is not the one it is listed by",
	[FLT_WHY_REJECTED]	= "refused by the peer",
	[FLT_WHY_REPLACED]	= "the peer connected anew",
	[FLT_WHY_CHANGED]	= "settings changed",
	[FLT_WHY_REMOVED]	= "node removed",
	[FLT_WHY_NOMEM]		= "out of memory",
	[FLT_WHY_NOAGENT]	= "no TLS handshake agent (tlshd) runs here",
	[FLT_WHY_AUTH]		= "authentication failed",
	[FLT_WHY_STRANGER]	= "address not in the node table",
	[FLT_WHY_ORDER]		= "the wrong side connected",
	[FLT_WHY_BACKOFF]	= "misbehaved a moment ago",
	[FLT_WHY_NOLOCAL]	= "this node has no name or address of that family",
	[FLT_WHY_PORT]		= "neither authentication nor a privileged port",
	[FLT_WHY_ALIVE]		= "the link that there is lives",
	[FLT_WHY_BUSY]		= "another connection is being looked at",
	[FLT_WHY_ENDLESS]	= "a message of it does not come to its end",
};

const char *flt_why_name(enum flt_why why)
{
	return why <= FLT_WHY_LAST ? flt_why_names[why] : "unknown reason";
}

void flt_link_kick(struct flt_link *link)
{
	mod_delayed_work(flt_link_wq, &link->work, 0);
}

int flt_addr_cmp(const union flt_addr *a, const union flt_addr *b)
{
	int d;

	if (a->sa.sa_family == AF_INET)
		d = memcmp(&a->v4.sin_addr, &b->v4.sin_addr, sizeof(a->v4.sin_addr));
	else
		d = memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr));
	return d < 0 ? -1 : d > 0;
}

/* This node as the peer sees it; false: it cannot be seen. */
static bool flt_link_local(const struct flt_link *link, struct flt_local *local,
			   union flt_addr *addr)
{
	memset(addr, 0, sizeof(*addr));
	if (!flt_local_copy(link->fn, local))
		return false;
	if (link->node->addr.sa.sa_family == AF_INET)
		addr->v4 = local->v4;
	else
		addr->v6 = local->v6;
	return addr->sa.sa_family;
}

static void flt_link_set_state(struct flt_link *link, enum flt_node_state state, enum flt_why why)
{
	struct flt_node *node = link->node;

	if (node->state == state)
		return;
	trace_flt_link_state(node, node->state, state, why);
	WRITE_ONCE(node->state, state);
}

/* Did the peer do something that no correct peer does, or fail to prove itself. */
static bool flt_why_bars(enum flt_why why)
{
	return (why >= FLT_WHY_MAGIC && why <= FLT_WHY_REJECTED) || why == FLT_WHY_AUTH;
}

/*
 * May the link connect now? If not, @retry says when. The first attempt is free.
 * After that the links of a namespace take turns: a thousand dead nodes, each
 * tried every few seconds, would leave a slow machine no time for its work.
 */
static bool flt_link_turn(struct flt_link *link)
{
	struct flt_net *fn = link->fn;
	unsigned long turn;

	if (link->backoff == FLT_BACKOFF_MIN_MS || link->booked) {
		link->booked = false;
		return true;
	}
	spin_lock(&fn->turn_lock);
	turn = time_after(fn->turn, jiffies) ? fn->turn : jiffies;
	fn->turn = flt_ms_after(turn, FLT_TURN_MS);
	spin_unlock(&fn->turn_lock);
	if (time_before_eq(turn, jiffies))
		return true;
	link->booked = true;
	link->retry = turn;
	return false;
}

static void flt_link_blame(struct flt_link *link, enum flt_why why)
{
	bool told = link->why == why;
	unsigned int ms;

	WRITE_ONCE(link->why, why);
	link->barred = flt_why_bars(why);
	if (link->barred)
		link->backoff = FLT_BACKOFF_MAX_MS;
	if ((link->barred || why == FLT_WHY_NOAGENT) && !told)
		pr_warn_ratelimited("link to node %s: %s\n", link->node->name, flt_why_name(why));
	if (why == FLT_WHY_CHANGED)
		link->backoff = FLT_BACKOFF_MIN_MS;
	/* A quarter up or down, so that a cluster does not reconnect in step. */
	ms = link->backoff - link->backoff / 4 + get_random_u32_below(link->backoff / 2 + 1);
	if (why == FLT_WHY_CHANGED)
		ms = 0;
	link->retry = flt_ms_after(jiffies, ms);
	link->rest = flt_ms_after(jiffies, min(ms, FLT_REST_MAX_MS));
	link->backoff = min(link->backoff * 2, FLT_BACKOFF_MAX_MS);
}

static void flt_link_count_down(struct flt_link *link, enum flt_why why, bool was_up)
{
	if (was_up)
		flt_count(link->fn, FLT_LINK_DOWN);
	if (why == FLT_WHY_HEARTBEAT)
		flt_count(link->fn, FLT_LINK_HEARTBEAT_LOST);
	else if (why == FLT_WHY_STALLED || why == FLT_WHY_ENDLESS)
		flt_count(link->fn, FLT_LINK_STALLED);
	else if (why == FLT_WHY_CONNECT)
		flt_count(link->fn, FLT_LINK_CONNECT_FAILED);
	else if (why == FLT_WHY_AUTH || why == FLT_WHY_NOAGENT)
		flt_count(link->fn, FLT_LINK_AUTH_FAILED);
}

/* End a channel, telling the peer why when it is one that broke the rules. */
static void flt_link_end(struct flt_chan *chan, enum flt_why why)
{
	if (chan->sock && chan->state >= FLT_CHAN_HELLO && why != FLT_WHY_REJECTED &&
	    (flt_why_bars(why) || why == FLT_WHY_NOAGENT || why == FLT_WHY_ALIVE))
		flt_chan_say_reject(chan, why);
	flt_chan_stop(chan);
	flt_chan_put(chan);
}

static void flt_link_drop(struct flt_link *link, enum flt_why why)
{
	struct flt_chan *chan = link->chan;
	bool was_up = link->node->state == FLT_NODE_UP;

	if (!chan)
		return;
	if (was_up && time_after(jiffies, flt_ms_after(chan->since, FLT_STEADY_MS)))
		link->backoff = FLT_BACKOFF_MIN_MS;
	link->chan = NULL;
	RCU_INIT_POINTER(link->up, NULL);
	WRITE_ONCE(link->up_since, 0);
	WRITE_ONCE(link->node->features, 0);
	flt_link_count_down(link, why, was_up);
	flt_link_blame(link, why);
	flt_link_set_state(link, FLT_NODE_DOWN, why);
	flt_link_end(chan, why);
	flt_report_forget(link);
	/* After the last handler has returned: nothing of the old channel comes later. */
	if (was_up)
		flt_node_announce(link->node, FLT_EVENT_NODE_DOWN);
}

static void flt_link_drop_candidate(struct flt_link *link, enum flt_why why)
{
	unsigned long next = flt_ms_after(jiffies, FLT_KNOCK_MS);
	struct flt_chan *chan = link->candidate;

	if (!chan)
		return;
	link->candidate = NULL;
	flt_link_count_down(link, why, false);
	if (!chan->privileged)
		link->knock = next;
	else if (time_before(link->rest, next))
		link->rest = next;
	/*
	 * Who has no privileged port need not be the node, but any user of its machine, who must
	 * not be able to bar it.
	 */
	if ((flt_why_bars(why) && chan->privileged) || why == FLT_WHY_NOAGENT)
		flt_link_blame(link, why);
	flt_link_end(chan, why);
}

/* The channel's HELLO was accepted. */
static void flt_link_come_up(struct flt_link *link, struct flt_chan *chan,
			     const struct flt_local *local)
{
	struct flt_node *node = link->node;
	u64 instance = be64_to_cpu(chan->peer.instance);

	if (!chan->outbound && flt_chan_say_hello(chan, local))
		flt_chan_fail(chan, FLT_WHY_NOMEM);
	if (link->instance && link->instance != instance)
		flt_count(link->fn, FLT_LINK_PEER_RESTARTED);
	link->instance = instance;
	WRITE_ONCE(node->instance, instance);
	WRITE_ONCE(node->features, chan->features);
	WRITE_ONCE(link->brief, false);
	WRITE_ONCE(link->ups, link->ups + 1);
	WRITE_ONCE(link->up_since, ktime_to_ms(ktime_get()));
	link->barred = false;
	flt_count(link->fn, FLT_LINK_UP);

	/* Who hears of NODE_UP may send at once; delivery begins when all have heard. */
	flt_chan_open(chan);
	rcu_assign_pointer(link->up, chan);
	flt_link_set_state(link, FLT_NODE_UP, FLT_WHY_NONE);
	if (chan->auth == FLT_AUTH_NONE)
		pr_warn_ratelimited("the link to node %s is not authenticated: %s\n", node->name,
				    READ_ONCE(link->fn->insecure) ?
				    "INSECURE is on, connections are given and taken" :
				    "no connections are given or taken");
	flt_node_announce(node, FLT_EVENT_NODE_UP);
	flt_chan_deliver(chan);
}

static void flt_link_connect(struct flt_link *link, const struct flt_local *local)
{
	struct flt_chan *chan;

	chan = flt_chan_new(link, link->fn);
	if (!chan) {
		flt_link_blame(link, FLT_WHY_NOMEM);
		return;
	}
	flt_count(link->fn, FLT_LINK_CONNECTS);
	link->chan = chan;
	flt_link_set_state(link, FLT_NODE_CONNECTING, FLT_WHY_NONE);
	if (flt_chan_connect(chan, &link->node->addr, local))
		flt_chan_fail(chan, FLT_WHY_CONNECT);
}

/* Accepted sockets become candidates here, if this side is the one that waits. */
static void flt_link_admit(struct flt_link *link, bool we_connect, enum flt_why gone,
			   unsigned long *deadline)
{
	enum flt_why why = gone;
	struct flt_chan *chan;
	struct socket *sock;

	/*
	 * Each time that a node comes or goes every room looks at all that it has of it, and each
	 * handshake is a process of the agent's.
	 */
	if (!why && !we_connect && !link->barred && time_before(jiffies, link->rest)) {
		*deadline = link->rest;
		return;
	}
	spin_lock(&link->lock);
	sock = link->incoming;
	link->incoming = NULL;
	spin_unlock(&link->lock);
	if (!sock)
		return;
	if (!why && we_connect) {
		flt_count(link->fn, FLT_REFUSED_ORDER);
		why = FLT_WHY_ORDER;
	} else if (!why && link->barred && time_before(jiffies, link->retry)) {
		flt_count(link->fn, FLT_REFUSED_BACKOFF);
		why = FLT_WHY_BACKOFF;
	} else if (!why && !flt_sock_is_privileged(sock) &&
		   (link->candidate || time_before(jiffies, link->knock))) {
		/* Bounded: by the time that a handshake or a HELLO may take, and a while. */
		flt_count(link->fn, FLT_REFUSED_BUSY);
		why = FLT_WHY_BUSY;
	}
	chan = why ? NULL : flt_chan_new(link, link->fn);
	if (!chan) {
		trace_flt_link_refused(link->fn->net, &link->node->addr, why ?: FLT_WHY_NOMEM);
		flt_sock_abort(sock);
		return;
	}
	flt_link_drop_candidate(link, FLT_WHY_REPLACED);
	link->candidate = chan;
	why = flt_chan_take(chan, sock) ? FLT_WHY_NOMEM : flt_link_secure(link, chan);
	if (why)
		flt_chan_fail(chan, why);
}

/*
 * A newcomer has said HELLO. FLT_WHY_NONE: the place is free; FLT_WHY_ALIVE: the link that
 * there is has answered; FLT_WHY_BUSY: it has not yet, look again at *@deadline.
 */
static enum flt_why flt_link_contest(struct flt_link *link, unsigned long *deadline)
{
	struct flt_chan *chan = link->chan;

	if (!chan || READ_ONCE(chan->state) != FLT_CHAN_UP || READ_ONCE(chan->why))
		return FLT_WHY_NONE;
	if (!chan->challenged) {
		WRITE_ONCE(chan->challenged, ktime_get_ns());
		flt_chan_say_ping(chan);
	}
	if (READ_ONCE(chan->ponged) >= chan->challenged) {
		WRITE_ONCE(chan->challenged, 0);
		return FLT_WHY_ALIVE;
	}
	/* In maintenance, too: nobody else would end it. */
	if (flt_link_is_silent(link, chan))
		return FLT_WHY_NONE;
	*deadline = flt_ms_after(jiffies, FLT_CONTEST_MS);
	return FLT_WHY_BUSY;
}

static void flt_link_tend_candidate(struct flt_link *link, const struct flt_local *local,
				    unsigned long *deadline)
{
	struct flt_chan *chan = link->candidate;
	enum flt_why why;

	if (!chan)
		return;
	why = flt_link_watch(link, chan, local, deadline);
	if (why) {
		flt_link_drop_candidate(link, why);
		return;
	}
	if (READ_ONCE(chan->state) != FLT_CHAN_GREETED)
		return;
	why = flt_link_contest(link, deadline);
	if (why == FLT_WHY_BUSY) {
		/* Nothing more is read of it: look whether it still waits. */
		if (inet_sk_state_load(chan->sock->sk) != TCP_ESTABLISHED)
			flt_link_drop_candidate(link, FLT_WHY_CLOSED);
		return;
	}
	if (why == FLT_WHY_ALIVE) {
		pr_warn_ratelimited("a second connection as node %s is refused: %s\n",
				    link->node->name, flt_why_name(why));
		flt_count(link->fn, FLT_REFUSED_ALIVE);
		flt_link_drop_candidate(link, why);
		return;
	}
	flt_link_drop(link, FLT_WHY_REPLACED);
	link->candidate = NULL;
	link->chan = chan;
	flt_link_come_up(link, chan, local);
	*deadline = jiffies;
}

static void flt_link_tend(struct flt_link *link, const struct flt_local *local,
			  unsigned long *deadline)
{
	struct flt_chan *chan = link->chan;
	enum flt_why why;

	if (!chan)
		return;
	why = flt_link_watch(link, chan, local, deadline);
	if (!why && READ_ONCE(chan->state) == FLT_CHAN_GREETED) {
		flt_link_come_up(link, chan, local);
		*deadline = jiffies;
	}
	if (why)
		flt_link_drop(link, why);
}

static void flt_link_work(struct work_struct *work)
{
	struct flt_link *link = container_of(to_delayed_work(work), struct flt_link, work);
	unsigned long deadline = flt_ms_after(jiffies, FLT_BACKOFF_MAX_MS);
	unsigned long other = deadline, rest = deadline;
	enum flt_why gone = FLT_WHY_NONE;
	union flt_addr self;
	struct flt_local local;
	bool we_connect = false, begin;

	if (!flt_link_local(link, &local, &self))
		gone = FLT_WHY_NOLOCAL;
	else
		we_connect = flt_addr_cmp(&self, &link->node->addr) < 0;
	begin = test_and_clear_bit(FLT_LINK_RESTART, &link->flags);
	begin |= test_and_clear_bit(FLT_LINK_RENEW, &link->flags) &&
		 link->node->state != FLT_NODE_UP;
	if (begin || gone) {
		flt_link_drop_candidate(link, FLT_WHY_CHANGED);
		flt_link_drop(link, FLT_WHY_CHANGED);
		link->backoff = FLT_BACKOFF_MIN_MS;
		link->barred = false;
		link->booked = false;
		link->retry = jiffies;
		link->rest = jiffies;
		link->knock = jiffies;
	}
	if (gone)
		WRITE_ONCE(link->why, gone);
	flt_link_admit(link, we_connect, gone, &rest);
	flt_link_tend_candidate(link, &local, &other);
	flt_link_tend(link, &local, &deadline);
	if (we_connect && !link->chan) {
		if (time_after_eq(jiffies, link->retry) && flt_link_turn(link))
			flt_link_connect(link, &local);
		deadline = link->chan ? jiffies : link->retry;
	}
	if (time_before(other, deadline))
		deadline = other;
	if (time_before(rest, deadline))
		deadline = rest;
	/* Not mod_delayed_work: a kick that came meanwhile must not be put off. */
	if (link->chan || link->candidate || we_connect || READ_ONCE(link->incoming))
		queue_delayed_work(flt_link_wq, &link->work,
				   time_after(deadline, jiffies) ? deadline - jiffies : 1);
}

void flt_link_offer(struct flt_link *link, struct socket *sock)
{
	bool privileged = flt_sock_is_privileged(sock);
	struct socket *unwanted;

	spin_lock(&link->lock);
	if (link->stopped || (link->incoming && !privileged)) {
		unwanted = sock;
	} else {
		unwanted = link->incoming;
		link->incoming = sock;
	}
	spin_unlock(&link->lock);
	if (unwanted)
		flt_sock_abort(unwanted);
	flt_link_kick(link);
}

struct flt_link *flt_link_new(struct flt_net *fn, struct flt_node *node)
{
	struct flt_link *link;

	link = kzalloc(sizeof(*link), FLT_GFP);
	if (!link)
		return NULL;
	link->memcg = get_mem_cgroup_from_mm(current->mm);
	link->node = node;
	link->fn = fn;
	link->backoff = FLT_BACKOFF_MIN_MS;
	link->retry = jiffies;
	link->rest = jiffies;
	link->knock = jiffies;
	spin_lock_init(&link->lock);
	INIT_DELAYED_WORK(&link->work, flt_link_work);
	return link;
}

void flt_link_start(struct flt_link *link)
{
	flt_link_kick(link);
}

void flt_link_restart(struct flt_link *link)
{
	set_bit(FLT_LINK_RESTART, &link->flags);
	flt_link_kick(link);
}

void flt_node_hang_up(struct flt_node *node)
{
	flt_link_restart(node->link);
}
EXPORT_SYMBOL_GPL(flt_node_hang_up);

void flt_link_renew(struct flt_link *link)
{
	set_bit(FLT_LINK_RENEW, &link->flags);
	flt_link_kick(link);
}

void flt_link_stop(struct flt_link *link)
{
	struct socket *sock;

	disable_delayed_work_sync(&link->work);
	spin_lock(&link->lock);
	link->stopped = true;
	sock = link->incoming;
	link->incoming = NULL;
	spin_unlock(&link->lock);
	if (sock)
		flt_sock_abort(sock);
	flt_link_drop_candidate(link, FLT_WHY_REMOVED);
	flt_link_drop(link, FLT_WHY_REMOVED);
}

void flt_link_free(struct flt_link *link)
{
	if (!link)
		return;
	mem_cgroup_put(link->memcg);
	kfree_rcu(link, rcu);
}

int __init flt_link_init(void)
{
	/* Above normal: heartbeats must leave in time on a loaded machine. */
	flt_link_wq = alloc_workqueue("flt_link", WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM, 0);
	if (!flt_link_wq)
		return -ENOMEM;
	/* On the CPU that received, at normal priority: messages gather into batches. */
	flt_msg_wq = alloc_workqueue("flt_msg", WQ_MEM_RECLAIM | FLT_WQ_PERCPU, 0);
	if (!flt_msg_wq) {
		destroy_workqueue(flt_link_wq);
		return -ENOMEM;
	}
	return 0;
}

void flt_link_exit(void)
{
	destroy_workqueue(flt_msg_wq);
	destroy_workqueue(flt_link_wq);
}
