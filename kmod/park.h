/* SPDX-License-Identifier: GPL-2.0 */
/* Where a parked child's packets wait. Private to the adopt files. */
#ifndef FLT_PARK_H
#define FLT_PARK_H

#include <linux/list.h>
#include <linux/skbuff.h>
#include <linux/spinlock.h>
#include <flotilla/flotilla.h>

struct net;
struct sock;
struct flt_park_net;

/**
 * struct flt_park - one connection whose packets do not reach TCP
 * @node:   in the namespace's table, RCU
 * @home:   that table
 * @tuple:  addresses and ports; never change
 * @lock:   leaf, taken with bottom halves off
 * @open:   packets go to TCP; under @lock, READ_ONCE without
 * @held:   in the order they came, under @lock
 * @bytes:  of memory in @held, under @lock
 * @okfn:   the rest of their way, the same for all; under @lock
 *
 * The owner frees it a grace period after flt_park_end().
 */
struct flt_park {
	struct hlist_node node;
	struct flt_park_net *home;
	struct flt_tuple tuple;
	spinlock_t lock;	/* leaf */
	bool open;
	struct sk_buff_head held;
	unsigned int bytes;
	int (*okfn)(struct net *net, struct sock *sk, struct sk_buff *skb);
};

/**
 * flt_park_begin - from here on the packets of a connection wait below TCP
 * @net:   network namespace
 * @park:  zeroed
 * @tuple: of the connection
 *
 * Context: process, may sleep.
 * Return: FLT_REFUSE_NONE; _DUPLICATE: they wait for another; _NOMEM.
 */
enum flt_refusal flt_park_begin(struct net *net, struct flt_park *park,
				const struct flt_tuple *tuple);

/* Let what waits go to TCP, in order, and from then on everything. Process context. */
void flt_park_open(struct flt_park *park);

/* What still waits is dropped; nobody acknowledged it. */
void flt_park_end(struct flt_park *park);

int flt_park_init(void);
void flt_park_exit(void);

#endif
