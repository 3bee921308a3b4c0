/* SPDX-License-Identifier: GPL-2.0 */
/* Users: what the transfers of one of them may take of the machine. */
#ifndef SSP_USER_H
#define SSP_USER_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/uidgid.h>

struct ssp_pair;

/**
 * struct ssp_user - who starts transfers
 * @node:    in the table of users
 * @uid:     in the initial user namespace; whoever is in another one counts as its owner
 * @exempt:  the callers had CAP_NET_ADMIN in the first of them: no limit but the machine's
 * @refs:    one for each transfer, one for each socket with an unread copy
 * @pairs:   transfers that are attached to their sockets
 * @copies:  memory of unread copies
 * @lock:    all below; bottom halves off; a leaf
 * @list:    the attached transfers
 * @begin:   jiffies at which this window of time began
 * @spent:   nanoseconds of forwarding outside of the user's own calls, in this window
 * @turn:    jiffies at which the last of those that wait looks again
 * @turns:   how many do so then
 */
struct ssp_user {
	struct hlist_node node;
	kuid_t uid;
	bool exempt;
	refcount_t refs;
	atomic_t pairs;
	atomic_long_t copies;
	spinlock_t lock;	/* see above */
	struct list_head list;
	unsigned long begin;
	u64 spent;
	unsigned long turn;
	unsigned int turns;
};

/* Of the caller, with a reference; NULL without memory. */
struct ssp_user *ssp_user_get(void);
void ssp_user_hold(struct ssp_user *user);
void ssp_user_put(struct ssp_user *user);

/* One transfer more. -EUSERS: there are as many as a user may have. */
int ssp_user_add(struct ssp_user *user, struct ssp_pair *p);
void ssp_user_del(struct ssp_user *user, struct ssp_pair *p);

/* @size bytes for a copy. False: not now. */
bool ssp_user_charge(struct ssp_user *user, unsigned int size);
void ssp_user_uncharge(struct ssp_user *user, unsigned int size);

/**
 * ssp_user_is_over - whether forwarding for @user has to wait
 *
 * A softirq's and a work item's time is nobody's: no cgroup pays for it. So a user has
 * user_share percent of all processors' time for it in each window.
 */
bool ssp_user_is_over(struct ssp_user *user);

/**
 * ssp_user_turn - when one of the transfers that wait for time shall look again
 *
 * Not all of them in the next window: what thousands spend on looking is nobody's time either.
 *
 * Return: jiffies until then, at least 1
 */
unsigned long ssp_user_turn(struct ssp_user *user);
void ssp_user_spend(struct ssp_user *user, u64 ns);

int ssp_user_init(void);
/* No user is left, but for references that RCU still holds. */
void ssp_user_exit(void);

#endif
