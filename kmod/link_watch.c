// SPDX-License-Identifier: GPL-2.0
/* The looks at a link's channel: whether it may take its next step, and whether the peer lives. */

#include "auth.h"
#include "counter.h"
#include "linkwork.h"
#include "trace.h"

#define FLT_CONNECT_MS		3000
#define FLT_HELLO_MS		3000
#define FLT_AUTH_MS		12000	/* tlshd has 10 s */
#define FLT_STALL_MS		30000
#define FLT_MISSED		3	/* heartbeats */
#define FLT_PEER_HEARTBEAT_MAX	60000U

enum flt_why flt_link_secure(struct flt_link *link, struct flt_chan *chan)
{
	int err = flt_auth_start(chan);

	if (err < 0)
		return err == -ESRCH ? FLT_WHY_NOAGENT : FLT_WHY_AUTH;
	flt_chan_enter(chan, FLT_CHAN_SECURING);
	return FLT_WHY_NONE;
}

static enum flt_why flt_link_greet(struct flt_link *link, struct flt_chan *chan,
				   const struct flt_local *local)
{
	int err = 1;

	if (chan->auth != FLT_AUTH_NONE) {
		err = flt_auth_done(chan);
		if (!err)
			return FLT_WHY_NONE;
		trace_flt_link_auth(link->node, chan->outbound, min(err, 0));
		if (err < 0)
			return FLT_WHY_AUTH;
		flt_count(link->fn, FLT_LINK_AUTH_DONE);
		flt_auth_watch(chan);
	}
	if (chan->outbound)
		chan->more = !READ_ONCE(link->brief);
	flt_chan_enter(chan, FLT_CHAN_HELLO);
	if (chan->outbound && flt_chan_say_hello(chan, local))
		return FLT_WHY_NOMEM;
	/* The peer's HELLO may be there already. */
	queue_work(flt_msg_wq, &chan->rx_work);
	return FLT_WHY_NONE;
}

/* When too much time will have passed without anything from the peer. */
static unsigned long flt_link_silent_from(const struct flt_link *link, const struct flt_chan *chan)
{
	unsigned int own = READ_ONCE(link->fn->heartbeat_ms);
	unsigned int peer = be32_to_cpu(chan->peer.heartbeat_ms);

	return flt_ms_after(READ_ONCE(chan->heard),
			    FLT_MISSED * max(own, min(peer, FLT_PEER_HEARTBEAT_MAX)));
}

/*
 * What has come and waits for our receive work, or a handler that takes its time, is our silence,
 * not the peer's. Bytes that only lie there are not: kTLS leaves the beginning of a record in the
 * queue until it has the rest, which may never come.
 */
bool flt_link_is_silent(const struct flt_link *link, struct flt_chan *chan)
{
	return time_after_eq(jiffies, flt_link_silent_from(link, chan)) &&
	       !READ_ONCE(chan->handling) && !work_busy(&chan->rx_work);
}

/*
 * A look more than two heartbeats after the last means that this machine stood still, and so may
 * have what it should have received: the peer gets its time again.
 */
static void flt_link_look(struct flt_link *link, struct flt_chan *chan, unsigned int heartbeat)
{
	if (time_after(jiffies, flt_ms_after(chan->watched, 2 * heartbeat))) {
		flt_count(link->fn, FLT_LINK_STOOD_STILL);
		WRITE_ONCE(chan->heard, jiffies);
		WRITE_ONCE(chan->whole, jiffies);
		WRITE_ONCE(chan->tx_moved, jiffies);
	}
	chan->watched = jiffies;
}

/*
 * Does a message come byte by byte? Its receiver is held meanwhile (a request, an export, a module
 * that is to be unloaded), and each byte is a sign of life.
 */
static bool flt_link_is_endless(struct flt_chan *chan)
{
	return READ_ONCE(chan->partial) && !READ_ONCE(chan->handling) &&
	       time_after(jiffies, flt_ms_after(READ_ONCE(chan->whole), FLT_STALL_MS));
}

static enum flt_why flt_link_watch_up(struct flt_link *link, struct flt_chan *chan,
				      unsigned long *deadline)
{
	unsigned int heartbeat = READ_ONCE(link->fn->heartbeat_ms);
	unsigned long dead;

	flt_link_look(link, chan, heartbeat);
	if (flt_link_is_silent(link, chan) &&
	    READ_ONCE(link->node->admin) != FLT_ADMIN_MAINTENANCE)
		return FLT_WHY_HEARTBEAT;
	if (READ_ONCE(chan->queued) &&
	    time_after(jiffies, flt_ms_after(READ_ONCE(chan->tx_moved), FLT_STALL_MS)))
		return FLT_WHY_STALLED;
	if (flt_link_is_endless(chan))
		return FLT_WHY_ENDLESS;
	if (time_after_eq(jiffies, flt_ms_after(chan->pinged, heartbeat))) {
		chan->pinged = jiffies;
		flt_chan_say_ping(chan);
	}
	*deadline = flt_ms_after(chan->pinged, heartbeat);
	dead = flt_link_silent_from(link, chan);
	if (time_after(dead, jiffies) && time_before(dead, *deadline))
		*deadline = dead;
	return READ_ONCE(chan->why);
}

enum flt_why flt_link_watch(struct flt_link *link, struct flt_chan *chan,
			    const struct flt_local *local, unsigned long *deadline)
{
	enum flt_why why = READ_ONCE(chan->why);
	unsigned int ms = FLT_HELLO_MS;
	enum flt_why late = FLT_WHY_TIMEOUT;
	int ready;

	if (why)
		return why;
	if (chan->state == FLT_CHAN_CONNECTING) {
		ready = flt_chan_connected(chan);
		if (ready > 0)
			why = flt_link_secure(link, chan);
		else if (ready < 0)
			why = FLT_WHY_CONNECT;
		ms = FLT_CONNECT_MS;
		late = FLT_WHY_CONNECT;
	}
	if (!why && chan->state == FLT_CHAN_SECURING) {
		why = flt_link_greet(link, chan, local);
		ms = FLT_AUTH_MS;
		late = FLT_WHY_AUTH;
	}
	if (why || chan->state == FLT_CHAN_GREETED)
		return why;
	if (chan->state == FLT_CHAN_UP)
		return flt_link_watch_up(link, chan, deadline);
	if (chan->state == FLT_CHAN_HELLO) {
		ms = FLT_HELLO_MS;
		late = FLT_WHY_TIMEOUT;
	}
	*deadline = flt_ms_after(chan->since, ms);
	return time_after_eq(jiffies, *deadline) ? late : FLT_WHY_NONE;
}
