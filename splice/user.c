// SPDX-License-Identifier: GPL-2.0
/* Users: what the transfers of one of them may take of the machine. */

#include <linux/capability.h>
#include <linux/cpumask.h>
#include <linux/hashtable.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "kmod/user.h"

#include "pair.h"
#include "tunable.h"
#include "user.h"

/* Time is counted by such windows, in jiffies. */
#define SSP_WINDOW	max(HZ / 20, 2)

/* Of a user's waiting transfers so many look in a window whether there is time again. */
#define SSP_TURNS	256

/* How often the transfers are looked at that nobody tells of anything, and how many at once. */
#define SSP_PATROL	(5 * HZ)
#define SSP_PATROL_BATCH	256

static DEFINE_HASHTABLE(ssp_users, 6);
static DEFINE_SPINLOCK(ssp_users_lock);	/* the table, and the last reference; bottom halves off */

static void ssp_patrol(struct work_struct *work);
static DECLARE_DELAYED_WORK(ssp_patrol_work, ssp_patrol);

/* With a reference, or NULL. */
static struct ssp_user *ssp_user_find(kuid_t uid, bool exempt)
{
	struct ssp_user *user;

	lockdep_assert_held(&ssp_users_lock);
	hash_for_each_possible(ssp_users, user, node, __kuid_val(uid)) {
		if (uid_eq(user->uid, uid) && user->exempt == exempt) {
			refcount_inc(&user->refs);
			return user;
		}
	}
	return NULL;
}

static struct ssp_user *ssp_user_alloc(kuid_t uid, bool exempt)
{
	struct ssp_user *user = kzalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);

	if (!user)
		return NULL;
	user->uid = uid;
	user->exempt = exempt;
	refcount_set(&user->refs, 1);
	spin_lock_init(&user->lock);
	INIT_LIST_HEAD(&user->list);
	user->begin = jiffies;
	user->turn = jiffies;
	return user;
}

struct ssp_user *ssp_user_get(void)
{
	bool exempt = ns_capable_noaudit(&init_user_ns, CAP_NET_ADMIN);
	struct ssp_user *user, *fresh;
	kuid_t uid = flt_user_uid();

	spin_lock_bh(&ssp_users_lock);
	user = ssp_user_find(uid, exempt);
	spin_unlock_bh(&ssp_users_lock);
	if (user)
		return user;

	fresh = ssp_user_alloc(uid, exempt);
	if (!fresh)
		return NULL;
	spin_lock_bh(&ssp_users_lock);
	user = ssp_user_find(uid, exempt);
	if (!user)
		hash_add(ssp_users, &fresh->node, __kuid_val(uid));
	spin_unlock_bh(&ssp_users_lock);
	if (!user)
		return fresh;
	kfree(fresh);
	return user;
}

void ssp_user_hold(struct ssp_user *user)
{
	refcount_inc(&user->refs);
}

void ssp_user_put(struct ssp_user *user)
{
	bool last;

	if (refcount_dec_not_one(&user->refs))
		return;
	spin_lock_bh(&ssp_users_lock);
	last = refcount_dec_and_test(&user->refs);
	if (last)
		hash_del(&user->node);
	spin_unlock_bh(&ssp_users_lock);
	if (last)
		kfree(user);
}

int ssp_user_add(struct ssp_user *user, struct ssp_pair *p)
{
	int max = min_t(unsigned int, READ_ONCE(ssp_max_per_user), INT_MAX);

	if (atomic_inc_return(&user->pairs) > max && !user->exempt) {
		atomic_dec(&user->pairs);
		return -EUSERS;
	}
	spin_lock_bh(&user->lock);
	list_add_tail(&p->of_user, &user->list);
	spin_unlock_bh(&user->lock);
	return 0;
}

void ssp_user_del(struct ssp_user *user, struct ssp_pair *p)
{
	spin_lock_bh(&user->lock);
	list_del_init(&p->of_user);
	spin_unlock_bh(&user->lock);
	atomic_dec(&user->pairs);
}

static long ssp_user_copies_max(void)
{
	unsigned int kb = READ_ONCE(ssp_copy_kb_per_user);

	return kb ? (long)kb * 1024 : (long)(totalram_pages() / 32) << PAGE_SHIFT;
}

