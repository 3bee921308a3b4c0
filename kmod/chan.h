/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A channel is one TCP connection of a link, from connect or accept to its
 * end. A link has at most one that is in use, and may have one more, accepted
 * while the old one is not yet known to be dead.
 */
#ifndef FLT_CHAN_H
#define FLT_CHAN_H

#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include "frame.h"
#include "netns.h"

struct flt_link;

/* Why a channel ended or was refused: wire numbers (REJECT), never renumbered. */
enum flt_why {
	FLT_WHY_NONE		= 0,
	FLT_WHY_CLOSED		= 1,	/* the peer closed or reset it */
	FLT_WHY_CONNECT		= 2,	/* no connection came about */
	FLT_WHY_TIMEOUT		= 3,	/* HELLO did not come */
	FLT_WHY_HEARTBEAT	= 4,	/* silence for three intervals */
	FLT_WHY_STALLED		= 5,	/* the peer does not take what is queued */
	FLT_WHY_MAGIC		= 6,
	FLT_WHY_VERSION		= 7,
	FLT_WHY_LENGTH		= 8,
	FLT_WHY_TYPE		= 9,
	FLT_WHY_BODY		= 10,	/* a frame's content is impossible */
	FLT_WHY_NAME		= 11,	/* says another name than the one it is listed by */
	FLT_WHY_REJECTED	= 12,	/* the peer sent REJECT */
	FLT_WHY_REPLACED	= 13,	/* the peer connected anew */
	FLT_WHY_CHANGED		= 14,	/* this node's identity or the node's auth changed */
	FLT_WHY_REMOVED		= 15,	/* the node is being removed */
	FLT_WHY_NOMEM		= 16,
	FLT_WHY_NOAGENT		= 17,	/* authentication wanted, no tlshd in this namespace */
	FLT_WHY_AUTH		= 18,	/* TLS handshake failed */
	FLT_WHY_STRANGER	= 19,	/* source address is not in the table */
	FLT_WHY_ORDER		= 20,	/* connected although its address is the higher one */
	FLT_WHY_BACKOFF		= 21,	/* misbehaved a moment ago */
	FLT_WHY_NOLOCAL		= 22,	/* this node has no name or address of that family */
	FLT_WHY_PORT		= 23,	/* neither authentication nor a privileged port */
	FLT_WHY_ALIVE		= 24,	/* the link that there is has just shown that it lives */
	FLT_WHY_BUSY		= 25,	/* another connection is being looked at */
	FLT_WHY_ENDLESS		= 26,	/* a message does not come to its end */
	FLT_WHY_LAST		= FLT_WHY_ENDLESS,
};

const char *flt_why_name(enum flt_why why);

enum flt_chan_state {
	FLT_CHAN_CONNECTING,	/* SYN sent */
	FLT_CHAN_SECURING,	/* TLS handshake in tlshd's hands */
	FLT_CHAN_HELLO,		/* waits for the peer's HELLO */
	FLT_CHAN_GREETED,	/* HELLO accepted; nothing more is read */
	FLT_CHAN_OPEN,		/* takes messages to send, delivers none yet */
	FLT_CHAN_UP,		/* messages flow */
	FLT_CHAN_DEAD,		/* sends are refused, nothing is read */
};

/* Bytes of messages in one piece of the send queue, and of the receive buffer. */
#define FLT_PIECE_SIZE	(8192 - 40)
#define FLT_RX_SIZE	16384

/**
 * struct flt_piece - some of a channel's queued bytes, several messages or a part of one
 * @list: in flt_chan.queue or .sending
 * @bulk: NULL, or what is sent in place of @data, for which there is no memory then
 * @len:  bytes in @data or @bulk
 * @off:  bytes of these already sent
 * @secret: some of @data is: wiped with the piece
 * @data: frames
 */
struct flt_piece {
	struct list_head list;
	struct flt_bulk *bulk;
	u32 len;
	u32 off;
	bool secret;
	u8 data[FLT_PIECE_SIZE];
};

