/* SPDX-License-Identifier: GPL-2.0 */
/* Users: how much memory the pools of one of them may pin. */
#ifndef IOL_USER_H
#define IOL_USER_H

#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>

struct iol_pool;

/**
 * struct iol_user - what one user's pools have, whichever process and domain made them
 * @uid:    in the initial user namespace; whoever is in another one counts as its owner
 * @exempt: may lock memory without limit: counted apart, and never refused
 * @refs:   domains and pools
 * @pages:  of its pools: in buffers, spare, and freed but still in flight
 * @lock:   the following; a leaf
 * @pools:  those that have chunks, or had
 * @npools: how many
 * @node:   in the table of users
 */
struct iol_user {
	kuid_t uid;
	bool exempt;
	refcount_t refs;
	atomic_long_t pages;
	spinlock_t lock;	/* @pools, @npools */
	struct list_head pools;
	unsigned int npools;
	struct hlist_node node;
};

struct iol_user *iol_user_get(void);
void iol_user_put(struct iol_user *user);
bool iol_user_adopt(struct iol_user *user, struct iol_pool *pool);
void iol_user_disown(struct iol_pool *pool);
bool iol_user_charge(struct iol_user *user, unsigned int npages);
void iol_user_uncharge(struct iol_user *user, unsigned int npages);

#endif
