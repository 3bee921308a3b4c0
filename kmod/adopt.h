/* SPDX-License-Identifier: GPL-2.0 */
/* Building the child of an adoption. Private to the adopt files. */
#ifndef FLT_ADOPT_H
#define FLT_ADOPT_H

#include <net/request_sock.h>
#include "checkpoint.h"
#include "park.h"
#include "waiting.h"

/**
 * flt_segment - a segment as if it came from the client
 * @net:    network namespace
 * @state:  addresses and ports
 * @flags:  TCPHDR_*
 * @seq, @ack: of the segment
 * @window: unscaled, as on the wire
 *
 * Return: an skb as tcp_v4_rcv() or tcp_v6_rcv() would pass on, data at the
 * TCP header, or NULL.
 */
struct sk_buff *flt_segment(struct net *net, const struct flt_state *state, u8 flags,
			    u32 seq, u32 ack, u16 window);

/**
 * flt_listener_lookup - the listener that would get a SYN of this connection
 * @net:   network namespace
 * @tuple: addresses and ports
 * @skb:   the client's segment, for BPF programs that choose in a reuseport
 *	   group; or NULL: the group is then indexed by the tuple's hash
 *
 * Return: referenced, or NULL.
 */
struct sock *flt_listener_lookup(struct net *net, const struct flt_tuple *tuple,
				 struct sk_buff *skb);

/**
 * flt_tuple_vacate - make sure that nobody here has this four-tuple
 * @net:   network namespace
 * @state: of the connection to come; decides whether a TIME_WAIT may be ended
 *
 * Return: FLT_REFUSE_NONE or FLT_REFUSE_DUPLICATE.
 */
enum flt_refusal flt_tuple_vacate(struct net *net, const struct flt_state *state);

/* FLT_REFUSE_NONE when the server's address is one of @net's. */
enum flt_refusal flt_tuple_local(struct net *net, const struct flt_tuple *tuple);

/* Is there a route from the server's address to the client? */
bool flt_tuple_routed(struct net *net, const struct flt_tuple *tuple);

/**
 * flt_child_fill - make a fresh child what @state says
 * @child: ESTABLISHED, nothing sent or received yet; owned by the caller
 * @state: checked
 * @data:  the bytes of its queues
 *
 * Sends nothing.
 *
 * Context: process, may sleep.
 * Return: FLT_REFUSE_NONE or FLT_REFUSE_NOMEM.
 */
enum flt_refusal flt_child_fill(struct sock *child, const struct flt_state *state,
				const struct flt_streams *data);

/*
 * Its part of flt_child_fill(): @data is what has been written and not acknowledged. Before the
 * windows are set.
 */
enum flt_refusal flt_child_queue_sent(struct sock *child, const struct flt_state *state,
				      const void *data);

/*
 * The server's FIN, behind these bytes: the state is what it was, and CLOSING where it was
 * LAST_ACK, which accept() does not expect. The child is silent (freeze.h).
 */
enum flt_refusal flt_child_queue_end(struct sock *child, const struct flt_state *state);

/* A child with such bytes has been accepted: it sends what it may, and retransmits. May sleep. */
void flt_child_resume_sending(struct sock *child);

/**
 * struct flt_sendq - the write queue of a child that nobody has accepted
 * @write:  not sent
 * @rtx:    sent
 * @sorted: the same by time
 * @wmem:   their memory, which TCP counts and no group is charged for
 *
 * Under the child's lock.
 */
struct flt_sendq {
	struct sk_buff_head write;
	struct rb_root rtx;
	struct list_head sorted;
	int wmem;
};

/* The caller owns @child, which is parked. */
void flt_sendq_take(struct flt_sendq *q, struct sock *child);

/* @child has just been accepted and lives; the caller owns it: it is charged to the program. */
void flt_sendq_return(struct flt_sendq *q, struct sock *child);

/* @child is dead; the caller owns it or has it locked with bottom halves off. */
void flt_sendq_drop(struct flt_sendq *q, struct sock *child);

/* Charge @sk's group for pages of @sk that are counted as TCP's already; the caller owns @sk. */
void flt_sock_charge(struct sock *sk, int pages);

