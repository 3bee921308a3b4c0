/* SPDX-License-Identifier: GPL-2.0 */
/* The node table of a network namespace. */
#ifndef FLT_NODE_H
#define FLT_NODE_H

#include <linux/kref.h>
#include <linux/notifier.h>
#include <linux/spinlock.h>
#include <net/net_namespace.h>
#include <flotilla/flotilla.h>

struct flt_link;

/**
 * union flt_addr - where a node is
 * @sa: family tells which
 */
union flt_addr {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/**
 * struct flt_node - a peer
 * @id:       never changes, unique in the namespace, from 1
 * @name:     never changes
 * @net:      the namespace whose table it is in; valid while it is in the table
 * @addr:     link address and port; never changes (delete and add anew)
 * @fwd_addr: where packets are forwarded; family 0: as @addr. Under @lock
 * @weight:   0 to 65535; READ_ONCE
 * @role, @admin, @forward: enums of the uapi; READ_ONCE
 * @state:    enum flt_node_state, written by its link; READ_ONCE
 * @auth, @key: how its link proves who it is; READ_ONCE
 * @load:     connections it serves for us; any context
 * @instance: random number of the peer's last HELLO; another one after NODE_DOWN
 *	      and NODE_UP: it was restarted, what it had is gone. READ_ONCE
 * @features: enum flt_feature that the peer's HELLO named, and others; 0: its link is not up, or
 *	      it says nothing of the kind: ask it. READ_ONCE
 * @link:     its link; never changes
 * @lock:     leaf, bottom halves off; guards @fwd_addr
 *
 * Found by RCU or with a reference (flt_node_get/put). Changed under the
 * table's mutex, in process context.
 */
struct flt_node {
	u32 id;
	char name[FLT_NAME_MAX];
	struct net *net;
	union flt_addr addr;
	union flt_addr fwd_addr;
	u32 weight;
	u8 role, admin, forward, state;
	u8 auth;
	s32 key;
	atomic_t load;
	u64 instance;
	u64 features;
	struct flt_link *link;
	spinlock_t lock;	/* leaf: fwd_addr */
	struct kref ref;
	struct rcu_head rcu;
};

/* Takes a reference; NULL when there is none. Any context. */
struct flt_node *flt_node_by_id(struct net *net, u32 id);
struct flt_node *flt_node_by_name(struct net *net, const char *name);
/* The first of the table from *@id on, with a reference; *@id is then behind it. NULL: no more. */
struct flt_node *flt_node_walk(struct net *net, u32 *id);
/* Is it a node's: of its link, or what packets are forwarded to. Any context. */
bool flt_node_has_addr(struct net *net, u8 family, const void *addr);
struct flt_node *flt_node_get(struct flt_node *node);
void flt_node_put(struct flt_node *node);

/* Where packets for the node go: @fwd_addr, or its link address. Any context. */
static inline void flt_node_fwd_addr(struct flt_node *node, union flt_addr *addr)
{
	spin_lock_bh(&node->lock);
	*addr = node->fwd_addr.sa.sa_family ? node->fwd_addr : node->addr;
	spin_unlock_bh(&node->lock);
}

static inline bool flt_node_is_up(const struct flt_node *node)
{
	return READ_ONCE(node->state) == FLT_NODE_UP;
}

/*
 * May the node know @feature: it says so, or does not say what it knows, and then it has to
 * refuse what it does not. Any context.
 */
static inline bool flt_node_may_know(const struct flt_node *node, enum flt_feature feature)
{
	u64 features = READ_ONCE(node->features);

	return !features || features & feature;
}

/*
 * Is the link that is up now one whose other end has proven who it is (FLT_AUTH_PSK,
 * FLT_AUTH_X509). In a message handler: the link that the message has come by, or false when
 * that is ending. Any context.
 */
bool flt_node_is_proven(const struct flt_node *node);

/*
 * The node's link ends soon and begins anew: for who waits for the peer to take or to give the
 * rest of a message, and will not wait longer. Any context but hard interrupt.
 */
void flt_node_hang_up(struct flt_node *node);

/*
 * How long a node whose link is down may yet come back as the same instance, in ms: what it
 * has of ours is given up after that, or when it is another instance (links/grace_ms).
 */
unsigned int flt_grace_ms(const struct net *net);

/*
 * Rooms that must act when a node comes, goes or is removed. Called in process
 * context with a reference held and no lock of ours; @event is enum flt_event
 * (NODE_UP, NODE_DOWN, NODE_REMOVED), @data the struct flt_node.  When a
 * namespace goes, all are called before any room's pernet exit (but after pre_exit).
 */
int flt_node_notifier_register(struct notifier_block *nb);
int flt_node_notifier_unregister(struct notifier_block *nb);

#endif
