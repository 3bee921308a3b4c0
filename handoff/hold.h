/* SPDX-License-Identifier: GPL-2.0 */
/* Packets that wait until it is known whose they are. */
#ifndef HOF_HOLD_H
#define HOF_HOLD_H

#include <linux/netfilter.h>
#include <linux/skbuff.h>

#include "entry.h"

/**
 * struct hof_hold - the queue of an entry in state HOLD
 * @queue: packets as the hook got them, device references held; under the
 *	   entry's lock, its own lock is not used
 * @okfn:  what netfilter does with a packet at the end; the same for all packets
 *	   of one family in one namespace
 * @ending: they go on to the socket, and the entry goes; under the entry's lock
 */
struct hof_hold {
	struct sk_buff_head queue;
	int (*okfn)(struct net *net, struct sock *sk, struct sk_buff *skb);
	bool ending;
};

void hof_hold_init(struct hof_hold *hold);

/* Take a packet for an entry seen in HOLD; false: it has left that state. Softirq, RCU. */
bool hof_hold_packet(struct hof_net *hn, struct hof_entry *e, struct sk_buff *skb,
		     const struct nf_hook_state *state);

/* The first of an entry that nobody can find yet; false: there is no room. Softirq, RCU. */
bool hof_hold_first(struct hof_net *hn, struct hof_hold *hold, struct sk_buff *skb,
		    const struct nf_hook_state *state);
/* That one again, of an entry that nobody has found; its device is to be set. NULL: none. */
struct sk_buff *hof_hold_take(struct hof_net *hn, struct hof_hold *hold);
/* The first of an entry in HOLD is not needed any more. */
void hof_hold_drop_first(struct hof_net *hn, struct hof_entry *e);

/**
 * hof_hold_begin - turn a FORWARD entry back to HOLD
 * Return: the state that it was in: in another nothing is done.
 */
u8 hof_hold_begin(struct hof_entry *e, struct hof_hold *hold);

/* It leaves the table in a moment: what waited, if anything did, is on its way to the socket. */
bool hof_hold_is_ending(struct hof_entry *e);

/*
 * The end of HOLD: every packet goes on in the order of arrival, those that
 * arrive meanwhile after them, and only then does the entry change its state:
 * to FORWARD, or to GONE and out of the table. Process context, may not sleep.
 */
void hof_hold_forward(struct hof_net *hn, struct hof_entry *e);
void hof_hold_reinject(struct hof_net *hn, struct hof_entry *e);

#endif
