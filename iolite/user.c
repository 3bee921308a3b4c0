// SPDX-License-Identifier: GPL-2.0
/* Users: how much memory the pools of one of them may pin, over all his processes and domains. */
#include <linux/capability.h>
#include <linux/hashtable.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "kmod/param.h"
#include "kmod/user.h"

#include "counter.h"
#include "pool.h"
#include "user.h"

static ulong user_quota;
module_param(user_quota, admin_ulong, 0644);
MODULE_PARM_DESC(user_quota,
		 "most bytes of all pools of a user, in flight included; 0: a quarter of memory (0)");

/* Pools that one who is over his quota looks at for free memory. */
#define IOL_USER_LOOKS		64
/* Pools of a user, those included that are left until what is in flight has landed. */
#define IOL_USER_POOLS		8192

static DEFINE_HASHTABLE(iol_users, 6);
static DEFINE_SPINLOCK(iol_users_lock);	/* the table, and the last reference */

/* With a reference, or NULL. */
static struct iol_user *iol_user_find(kuid_t uid, bool exempt)
{
	struct iol_user *user;

	lockdep_assert_held(&iol_users_lock);
	hash_for_each_possible(iol_users, user, node, __kuid_val(uid)) {
		if (uid_eq(user->uid, uid) && user->exempt == exempt) {
			refcount_inc(&user->refs);
			return user;
		}
	}
	return NULL;
}

/**
 * iol_user_get - whom the caller's pools count for
 *
 * Return: with a reference, or NULL: no memory.
 */
struct iol_user *iol_user_get(void)
{
	bool exempt = ns_capable_noaudit(&init_user_ns, CAP_IPC_LOCK);
	struct iol_user *user, *fresh;
	kuid_t uid = flt_user_uid();

	fresh = kzalloc(sizeof(*fresh), GFP_KERNEL_ACCOUNT);
	if (!fresh)
		return NULL;
	fresh->uid = uid;
	fresh->exempt = exempt;
	refcount_set(&fresh->refs, 1);
	spin_lock_init(&fresh->lock);
	INIT_LIST_HEAD(&fresh->pools);
	spin_lock(&iol_users_lock);
	user = iol_user_find(uid, exempt);
	if (!user)
		hash_add(iol_users, &fresh->node, __kuid_val(uid));
	spin_unlock(&iol_users_lock);
	if (!user)
		return fresh;
	kfree(fresh);
	return user;
}

void iol_user_put(struct iol_user *user)
{
	bool last;

	if (!user || refcount_dec_not_one(&user->refs))
		return;
	spin_lock(&iol_users_lock);
	last = refcount_dec_and_test(&user->refs);
	if (last)
		hash_del(&user->node);
	spin_unlock(&iol_users_lock);
	if (!last)
		return;
	WARN_ON(atomic_long_read(&user->pages));
	kfree(user);
}

/**
 * iol_user_adopt - a new pool is a user's
 * @user: gets one more reference
 * @pool: nobody knows it yet
 *
 * Return: whether he may have so many.
 */
bool iol_user_adopt(struct iol_user *user, struct iol_pool *pool)
{
	bool may;

	spin_lock(&user->lock);
	may = user->exempt || user->npools < IOL_USER_POOLS;
	if (may) {
		list_add_tail(&pool->of_user, &user->pools);
		user->npools++;
	}
	spin_unlock(&user->lock);
	if (!may) {
		iol_count(IOL_USER_QUOTA_REFUSED);
		return false;
	}
	refcount_inc(&user->refs);
	pool->user = user;
	return true;
}

void iol_user_disown(struct iol_pool *pool)
{
	struct iol_user *user = pool->user;

	spin_lock(&user->lock);
	list_del(&pool->of_user);
	user->npools--;
	spin_unlock(&user->lock);
	iol_user_put(user);
}

static bool iol_user_try(struct iol_user *user, unsigned int npages)
{
	unsigned long quota = READ_ONCE(user_quota);
	long most = quota ? quota >> PAGE_SHIFT : totalram_pages() / 4;

	if (atomic_long_add_return(npages, &user->pages) <= most || user->exempt)
		return true;
	atomic_long_sub(npages, &user->pages);
	return false;
}

/* The next of a user's pools, with a reference, or NULL. It goes to the end of the list. */
static struct iol_pool *iol_user_pool(struct iol_user *user)
{
	struct iol_pool *pool, *found = NULL;

	spin_lock(&user->lock);
	list_for_each_entry(pool, &user->pools, of_user) {
		if (refcount_inc_not_zero(&pool->refs)) {
			found = pool;
			list_move_tail(&pool->of_user, &user->pools);
			break;
		}
	}
	spin_unlock(&user->lock);
	return found;
}

/**
 * iol_user_charge - may a user's pools have so many pages more?
 * @user:   NULL: the kernel's own pool, which the cache bounds
 * @npages: to be made
 *
 * What is spare in his pools, or in flight no more, goes first.
 *
 * Context: no pool's lock.
 */
bool iol_user_charge(struct iol_user *user, unsigned int npages)
{
	unsigned int looks;

	if (!user || iol_user_try(user, npages))
		return true;
	for (looks = 0; looks < IOL_USER_LOOKS; looks++) {
		struct iol_pool *pool = iol_user_pool(user);

		if (!pool)
			break;
		iol_pool_collect(pool);
		iol_pool_put(pool);
		if (iol_user_try(user, npages))
			return true;
	}
	iol_count(IOL_USER_QUOTA_REFUSED);
	return false;
}

void iol_user_uncharge(struct iol_user *user, unsigned int npages)
{
	if (user)
		atomic_long_sub(npages, &user->pages);
}