bool ssp_user_charge(struct ssp_user *user, unsigned int size)
{
	if (atomic_long_add_return(size, &user->copies) <= ssp_user_copies_max() || user->exempt)
		return true;
	atomic_long_sub(size, &user->copies);
	return false;
}

void ssp_user_uncharge(struct ssp_user *user, unsigned int size)
{
	atomic_long_sub(size, &user->copies);
}

/* Nanoseconds of a window, or 0: as many as it wants. */
static u64 ssp_user_allowance(const struct ssp_user *user)
{
	unsigned int share = READ_ONCE(ssp_user_share);

	if (!share || user->exempt)
		return 0;
	return div_u64((u64)jiffies_to_usecs(SSP_WINDOW) * NSEC_PER_USEC * num_online_cpus() *
		       share, 100);
}

bool ssp_user_is_over(struct ssp_user *user)
{
	u64 allowance = ssp_user_allowance(user);
	unsigned long passed;
	bool over;

	if (!allowance)
		return false;
	spin_lock_bh(&user->lock);
	passed = jiffies - user->begin;
	if (passed >= SSP_WINDOW) {
		/* What was too much is owed, but not for ever: a clock may jump. */
		user->spent -= min(user->spent, allowance * min(passed / SSP_WINDOW, 100UL));
		user->spent = min(user->spent, 4 * allowance);
		user->begin = jiffies;
	}
	over = user->spent >= allowance;
	spin_unlock_bh(&user->lock);
	return over;
}

unsigned long ssp_user_turn(struct ssp_user *user)
{
	unsigned long now = jiffies, delay;

	spin_lock_bh(&user->lock);
	if (time_before(user->turn, user->begin + SSP_WINDOW)) {
		user->turn = user->begin + SSP_WINDOW;
		user->turns = 0;
	}
	if (++user->turns > SSP_TURNS) {
		user->turn += SSP_WINDOW;
		user->turns = 1;
	}
	delay = time_after(user->turn, now) ? user->turn - now : 1;
	spin_unlock_bh(&user->lock);
	return delay;
}

void ssp_user_spend(struct ssp_user *user, u64 ns)
{
	if (!ssp_user_allowance(user))
		return;
	spin_lock_bh(&user->lock);
	user->spent += ns;
	spin_unlock_bh(&user->lock);
}

/* Some of @user's transfers, which go to the end of the list: how many. */
static unsigned int ssp_patrol_some(struct ssp_user *user)
{
	struct ssp_pair *p;
	unsigned int i;

	spin_lock_bh(&user->lock);
	for (i = 0; i < SSP_PATROL_BATCH && !list_empty(&user->list); i++) {
		p = list_first_entry(&user->list, struct ssp_pair, of_user);
		list_move_tail(&p->of_user, &user->list);
		if (ssp_pair_is_lost(p))
			ssp_pair_queue(p, 0);
	}
	spin_unlock_bh(&user->lock);
	return i;
}

/* The table's next user after the first @nr of chain @i, with a reference. */
static struct ssp_user *ssp_patrol_next(unsigned int i, unsigned int nr)
{
	struct ssp_user *user;

	spin_lock_bh(&ssp_users_lock);
	hlist_for_each_entry(user, &ssp_users[i], node)
		if (!nr--)
			break;
	if (user)
		refcount_inc(&user->refs);
	spin_unlock_bh(&ssp_users_lock);
	return user;
}

/*
 * Whoever takes a socket's operations away from us without our hearing of it (a call that was in
 * setsockopt() before they were ours) takes its release(), too: these are found here. A user who is
 * passed by because the table changed meanwhile is looked at the next time.
 */
static void ssp_patrol(struct work_struct *work)
{
	struct ssp_user *user;
	unsigned int i, nr;
	int left;

	for (i = 0; i < HASH_SIZE(ssp_users); i++) {
		for (nr = 0; (user = ssp_patrol_next(i, nr)); nr++) {
			left = atomic_read(&user->pairs);
			while (left > 0) {
				left -= ssp_patrol_some(user) ?: left;
				cond_resched();
			}
			ssp_user_put(user);
		}
	}
	schedule_delayed_work(&ssp_patrol_work, SSP_PATROL);
}

int ssp_user_init(void)
{
	schedule_delayed_work(&ssp_patrol_work, SSP_PATROL);
	return 0;
}

void ssp_user_exit(void)
{
	cancel_delayed_work_sync(&ssp_patrol_work);
}
