/* SPDX-License-Identifier: GPL-2.0 */
/* The taking side of a handoff. */
#ifndef HOF_ADOPT_H
#define HOF_ADOPT_H

#include <linux/refcount.h>
#include <flotilla/flotilla.h>

#include "hold.h"
#include "message.h"

struct flt_adoption;
struct flt_node;
struct hof_claim;
struct hof_net;
struct hof_peer;

/* Givers that never commit must not fill the memory of the taker: of all together. */
#define HOF_PENDING_MAX	16384

/* Flag of HANDOFF: the giver wants IDLE and BUSY; the value of HOF_WANT_IDLE. */
#define HOF_ADOPT_WANT_IDLE	BIT(0)
/* The giver is in no hurry to hear of the end; the value of HOF_TELL_LATER. */
#define HOF_ADOPT_TELL_LATER	BIT(1)
/* The taker had given it to the giver, and nobody claims it: no packet comes by the giver. */
#define HOF_ADOPT_BACK		BIT(3)
/* A policy has moved it for the request that is in it, and it is not asked again for that. */
#define HOF_ADOPT_MOVED		BIT(4)
/* With that: it is surplus of speculative admission; who refuses it says when there is room. */
#define HOF_ADOPT_SURPLUS	BIT(5)
/* How often policies have moved the connection. */
#define HOF_ADOPT_HOPS		GENMASK(15, 8)
/* struct hof_msg_origin is between the head of HANDOFF and the checkpoint. */
#define HOF_ADOPT_ORIGIN	BIT(2)

/**
 * struct hof_adoption - a connection taken from another node
 * @ref:     the layer on the child holds one until the end of the child has been
 *	     told; being in hn->pending is one
 * @hn:      namespace; the child keeps it
 * @node:    who forwards it to us: who gave it, or its origin; a counted reference
 * @peer:    the same; a counted reference
 * @id:      what it is called there
 * @voucher: what proves to others that it is we who @node forwards it to; 0: nothing does
 * @flags:   HOF_ADOPT_*
 * @tuple:   of the connection
 * @port:    of the listener that it was given to
 * @keys:    it came with keys, which its socket has from accept() on
 * @sk:      the child, or the one that has taken its place; valid while this is in hn->adopted
 * @all:     in hn->adopted, until the child dies
 * @held:    the same, in @peer->held; with @passed until our entry is over
 * @waiting: in hn->pending, until COMMIT or ABORT; then, when we gave it up, in hn->late
 * @asking:  with these: in hn->asking; then in @peer->late
 * @by_id:   with these: in hn->undecided
 * @handed:  while it waits, with @claim: in hn->handed
 * @busy:    in one of hn->busy, while it is looked at for being idle
 * @telling: in hn->telling, when there is something to tell to @node
 * @ask_at:  jiffies; in hn->asking: when to ask about it
 * @look_at: jiffies; with @busy: when to look next
 * @busy_since: jiffies; with @busy
 * @until:   jiffies; with @waiting: when it is given up
 * @committed: it is ours: only then is its life worth a message
 * @passed:  handed on, and our entry and not the child says when it is over (relay.c)
 * @returned: it has come back from @node, by which its packets do not come: they come as those of
 *	     @behind do, or are sent to us by the client
 * @farewell: has no child and never had one; to tell an end (claim.c)
 * @asked:   the question (successor.c) by which @peer is its giver; 0: none
 * @dead:    the child is; with @passed: our entry is over
 * @late:    we gave it up
 * @lost:    and COMMIT came later still; with @passed: who has it now is gone
 * @idle:    the server waits for a request
 * @unsure:  with @busy: it looked idle, but it had sent something since the look before
 * @told:    what @node knows of @idle
 * @sent:    the server's write_seq when it was last found idle, or at first
 * @seen:    the server's write_seq when it was last looked at
 * @claim:   it is to be claimed from its origin, which has not answered; else NULL. While it is
 *	     set others may not be told to claim it from @node
 * @offers:  claims on it of those that ask for it (successor.c): one of each at most
 * @behind:  the same connection, given by another node and handed on before it came back:
 *	     that one hears of its end, too. A counted reference
 * @child:   until COMMIT or ABORT; touched by who took this out of hn->pending
 * @back:    our own entry of the same connection, on HOLD until then: we gave
 *	     it away once and it comes back; else NULL
 * @hold:    its queue
 * @rcu:     for freeing: a layer of the socket that it was on may be looking
 *
 * From @all to @behind everything is under hn->adopt_lock; so are @node to @flags once it waits.
 */
