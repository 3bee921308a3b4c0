/* SPDX-License-Identifier: GPL-2.0 */
/* The link of a node: which channel it uses, when it connects, when it is dead. */
#ifndef FLT_LINKWORK_H
#define FLT_LINKWORK_H

#include <linux/memcontrol.h>
#include "chan.h"
#include "report.h"

/**
 * struct flt_link - what keeps one node connected
 * @node:     its node; the node owns the link
 * @fn:       the namespace
 * @memcg:    of who added the node: pays for what the link has; a counted reference, or NULL
 * @work:     the only one that changes @chan, @candidate and the node's state
 * @chan:     the channel in use or being made; @work only
 * @up:       @chan while it is UP; RCU, written by @work; senders read it
 * @candidate: an accepted channel whose HELLO has not come; @work only
 * @lock:     leaf, process context; guards @incoming, @stopped and @told
 * @incoming: an accepted socket that @work has not yet seen
 * @stopped:  takes no more sockets
 * @told:     what the peer says of itself: shown, and believed in nothing
 * @flags:    set by anyone
 * @backoff:  milliseconds until the next attempt, doubled each time; @work only
 * @retry:    jiffies of the next attempt; no socket of a misbehaving peer is
 *	      taken before; written by @work, READ_ONCE
 * @barred:   the peer misbehaved: @retry holds for its connections too
 * @rest:     jiffies until which the peer's next connection waits; @work only
 * @knock:    the same for one from a port that anybody has; it is refused; @work only
 * @brief:    the peer refused a HELLO for its length: say only what the oldest program knows
 *	      until the link is up. Receive work and @work; READ_ONCE
 * @booked:   @retry is this link's turn among those of the namespace; @work only
 * @why:      of the last DOWN, READ_ONCE
 * @instance: of the peer when the link was last up; @work only
 * @ups:      how often it came up; READ_ONCE
 * @rtt_us:   last heartbeat round trip; READ_ONCE
 * @up_since: ktime in ms, 0 while not up; READ_ONCE
 * @rcu:      for freeing
 */
struct flt_link {
	struct flt_node *node;
	struct flt_net *fn;
	struct mem_cgroup *memcg;
	struct delayed_work work;
	struct flt_chan *chan;
	struct flt_chan __rcu *up;
	struct flt_chan *candidate;
	spinlock_t lock;	/* leaf: incoming, stopped, told */
	struct socket *incoming;
	bool stopped;
	struct flt_told told;
	unsigned long flags;
#define FLT_LINK_RESTART	0	/* drop what there is and begin anew */
#define FLT_LINK_RENEW		1	/* the same, unless it is up */
	unsigned int backoff;
	unsigned long retry;
	bool barred;
	unsigned long rest;
	unsigned long knock;
	bool brief;
	bool booked;
	u8 why;
	u64 instance;
	u32 ups;
	u32 rtt_us;
	u64 up_since;
	struct rcu_head rcu;
};

extern struct workqueue_struct *flt_link_wq;	/* link works; never wait for messages */
extern struct workqueue_struct *flt_msg_wq;	/* receive and send works */

int flt_link_init(void);
void flt_link_exit(void);

struct flt_link *flt_link_new(struct flt_net *fn, struct flt_node *node);
void flt_link_start(struct flt_link *link);
/* End the link, and begin anew. */
void flt_link_restart(struct flt_link *link);
/* Settings changed that new channels have: begin anew, unless it is up. */
void flt_link_renew(struct flt_link *link);
/* Ends the link; a last NODE_DOWN is announced if it was up. May sleep. */
void flt_link_stop(struct flt_link *link);
void flt_link_free(struct flt_link *link);

/* Wake the work. Any context. */
void flt_link_kick(struct flt_link *link);

/* Give an accepted socket to the link of the node it comes from; takes it in any case. */
void flt_link_offer(struct flt_link *link, struct socket *sock);

/* -1: @a is the lower address and connects; 1: waits; 0: the same. */
int flt_addr_cmp(const union flt_addr *a, const union flt_addr *b);

static inline unsigned long flt_ms_after(unsigned long since, unsigned int ms)
{
	return since + msecs_to_jiffies(ms);
}

/* --- link_watch.c; of the link's work only --- */

/* The channel is connected: have it authenticated. */
enum flt_why flt_link_secure(struct flt_link *link, struct flt_chan *chan);
/* Nothing has come from the peer for as long as that means that it is dead. */
bool flt_link_is_silent(const struct flt_link *link, struct flt_chan *chan);
/*
 * One look at a channel: take the next step if it can be taken; why it must end, if it must.
 * *@deadline: of the next look, if it has to be sooner.
 */
enum flt_why flt_link_watch(struct flt_link *link, struct flt_chan *chan,
			    const struct flt_local *local, unsigned long *deadline);

/* --- handler.c --- */
int flt_handle(struct flt_chan *chan, const struct flt_msg *msg);
/* 1: somebody takes messages of the type, now; 0: nobody; -EPROTONOSUPPORT: nobody ever. */
int flt_handler_takes(u8 type);
/* Nobody here takes it: counted, and said to who waits for an answer. */
void flt_handler_missing(struct flt_chan *chan, u8 type);
/* The peer says so of one of ours. */
void flt_handle_absent(struct flt_chan *chan, u8 type);
/* Bytes of a bulk message's head; 0: this type is not bulk. */
u32 flt_handler_bulk_head(u8 type);
int flt_handle_sink(struct flt_chan *chan, const struct flt_msg *msg);
int flt_handle_sunk(struct flt_chan *chan, int err);

#endif