/**
 * struct flt_accept - waits for the accept() of one child
 * @ops:   of its request
 * @own:   what the request had
 * @child: it
 * @done:  called once or, by a listener that ends while the group has no place, twice
 * @free:  called when nobody is in our code any more on its behalf
 * @rcu:   for that
 */
struct flt_accept {
	struct request_sock_ops ops;
	const struct request_sock_ops *own;
	struct sock *child;
	void (*done)(struct flt_accept *accept, bool accepted);
	void (*free)(struct flt_accept *accept);
	struct rcu_head rcu;
};

/**
 * flt_accept_await - be called when @child is accepted or reset unaccepted
 * @accept: filled; stays until flt_accept_over() has called @free
 * @req:    of @child, not in a queue yet; the only reference
 * @child:  the child
 * @done:   accepted: in the context of accept(), may sleep; else under the child's lock, which is
 *	    about to be destroyed, with bottom halves off
 *
 * The module is not unloaded before flt_accept_over() or flt_accept_forget().
 */
void flt_accept_await(struct flt_accept *accept, struct request_sock *req, struct sock *child,
		      void (*done)(struct flt_accept *accept, bool accepted));
/* @req did not get into a queue. */
void flt_accept_forget(struct flt_accept *accept, struct request_sock *req);
/* Of @done: it was the last use of @accept but for those that are under way. */
void flt_accept_over(struct flt_accept *accept, void (*free)(struct flt_accept *accept));
/* Module exit. */
void flt_accept_exit(void);

struct flt_ktls;

/**
 * struct flt_adoption - a child between adopt and commit or abort
 * @park:        the child's packets, and its addresses
 * @child:       parked, one reference
 * @listener:    one reference
 * @req:         stands in the accept queue for the child; one reference
 * @unread:      bytes the child was given
 * @queued:      bytes it was given that the client has not acknowledged, with the FIN
 * @waiting:     whom they count for, from before the child is made until it is accepted or gone
 * @ack_pending: the client waits for an acknowledgment
 * @over:        @accept has been called
 * @accept:      with @queued: when it stops being parked
 * @sendq:       with @queued: these bytes, from commit until then
 * @late:        after @accept, where that is before accept() has done with the child
 * @ktls:        its keys, until commit or abort, or until it is queued by requeue.c; or NULL
 * @port:        of @listener, for a successor
 * @old:         the same connection, whose place in the hash the child takes (requeue.c), or NULL
 * @rcu:         for freeing: a packet may be looking at @park
 *
 * Belongs to whoever called flt_endpoint_adopt(); needs no lock.
 */
struct flt_adoption {
	struct flt_park park;
	struct sock *child;
	struct sock *listener;
	struct request_sock *req;
	u32 unread;
	u32 queued;
	struct flt_waiting waiting;
	bool ack_pending;
	bool over;
	struct flt_accept accept;
	struct flt_sendq sendq;
	struct delayed_work late;
	struct flt_ktls *ktls;
	__be16 port;
	struct sock *old;
	struct rcu_head rcu;
};

/**
 * flt_adoption_build - make the child of an adoption and park it
 * @net:      network namespace
 * @state:    checked
 * @data:     the bytes of its queues
 * @skb:      as if the client ended its handshake; consumed
 * @adoption: with its listener, its packets held back, and @old if there is one: locked
 *
 * Context: process, may sleep.
 * Return: FLT_REFUSE_NONE, or why not; then nothing of it is left.
 */
enum flt_refusal flt_adoption_build(struct net *net, const struct flt_state *state,
				    const struct flt_streams *data, struct sk_buff *skb,
				    struct flt_adoption *adoption);

/* The hash has @adoption->old again, if there was one, instead of @child; both are locked. */
void flt_adoption_give_back(struct flt_adoption *adoption, struct sock *child);

/* False: nobody listens any more, and the child has been reset and destroyed. */
bool flt_adoption_enqueue(struct flt_adoption *adoption);

/* The timers that a parked child should have had. */
void flt_child_unpark(struct sock *child, bool ack_pending);
/* Without a FIN or RST; the caller owns @child and loses its reference. */
void flt_child_destroy(struct sock *child);

/* The same connection may be signed there and was not here: that is not ours to decide. */
bool flt_listener_wants_signatures(const struct sock *listener);

#endif