/**
 * struct flt_chan - one TCP connection of a link
 * @link:     whose; the link outlives the channel's works
 * @fn:       the namespace
 * @sock:     from start to stop; owned by the link's work
 * @state:    enum flt_chan_state. The link's work writes it, except HELLO to
 *	      GREETED (receive work). READ_ONCE
 * @why:      set once, by whoever finds it broken (flt_chan_fail); READ_ONCE
 * @outbound: we connected
 * @privileged: accepted from a port that only root could have bound
 * @auth:     enum flt_auth of the node when the channel was made
 * @key:      its key
 * @since:    jiffies when @state was last entered by the link's work
 * @heard:    jiffies of the last bytes received, or when this machine was last seen to have
 *	      stood still; receive work and the link's work, READ_ONCE
 * @pinged:   jiffies of the last PING; the link's work
 * @watched:  jiffies of the work's last look while up
 * @reported: jiffies of the last REPORT, 0: none yet; receive work
 * @handling: a message handler is running: silence is then our own doing
 * @challenged: ktime in ns when it was asked whether it lives, since another connection wants
 *	      its place; 0: not asked; the link's work
 * @ponged:   the youngest PING, ktime in ns, that the peer has answered; READ_ONCE
 * @peer:     the peer's HELLO, valid from GREETED on
 * @more:     a HELLO of either side says what that side knows (struct flt_hello_more)
 * @features: what the peer says that it knows, valid from GREETED on
 * @old_data_ready, @old_write_space, @old_state_change: what the socket had
 *
 * Received bytes, touched by @rx_work only:
 * @rx_work, @buf, @have: @have bytes are in @buf, from its start
 * @big, @big_len, @big_have, @big_type: a message that does not fit in @buf
 * @sink, @sink_left, @sinker, @sink_srcu: data of a bulk message on its way to @sinker
 * @partial:  a message has come in part; READ_ONCE
 * @whole:    jiffies when the last one had come whole, or the present one began, or had come by
 *	      another FLT_MSG_SMALL; READ_ONCE
 * @bulky:    bytes of the last message's head if it was bulk: so may be the next,
 *	      whose data should not be read into @buf
 * @rx_task:  the task in rx_work; its own sends are sent when it is done
 * @reading, @unread: where kTLS writes at this moment, and the bytes it had still to write at the
 *	      last look; these and the next two under the socket's lock, or by its only reader
 * @records:  TLS records that it had taken then, ever
 * @owed:     those of them that no byte has paid for
 * @old_backlog: what the socket had
 * @tickets:  those that the peer's TLS library has sent
 *
 * Bytes to send:
 * @tx_lock:    leaf, bottom halves off; guards @queue, @queued, @spare and the
 *		steps of @state to OPEN, UP and DEAD
 * @queue:      pieces not yet looked at by a sender
 * @queued:     bytes in @queue and @sending
 * @bulked:     those of them that are of bulk data; READ_ONCE without the lock
 * @spare:      one piece kept for reuse
 * @tx_mutex:   held by whoever writes to the socket; outside @tx_lock, inside nothing
 * @sending:    pieces being sent, before @queue; under @tx_mutex
 * @tx_work:    sends what is queued
 * @tx_jiffy:   when last something was sent directly (low 32 bits)
 * @tx_moved:   jiffies when the socket had last taken as much as a message may be long, or all
 *		that was queued, or the queue was empty; READ_ONCE
 * @tx_run:     bytes that it has taken since; under @tx_mutex
 *
 * Handshake:
 * @secured:    0 while under way, 1 done, negative errno; written by tlshd's answer
 * @asked:      tlshd was asked and @answered not yet awaited; the link's work
 * @answered:   tlshd has answered, and its answer has left the channel alone
 *
 * Senders in any context reach it by RCU from flt_link.up and take a reference.
 */