struct hof_adoption {
	refcount_t ref;
	struct hof_net *hn;
	struct flt_node *node;
	struct hof_peer *peer;
	u64 id;
	u64 voucher;
	u32 flags;
	struct flt_tuple tuple;
	__be16 port;
	bool keys;
	struct sock *sk;
	struct list_head all;
	struct list_head held;
	struct list_head waiting;
	struct list_head asking;
	struct hlist_node by_id;
	struct hlist_node handed;
	struct list_head busy;
	struct list_head telling;
	unsigned long ask_at;
	unsigned long until;
	unsigned long look_at;
	unsigned long busy_since;
	bool committed;
	bool passed;
	bool returned;
	bool farewell;
	bool dead;
	bool late;
	bool lost;
	bool idle;
	bool unsure;
	bool told;
	u32 sent;
	u32 seen;
	u64 asked;
	struct hof_claim *claim;
	struct list_head offers;
	struct hof_adoption *behind;
	struct flt_adoption *child;
	struct hof_entry *back;
	struct hof_hold hold;
	struct rcu_head rcu;
};

void hof_adopt_net_init(struct hof_net *hn);
/* Aborts what waits for COMMIT; children that are ours go on, unobserved. */
void hof_adopt_net_exit(struct hof_net *hn);
/* Take our layers off all children. */
void hof_adopt_detach(void);

/* Messages of the giver, see message.h. Process context. */
int hof_adopt_request(struct hof_net *hn, struct flt_node *node,
		      const struct hof_msg_handoff *head, const struct hof_msg_origin *named,
		      const void *wire, u32 len);
void hof_adopt_commit(struct hof_net *hn, struct flt_node *node, u64 id, u32 tsval, u64 proof);
void hof_adopt_abort(struct hof_net *hn, struct flt_node *node, u64 id);

/*
 * What waits for a COMMIT of @node waits in vain. Only when @node is gone for good, or another
 * instance, is that forgotten: it may not have noticed that it was away.
 */
void hof_adopt_node_down(struct hof_net *hn, struct flt_node *node);
void hof_adopt_node_gone(struct hof_net *hn, struct flt_node *node);

/* Undo whatever waits for COMMIT, whoever it waits for. Process context. */
void hof_adopt_withdraw(struct hof_net *hn);

void hof_adoption_put(struct hof_adoption *a);
/* Bare; @node and @peer get references. NULL: no memory. */
struct hof_adoption *hof_adoption_alloc(struct hof_net *hn, struct flt_node *node,
					struct hof_peer *peer, u64 id);
/* What a socket was adopted by, with a reference; NULL: it was not. The caller holds one to @sk. */
struct hof_adoption *hof_adoption_of(const struct sock *sk);
/*
 * The port of the listener that has accepted it; 0: as it came with keys, that may be another than
 * its own, and is forgotten: this module was reloaded. The caller holds a reference to @sk.
 */
__be16 hof_sock_door(const struct sock *sk);

/*
 * @child takes the place of @sk, both locked: who gave that hears of the end of @child.
 * Return: FLT_REFUSE_NONE or FLT_REFUSE_NOMEM.
 */
enum flt_refusal hof_adoption_move(struct sock *sk, struct sock *child);
/* It does not after all. */
void hof_adoption_move_back(struct sock *sk, struct sock *child);

#endif
