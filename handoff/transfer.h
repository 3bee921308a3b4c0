/* SPDX-License-Identifier: GPL-2.0 */
/* The giving side of a handoff. */
#ifndef HOF_TRANSFER_H
#define HOF_TRANSFER_H

#include <linux/refcount.h>
#include <linux/types.h>
#include <flotilla/flotilla.h>
#include <flotilla/handoff.h>

#include "given.h"
#include "hold.h"
#include "message.h"

struct flt_checkpoint;
struct flt_freeze;
struct flt_node;
struct hof_adoption;
struct hof_early_node;
struct hof_early_rule;
struct hof_entry;
struct hof_file;
struct hof_net;
struct hof_peer;
struct hof_ticket;
struct sock;

/**
 * enum hof_phase - of a transfer
 * @HOF_WAITING:  the node is being asked
 * @HOF_SETTLING: one thread has the answer and acts on it
 */
enum hof_phase {
	HOF_WAITING,
	HOF_SETTLING,
};

/**
 * struct hof_transfer - a handoff under way
 * @ref:    the table and each thread that works on it
 * @phase:  who moves it from WAITING to SETTLING, by cmpxchg(), acts on it
 * @hn:     namespace; the socket keeps it
 * @id:     epoch and number
 * @file:   who submitted; a counted reference
 * @flying: in @hn->flight, under its lock
 * @deadline: jiffies by which the node has to answer; set before it is in the table
 * @ticket: passed on to the entry when the handoff succeeds
 * @peer:   target; a counted reference
 * @downs:  how often it had been given up before the COMMIT
 * @from:   what @sk was adopted by, NULL if it was not; a counted reference
 * @origin: what the target is told, when it knows of origins
 * @proof:  for the COMMIT, when an origin is named; else 0
 * @back:   the target is the origin; what it is told
 * @epoch:  what its ACK said
 * @sk:     the connection; a counted reference. The program may close its
 *	    descriptor: then the socket is orphaned, and the handoff fails. NULL with @rule
 * @entry:  in HOLD
 * @hold:   its queue
 * @ckpt:   what was sent
 * @frozen: with @sk, from the checkpoint on: until it is released or goes on. Of who settles it
 * @may, @arg: see hof_transfer_give(); NULL: its program has submitted it
 * @rule:   it has no socket, and never had one (early.h); a counted reference. A @ticket only
 *	    if its table has chosen
 * @early:  of @rule: which node
 * @mark:   with @rule: that it was given
 * @dif:    with @rule: the device that its packets come by
 * @tuple:  of the connection
 * @start:  ktime of the submission
 */
struct hof_transfer {
	refcount_t ref;
	atomic_t phase;
	struct hof_net *hn;
	u64 id;
	struct hof_file *file;
	struct hlist_node flying;
	unsigned long deadline;
	struct hof_ticket *ticket;
	struct hof_peer *peer;
	int downs;
	struct hof_adoption *from;
	struct hof_msg_origin origin;
	u64 proof;
	bool back;
	u32 epoch;
	struct sock *sk;
	struct hof_entry *entry;
	struct hof_hold hold;
	struct flt_checkpoint *ckpt;
	struct flt_freeze *frozen;
	enum flt_refusal (*may)(struct sock *sk, void *arg);
	void *arg;
	struct hof_early_rule *rule;
	struct hof_early_node *early;
	struct hof_given_mark mark;
	int dif;
	struct flt_tuple tuple;
	ktime_t start;
};

void hof_transfer_put(struct hof_transfer *t);

/**
 * hof_transfer_submit - begin to hand a connection to a node
 * @file: where events go
 * @sk:   connected TCP socket of the file's namespace; the caller holds a reference
 * @node: target; the caller holds a reference
 * @args: of the ioctl; @args->refusal is set
 * @tls:  its keys; NULL: it is in clear text, or has kTLS of ours, and its keys with that. Not kept
 *
 * Return: 0 or the errno of HOF_IOC_SUBMIT; then the socket is as before.
 */
int hof_transfer_submit(struct hof_file *file, struct sock *sk, struct flt_node *node,
			struct hof_submit *args, const struct flt_tls *tls);

/**
 * hof_transfer_give - the same with a connection whose program knows nothing of it
 * @file:   where events go
 * @sk:     TCP; the caller holds a reference, not its lock
 * @node:   target; the caller holds a reference
 * @cookie: for the events
 * @flags:  HOF_ADOPT_MOVED and _HOPS, or 0: it has as many hops as it had
 * @may:    asked under @sk's lock when the client's packets wait already. Between a yes and the
 *	    release the program can neither read nor write; if it ends it, it stays with it
 * @arg:    for @may, which is asked before this returns if at all
 *
 * Waits for no program. Nothing that the client has not acknowledged goes along: that is for who
 * knows that his server writes no more. The node is asked to tell who gave it to us, if somebody
 * did, what that one wanted to know.
 *
 * Context: process, may sleep.
 * Return: FLT_REFUSE_NONE: an event tells; else why it stays where and as it was.
 */
enum flt_refusal hof_transfer_give(struct hof_file *file, struct sock *sk, struct flt_node *node,
				   u64 cookie, u32 flags,
				   enum flt_refusal (*may)(struct sock *sk, void *arg), void *arg);

/*
 * The node's answer; unknown ids are ignored: it came too late. @wait_ms, if not
 * zero: so long after the submission it does not take a COMMIT any more. @epoch: see message.h.
 */
void hof_transfer_ack(struct hof_net *hn, struct flt_node *node, u64 id, u32 epoch, u32 wait_ms);
void hof_transfer_nak(struct hof_net *hn, struct flt_node *node, u64 id, enum flt_refusal why);
/* The node asks: ABORT when the id is not under way. */
int hof_transfer_query(struct hof_net *hn, struct flt_node *node, u64 id);

/*
 * What is known before a connection is touched; the node itself may still say no. @tls: keys are to
 * go with it. Any context.
 */
enum flt_refusal hof_transfer_target(struct hof_net *hn, const struct flt_node *node,
				     const struct flt_tls *tls);

/*
 * Its message was not sent: it is as it was, and out of the table. False: somebody else has settled
 * it. Softirq too.
 */
bool hof_transfer_retract(struct hof_transfer *t);

/* The node has not answered in time. Process context. */
void hof_transfer_late(struct hof_transfer *t);
/* Take back what waits for @node, or what @file submitted. Process context. */
void hof_transfer_node_down(struct hof_net *hn, struct flt_node *node);
void hof_transfer_file_closed(struct hof_file *file);

#endif