struct flt_chan {
	struct flt_link *link;
	struct flt_net *fn;
	struct socket *sock;
	u8 state;
	u32 why;
	bool outbound;
	bool privileged;
	u8 auth;
	s32 key;
	unsigned long since;
	unsigned long heard;
	unsigned long pinged;
	unsigned long watched;
	unsigned long reported;
	bool handling;
	u64 challenged;
	u64 ponged;
	struct flt_hello peer;
	bool more;
	u64 features;
	void (*old_data_ready)(struct sock *sk);
	void (*old_write_space)(struct sock *sk);
	void (*old_state_change)(struct sock *sk);

	struct work_struct rx_work;
	u8 *buf;
	u32 have;
	u8 *big;
	u32 big_len;
	u32 big_have;
	u8 big_type;
	struct flt_sink sink;
	u32 sink_left;
	const struct flt_msg_handler *sinker;
	int sink_srcu;
	bool partial;
	unsigned long whole;
	u16 bulky;
	struct task_struct *rx_task;
	const struct iov_iter *reading;
	size_t unread;
	u64 records;
	u64 owed;
	int (*old_backlog)(struct sock *sk, struct sk_buff *skb);
	u8 tickets;

	spinlock_t tx_lock;	/* leaf: the send queue */
	struct list_head queue;
	u32 queued;
	u32 bulked;
	struct flt_piece *spare;
	struct mutex tx_mutex;	/* one writer at the socket */
	struct list_head sending;
	struct work_struct tx_work;
	u32 tx_jiffy;
	unsigned long tx_moved;
	u32 tx_run;

	int secured;
	bool asked;
	struct completion answered;
	struct kref ref;
	struct rcu_head rcu;
};

/*
 * Life of a channel. All of these are called by the link's work, or by
 * flt_link_stop() after that work is disabled.
 */
struct flt_chan *flt_chan_new(struct flt_link *link, struct flt_net *fn);
int flt_chan_connect(struct flt_chan *chan, const union flt_addr *to,
		     const struct flt_local *local);
int flt_chan_take(struct flt_chan *chan, struct socket *sock);
int flt_chan_connected(struct flt_chan *chan);
void flt_chan_open(struct flt_chan *chan);
void flt_chan_deliver(struct flt_chan *chan);
void flt_chan_stop(struct flt_chan *chan);
void flt_chan_put(struct flt_chan *chan);

/* Did the peer of a connected socket bind a port that takes a right to bind? */
bool flt_sock_is_privileged(struct socket *sock);

/* Close at once, with a RST: a link's bytes are of no use without the link. */
void flt_sock_abort(struct socket *sock);

/* Mark broken and wake the link's work; the first reason stays. Any context. */
void flt_chan_fail(struct flt_chan *chan, enum flt_why why);

static inline void flt_chan_enter(struct flt_chan *chan, enum flt_chan_state state)
{
	chan->since = jiffies;
	WRITE_ONCE(chan->state, state);
}

/* chan_tx.c */
void flt_chan_tx_init(struct flt_chan *chan);
void flt_chan_tx_free(struct flt_chan *chan);
int flt_chan_send(struct flt_chan *chan, u8 type, const struct kvec *vec, unsigned int nr,
		  struct flt_bulk *bulk, gfp_t gfp);
int flt_chan_put_message(struct flt_chan *chan, u8 type, const struct kvec *vec, unsigned int nr,
			 struct flt_bulk *bulk, gfp_t gfp);
/* With what this node knows, if @chan->more. */
int flt_chan_say_hello(struct flt_chan *chan, const struct flt_local *local);
void flt_chan_say_reject(struct flt_chan *chan, enum flt_why why);
int flt_chan_say_ping(struct flt_chan *chan);
int flt_chan_say_pong(struct flt_chan *chan, const struct flt_ping *ping);
int flt_chan_say_absent(struct flt_chan *chan, u8 type);
int flt_chan_say_report(struct flt_chan *chan, const struct flt_report *report);
void flt_chan_flush(struct flt_chan *chan);
void flt_chan_kick(struct flt_chan *chan, bool now);

/* chan_rx.c */
int flt_chan_rx_init(struct flt_chan *chan);
/* The channel is dead: data that was awaited will not come. */
void flt_chan_rx_end(struct flt_chan *chan);
void flt_chan_rx_free(struct flt_chan *chan);

#endif
