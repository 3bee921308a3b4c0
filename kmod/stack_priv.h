/* SPDX-License-Identifier: GPL-2.0 */
/* Inside of the socket stack: stack*.c. */
#ifndef FLT_STACK_PRIV_H
#define FLT_STACK_PRIV_H

#include <linux/completion.h>
#include <linux/hash.h>
#include <linux/rculist.h>
#include <net/inet_connection_sock.h>
#include "stack.h"

/* What a layer needs replaced on the socket; the destructor always is. */
#define FLT_NEED_DATA_READY	BIT(0)
#define FLT_NEED_WRITE_SPACE	BIT(1)
#define FLT_NEED_STATE_CHANGE	BIT(2)
#define FLT_NEED_ERROR_REPORT	BIT(3)
#define FLT_NEED_CALLBACKS	GENMASK(3, 0)
#define FLT_NEED_OPS		BIT(4)

/* Parts of a table of operations that are ours only while a layer has anything to say to them. */
#define FLT_OPS_POLL		BIT(0)
#define FLT_OPS_DATA		BIT(1)	/* recvmsg, sendmsg */
#define FLT_OPS_ALL		GENMASK(1, 0)

/**
 * struct flt_base - TCP's own pointers for one address family, and ours beside them
 * @data_ready, @write_space, @state_change, @error_report, @destruct: TCP's own
 * @real_ops, @real_af: TCP's own tables
 * @ops, @af: copies of these with our functions; they live as long as the module, so
 *	that a child can share its listener's until it is known whose it is. Of @ops one for each
 *	choice of FLT_OPS_*: the parts that are not chosen are TCP's own
 *
 * Learnt from a socket of this family when the module loads; never changes after.
 */
struct flt_base {
	void (*data_ready)(struct sock *sk);
	void (*write_space)(struct sock *sk);
	void (*state_change)(struct sock *sk);
	void (*error_report)(struct sock *sk);
	void (*destruct)(struct sock *sk);
	const struct proto_ops *real_ops;
	const struct inet_connection_sock_af_ops *real_af;
	const struct proto_ops *ops[FLT_OPS_ALL + 1];
	struct inet_connection_sock_af_ops af;
};

/* IPv4's and IPv6's. */
extern struct flt_base flt_bases[2];
extern bool flt_base_has_v6;

/* Of the family that the socket has now; NULL for IPv6 in a kernel without. */
static inline const struct flt_base *flt_base(const struct sock *sk)
{
	if (READ_ONCE(sk->sk_family) == AF_INET)
		return &flt_bases[0];
	return flt_base_has_v6 ? &flt_bases[1] : NULL;
}

/**
 * struct flt_stack - the layers of one socket
 * @node:   in the table of stacks, keyed by @sk
 * @sk:     the socket; no reference: its destructor takes the stack away
 * @base:   of the family that the socket was made with (IPV6_ADDRFORM changes it later)
 * @lock:   orders changes of @layers, @seq, @dead; leaf, bottom halves off
 * @layers: newest first; RCU
 * @seq:    of the newest layer
 * @dead:   the destructor or the restoring of the pointers has begun; READ_ONCE
 * @no_ops: a ULP was set: the operations stay TCP's own; under sk_callback_lock
 * @ulp_calls: calls that may be setting one; the same
 * @idle:   in the list of stacks that flt_layer_detach() left empty
 * @users:  one for the table, one for each layer that is not yet freed, one for each operation
 *	under way but poll
 * @rcu:    for freeing
 * @tasks:  for the table's user, when the socket goes on without a stack
 *
 * Found by RCU lookup from the callbacks (softirq) and operations (process). Made and
 * taken away under sk_callback_lock of @sk held for writing, or when the socket is not
 * yet or no longer visible to anyone. Each stack holds a reference on this module: its
 * functions are on the socket. Lock order: socket's lock, sk_callback_lock, @lock.
 */
struct flt_stack {
	struct hlist_node node;
	struct sock *sk;
	const struct flt_base *base;
	struct list_head layers;
	spinlock_t lock;	/* @layers, @seq, @dead */
	u32 seq;
	bool dead;
	bool no_ops;
	unsigned int ulp_calls;
	struct list_head idle;
	refcount_t users;
	struct rcu_head rcu;
	struct rcu_head tasks;
};

/**
 * struct flt_layer - one room's share of one socket
 * @list:   in the stack's layers; under the stack's lock, RCU
 * @leaving: in the list of layers that are unlinked and not yet freed (stack_remove.c)
 * @ops:    of the room
 * @stack:  holds one of its users; NULL until it is first linked
 * @seq:    later layers have larger ones; tells what is below a layer even after its removal
 * @linked: under the stack's lock
 * @users:  one for being linked, one for each poll, answer and report that runs in the layer
 * @done:   who waits for the end, or NULL; set before the layer is unlinked
 * @rcu:    for freeing
 * @priv:   of the room
 */
struct flt_layer {
	struct list_head list;
	struct list_head leaving;
	const struct flt_layer_ops *ops;
	struct flt_stack *stack;
	u32 seq;
	bool linked;
	refcount_t users;
	struct completion *done;
	struct rcu_head rcu;
	u8 priv[] __aligned(8);
};

/**
 * struct flt_stack_table - all stacks, by socket
 * @heads: as many as TCP's own table of connections has, within bounds; RCU
 * @shift: leaves the number of a head of a 64-bit hash
 * @locks: of the heads whose number ends in the lock's; leaves, bottom halves off
 *
 * Of fixed size like TCP's: the look-up is on the way of every event, and a table that
 * can be resized costs three times as many instructions there.
 */
struct flt_stack_table {
	struct hlist_head *heads;
	unsigned int shift;
	spinlock_t locks[64];	/* @heads */
};

extern struct flt_stack_table flt_stacks;

static inline unsigned long flt_stack_hash(const struct sock *sk)
{
	return ((u64)(unsigned long)sk * GOLDEN_RATIO_64) >> flt_stacks.shift;
}

/* Under rcu_read_lock(). */
static inline struct flt_stack *flt_stack_lookup(const struct sock *sk)
{
	struct flt_stack *st;

	hlist_for_each_entry_rcu(st, &flt_stacks.heads[flt_stack_hash(sk)], node)
		if (st->sk == sk)
			return st;
	return NULL;
}

/* Are there functions of ours on its pointers? With sk_callback_lock held that stays so. */
bool flt_stack_is_on(const struct sock *sk);
unsigned int flt_layer_needs(const struct flt_layer_ops *ops);
struct flt_layer *flt_layer_alloc(const struct flt_layer_ops *ops, gfp_t gfp);
void flt_layer_put(struct flt_layer *layer);
struct flt_stack *flt_stack_alloc(struct sock *sk, gfp_t gfp);
struct flt_stack *flt_stack_get(const struct sock *sk);
void flt_stack_put(struct flt_stack *st);
void flt_stack_link(struct flt_stack *st, struct flt_layer *layer);
void flt_stack_hash_in(struct flt_stack *st);
void flt_stack_hash_out(struct flt_stack *st);
unsigned int flt_stack_needs(struct flt_stack *st);

/* stack_base.c: the socket's pointers */
int flt_base_init(void);
void flt_base_exit(void);
bool flt_base_fits(const struct sock *sk, const struct flt_base *base, unsigned int needs);
/* Which of ours these operations are: FLT_OPS_* that are ours; -1: none. */
int flt_base_parts(const struct flt_base *base, const struct proto_ops *ops);
void flt_base_hook(struct sock *sk, const struct flt_base *base);
void flt_base_unhook(struct sock *sk, const struct flt_base *base);
void flt_base_install(struct sock *sk, const struct flt_base *base, unsigned int needs);
void flt_base_restore(struct sock *sk, const struct flt_base *base);
void flt_base_set_ops(struct sock *sk, bool ours);
void flt_base_set_part(struct sock *sk, unsigned int part, bool ours);
bool flt_sock_has_others(const struct sock *sk);
bool flt_base_hears(const struct sock *sk, unsigned int needs);
void flt_base_hear_below(struct sock *sk);

/* stack_child.c: children of a listener */
void flt_child_cloned(const struct sock *listener, struct sock *child, bool own);

/* stack_ops.c: the operations */
const struct proto_ops *flt_ops_make(const struct proto_ops *real, unsigned int parts);

/* stack_remove.c */
void flt_stack_die(struct flt_stack *st);
void flt_layer_free_done(struct flt_layer *layer);
void flt_remove_exit(void);

#endif
