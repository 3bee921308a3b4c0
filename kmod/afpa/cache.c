// SPDX-License-Identifier: GPL-2.0
/* Objects by key; the budget and who goes when it is spent. */

#include <linux/jhash.h>
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/random.h>
#include <linux/rhashtable.h>
#include <linux/timekeeping.h>
#include <net/net_namespace.h>
#include <flotilla/afpa.h>

#include "cache.h"
#include "counter.h"
#include "net.h"
#include "past.h"
#include "trace.h"

/* Objects that are looked at before others may have the lock. */
#define AFPA_EVICT_STEPS	256

/* Hashes of keys that changes are remembered by; a power of two. */
#define AFPA_TOUCHED		4096

u32 afpa_key_hash(const struct afpa_key_ref *key, u32 seed)
{
	return jhash(key->path, key->path_len, jhash(key->host, key->host_len, key->site ^ seed));
}

static u32 afpa_object_hash(const void *data, u32 len, u32 seed)
{
	const struct afpa_object *obj = data;

	return afpa_key_hash(&obj->key, seed);
}

static u32 afpa_cache_hash(const void *data, u32 len, u32 seed)
{
	return afpa_key_hash(data, seed);
}

/* 0 for the same, as rhashtable wants it. */
static int afpa_object_differs(struct rhashtable_compare_arg *arg, const void *data)
{
	const struct afpa_key_ref *key = arg->key;
	const struct afpa_object *obj = data;

	return key->site != obj->key.site || key->path_len != obj->key.path_len ||
	       key->host_len != obj->key.host_len ||
	       memcmp(key->path, obj->key.path, key->path_len) ||
	       memcmp(key->host, obj->key.host, key->host_len);
}

static const struct rhashtable_params afpa_cache_params = {
	.head_offset = offsetof(struct afpa_object, node),
	.key_offset = offsetof(struct afpa_object, key),
	.key_len = sizeof(struct afpa_key_ref),
	.hashfn = afpa_cache_hash,
	.obj_hashfn = afpa_object_hash,
	.obj_cmpfn = afpa_object_differs,
	.automatic_shrinking = true,
};

int afpa_cache_init(struct afpa_cache *cache, u64 budget)
{
	spin_lock_init(&cache->lock);
	INIT_LIST_HEAD(&cache->clock[AFPA_CLOCK_ALL]);
	INIT_LIST_HEAD(&cache->clock[AFPA_CLOCK_AUTOMATIC]);
	afpa_lru_init(&cache->lru);
	xa_init_flags(&cache->order, XA_FLAGS_ACCOUNT);
	cache->budget = budget;
	get_random_bytes(cache->seed, sizeof(cache->seed));
	/* Tickets of an earlier life of the module are of earlier moments: fewer than one a us. */
	cache->version = ktime_get_boottime_ns() >> 10;
	cache->banned = cache->version;
	return rhashtable_init(&cache->table, &afpa_cache_params);
}

void afpa_cache_exit(struct afpa_cache *cache)
{
	WARN_ON_ONCE(cache->objects);
	rhashtable_destroy(&cache->table);
	xa_destroy(&cache->order);
	kvfree(cache->touched);
	afpa_past_end(cache);
}

struct afpa_object *afpa_cache_find_exact(struct afpa_cache *cache, const struct afpa_key_ref *key)
{
	struct afpa_object *obj;

	obj = rhashtable_lookup(&cache->table, key, afpa_cache_params);
	return obj && !afpa_object_is_over(obj, get_jiffies_64()) ? obj : NULL;
}

/* One that loses its last reference here has been replaced, or taken out, just now. */
static struct afpa_object *afpa_cache_get_exact(struct afpa_cache *cache,
						const struct afpa_key_ref *key)
{
	struct afpa_object *obj;

	do {
		obj = afpa_cache_find_exact(cache, key);
	} while (obj && !refcount_inc_not_zero(&obj->users));
	return obj;
}

struct afpa_object *afpa_cache_get(struct afpa_cache *cache, const struct afpa_key_ref *key)
{
	struct afpa_object *obj = afpa_cache_get_exact(cache, key);
	struct afpa_key_ref any = *key;

	if (obj)
		return obj;
	any.host = "*";
	any.host_len = 1;
	return afpa_cache_get_exact(cache, &any);
}

u64 afpa_cache_outside(const struct afpa_cache *cache)
{
	u64 alive = atomic64_read(&cache->alive);

	return alive - min(alive, READ_ONCE(cache->used[AFPA_CLOCK_ALL]));
}

bool afpa_cache_charge(struct afpa_cache *cache, u64 bytes)
{
	atomic64_add(bytes, &cache->alive);
	if (afpa_cache_outside(cache) <= READ_ONCE(cache->budget))
		return true;
	afpa_cache_uncharge(cache, bytes);
	return false;
}

void afpa_cache_uncharge(struct afpa_cache *cache, u64 bytes)
{
	atomic64_sub(bytes, &cache->alive);
}

static void afpa_cache_account(struct afpa_cache *cache, const struct afpa_object *obj, int sign)
{
	s64 bytes = sign * (s64)obj->charged;
	int i, clocks = obj->automatic ? AFPA_CLOCKS : AFPA_CLOCK_AUTOMATIC;

	lockdep_assert_held(&cache->lock);
	for (i = 0; i < clocks; i++)
		WRITE_ONCE(cache->used[i], cache->used[i] + bytes);
	WRITE_ONCE(cache->objects, cache->objects + sign);
}

/* Out of all but the table. */
static void afpa_cache_forget(struct afpa_cache *cache, struct afpa_object *obj)
{
	WRITE_ONCE(obj->gone, jiffies | 1);
	list_del_init(&obj->clock[AFPA_CLOCK_ALL]);
	list_del_init(&obj->clock[AFPA_CLOCK_AUTOMATIC]);
	afpa_lru_del(&cache->lru, obj);
	xa_erase(&cache->order, obj->version);
	afpa_cache_account(cache, obj, -1);
	afpa_object_put(obj);
}

static const char *const afpa_last_names[] = {
	[AFPA_LAST_DELETED] = "deleted",
	[AFPA_LAST_BANNED] = "banned",
	[AFPA_LAST_FLUSHED] = "flushed",
	[AFPA_LAST_EXPIRED] = "expired",
	[AFPA_LAST_EVICTED] = "evicted",
	[AFPA_LAST_SHRUNK] = "shrunk",
};

static void afpa_cache_drop(struct afpa_cache *cache, struct afpa_object *obj, enum afpa_last why)
{
	trace_afpa_gone(obj, afpa_last_names[why]);
	afpa_past_gone(cache, obj, why);
	rhashtable_remove_fast(&cache->table, &obj->node, afpa_cache_params);
	afpa_cache_forget(cache, obj);
}

/*
 * Least recently used ones of @clock but @keep go until these have no more than @limit bytes; how
 * many have gone. *more: there is more to do.
 */
static u64 afpa_cache_evict_some(struct afpa_cache *cache, enum afpa_clock clock, u64 limit,
				 const struct afpa_object *keep, enum afpa_last why, bool *more)
{
	struct list_head *list = &cache->clock[clock];
	unsigned int steps = AFPA_EVICT_STEPS;
	struct afpa_object *obj;
	u64 n = 0;

	lockdep_assert_held(&cache->lock);
	*more = false;
	while (cache->used[clock] > limit && !list_empty(list)) {
		obj = list_first_entry(list, struct afpa_object, clock[clock]);
		if (obj == keep && list_is_singular(list))
			break;
		if (!steps--) {
			*more = true;
			break;
		}
		if (obj == keep || READ_ONCE(obj->recent)) {
			WRITE_ONCE(obj->recent, false);
			list_move_tail(&obj->clock[clock], list);
			continue;
		}
		afpa_cache_drop(cache, obj, why);
		n++;
	}
	return n;
}

/* The same, to the letter, of those that are in the tree. */
static u64 afpa_cache_evict_strictly(struct afpa_cache *cache, u64 limit,
				     const struct afpa_object *keep, bool *more)
{
	unsigned int steps = AFPA_EVICT_STEPS;
	struct afpa_object *obj;
	u64 n = 0;

	lockdep_assert_held(&cache->lock);
	while (cache->used[AFPA_CLOCK_ALL] > limit) {
		obj = afpa_lru_first(&cache->lru, keep, &steps);
		if (!obj)
			break;
		afpa_cache_drop(cache, obj, AFPA_LAST_EVICTED);
		n++;
	}
	*more = !steps;
	return n;
}

/* To its end; others may have the lock in between. */
static u64 afpa_cache_evict(struct afpa_cache *cache, u64 limit, const struct afpa_object *keep)
{
	u64 n = 0;

	while (true) {
		bool more = false;

		if (cache->policy == AFPA_POLICY_LRU)
			n += afpa_cache_evict_strictly(cache, limit, keep, &more);
		/* With LRU only if some are not in the tree yet. */
		if (!more)
			n += afpa_cache_evict_some(cache, AFPA_CLOCK_ALL, limit, keep,
						   AFPA_LAST_EVICTED, &more);
		if (!more)
			return n;
		cond_resched_lock(&cache->lock);
	}
}

static int afpa_cache_insert(struct afpa_cache *cache, struct afpa_object *obj,
			     struct afpa_object *old)
{
	int err;

	err = xa_err(xa_store(&cache->order, obj->version, obj, GFP_ATOMIC | __GFP_NOWARN));
	if (err)
		return err;
	if (old)
		err = rhashtable_replace_fast(&cache->table, &old->node, &obj->node,
					      afpa_cache_params);
	else
		err = rhashtable_insert_fast(&cache->table, &obj->node, afpa_cache_params);
	if (err) {
		xa_erase(&cache->order, obj->version);
		/* The table is too full and grows now. */
		return -ENOMEM;
	}
	list_add_tail(&obj->clock[AFPA_CLOCK_ALL], &cache->clock[AFPA_CLOCK_ALL]);
	if (obj->automatic)
		list_add_tail(&obj->clock[AFPA_CLOCK_AUTOMATIC],
			      &cache->clock[AFPA_CLOCK_AUTOMATIC]);
	if (cache->policy == AFPA_POLICY_LRU) {
		WRITE_ONCE(obj->last_use, atomic64_inc_return(&cache->lru.uses));
		afpa_lru_add(&cache->lru, obj);
	}
	afpa_cache_account(cache, obj, 1);
	if (old) {
		trace_afpa_gone(old, "replaced");
		afpa_cache_forget(cache, old);
	}
	return 0;
}

/* jiffies64_to_msecs() has no opposite, and 32 bits of milliseconds have 49 days. */
static u64 afpa_cache_expiry(u32 ttl_ms)
{
	return ttl_ms ? get_jiffies_64() + DIV_ROUND_UP_ULL((u64)ttl_ms * HZ, MSEC_PER_SEC) : 0;
}

int afpa_cache_set_ttl(struct afpa_net *an, const struct afpa_key_ref *key, u32 ttl_ms)
{
	struct afpa_cache *cache = &an->cache;
	struct afpa_object *obj;

	spin_lock(&cache->lock);
	rcu_read_lock();
	obj = afpa_cache_find_exact(cache, key);
	if (obj)
		WRITE_ONCE(obj->expires, afpa_cache_expiry(ttl_ms));
	rcu_read_unlock();
	spin_unlock(&cache->lock);
	return obj ? 0 : -ENOENT;
}

/* --- what was under way when a program spoke --- */

int afpa_cache_ticket(struct afpa_net *an, u64 *ticket)
{
	struct afpa_cache *cache = &an->cache;
	u64 *touched = NULL;

	if (!READ_ONCE(cache->touched)) {
		touched = kvcalloc(2 * AFPA_TOUCHED, sizeof(*touched),
				   GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
		if (!touched)
			return -ENOMEM;
	}
	spin_lock(&cache->lock);
	if (!cache->touched) {
		WRITE_ONCE(cache->touched, touched);
		touched = NULL;
	}
	*ticket = ++cache->version;
	spin_unlock(&cache->lock);
	kvfree(touched);
	return 0;
}

static u64 *afpa_cache_slot(const struct afpa_cache *cache, const struct afpa_key_ref *key, int i)
{
	u32 hash = afpa_key_hash(key, cache->seed[i]);

	return &cache->touched[i * AFPA_TOUCHED + hash % AFPA_TOUCHED];
}

/* Whatever was asked for before is not to come in any more. */
static void afpa_cache_touch(struct afpa_cache *cache, const struct afpa_key_ref *key)
{
	lockdep_assert_held(&cache->lock);
	if (!cache->touched)
		return;
	*afpa_cache_slot(cache, key, 0) = ++cache->version;
	*afpa_cache_slot(cache, key, 1) = cache->version;
}

void afpa_cache_touch_all(struct afpa_cache *cache)
{
	spin_lock(&cache->lock);
	cache->banned = ++cache->version;
	spin_unlock(&cache->lock);
}

/* Keys that share both hashes with others are taken for these: the server is asked once more. */
static bool afpa_cache_was_touched(const struct afpa_cache *cache, const struct afpa_key_ref *key,
				   u64 since)
{
	lockdep_assert_held(&cache->lock);
	return !cache->touched || since > cache->version || cache->banned > since ||
	       min(*afpa_cache_slot(cache, key, 0), *afpa_cache_slot(cache, key, 1)) > since;
}

int afpa_cache_put(struct afpa_net *an, struct afpa_object *obj, u32 ttl_ms, bool update,
		   u64 since, u64 *version)
{
	struct afpa_cache *cache = &an->cache;
	struct afpa_object *old;
	u64 evicted = 0;
	int err = -ENOSPC;

	obj->put = get_jiffies_64();
	obj->expires = afpa_cache_expiry(ttl_ms);
	spin_lock(&cache->lock);
	if (obj->charged > cache->budget)
		goto out;
	rcu_read_lock();
	old = rhashtable_lookup(&cache->table, &obj->key, afpa_cache_params);
	rcu_read_unlock();
	/* Also of what is not there: was it said to go, or has it only expired? */
	err = -ESTALE;
	if (since && afpa_cache_was_touched(cache, &obj->key, since))
		goto out;
	err = -ENOENT;
	if (update && (!old || afpa_object_is_over(old, obj->put)))
		goto out;
	afpa_cache_touch(cache, &obj->key);
	obj->version = ++cache->version;
	*version = obj->version;
	err = afpa_cache_insert(cache, obj, old);
	if (err)
		goto out;
	afpa_past_forget(cache, &obj->key);
	evicted = afpa_cache_evict(cache, cache->budget, obj);
out:
	spin_unlock(&cache->lock);
	if (err == -ESTALE)
		afpa_count(an, AFPA_STAT_STALE);
	if (err)
		return err;
	afpa_count_add(an, AFPA_STAT_EVICTED, evicted);
	afpa_count(an, AFPA_STAT_PUTS);
	if (old)
		afpa_count(an, AFPA_STAT_REPLACED);
	return 0;
}

void afpa_cache_refuse(struct afpa_net *an, const struct afpa_key_ref *key, int err)
{
	struct afpa_cache *cache = &an->cache;

	spin_lock(&cache->lock);
	afpa_past_refused(cache, key, -err);
	spin_unlock(&cache->lock);
}

struct afpa_object *afpa_cache_recall(struct afpa_net *an, const struct afpa_key_ref *key,
				      struct afpa_past *past)
{
	struct afpa_cache *cache = &an->cache;
	const struct afpa_past *last;
	struct afpa_object *obj;

	*past = (struct afpa_past){ 0 };
	spin_lock(&cache->lock);
	rcu_read_lock();
	obj = rhashtable_lookup(&cache->table, key, afpa_cache_params);
	rcu_read_unlock();
	if (obj && afpa_object_is_over(obj, get_jiffies_64())) {
		/* Nobody has come by yet to take it out. */
		*past = (struct afpa_past){
			.when = obj->expires,
			.version = obj->version,
			.hits = min_t(u64, atomic64_read(&obj->hits), U32_MAX),
			.last = AFPA_LAST_EXPIRED,
		};
		obj = NULL;
	} else {
		last = afpa_past_find(cache, key);
		if (last)
			*past = *last;
	}
	if (obj)
		refcount_inc(&obj->users);
	spin_unlock(&cache->lock);
	return obj;
}

int afpa_cache_del(struct afpa_net *an, const struct afpa_key_ref *key)
{
	struct afpa_cache *cache = &an->cache;
	struct afpa_object *obj;
	bool over = false;

	spin_lock(&cache->lock);
	afpa_cache_touch(cache, key);	/* also what is not there: it may be on its way */
	rcu_read_lock();
	obj = rhashtable_lookup(&cache->table, key, afpa_cache_params);
	rcu_read_unlock();
	if (obj) {
		over = afpa_object_is_over(obj, get_jiffies_64());
		afpa_cache_drop(cache, obj, over ? AFPA_LAST_EXPIRED : AFPA_LAST_DELETED);
	}
	spin_unlock(&cache->lock);
	if (!obj)
		return -ENOENT;
	afpa_count(an, over ? AFPA_STAT_EXPIRED : AFPA_STAT_DELETED);
	return over ? -ENOENT : 0;
}

static u64 afpa_cache_drop_some(struct afpa_cache *cache,
				bool (*which)(const struct afpa_object *obj, u64 arg), u64 arg,
				enum afpa_last why)
{
	struct afpa_object *obj;
	unsigned long version;
	u64 n = 0, newest;

	spin_lock(&cache->lock);
	/* Puts may be as fast as we. */
	newest = cache->version;
	xa_for_each_range(&cache->order, version, obj, 0, newest) {
		if (which(obj, arg)) {
			afpa_cache_drop(cache, obj, why);
			n++;
		}
		cond_resched_lock(&cache->lock);
	}
	spin_unlock(&cache->lock);
	return n;
}

static bool afpa_object_is_of(const struct afpa_object *obj, u64 site)
{
	return !site || obj->key.site == site;
}

u64 afpa_cache_flush(struct afpa_net *an, u32 site)
{
	u64 n;

	afpa_cache_touch_all(&an->cache);
	n = afpa_cache_drop_some(&an->cache, afpa_object_is_of, site, AFPA_LAST_FLUSHED);
	afpa_count_add(an, AFPA_STAT_DELETED, n);
	return n;
}

static bool afpa_object_has_tag(const struct afpa_object *obj, const char *tag, u32 len)
{
	const char *word = obj->tags, *end = obj->tags + obj->tags_len, *next;

	for (; word < end; word = next + 1) {
		next = memchr(word, ' ', end - word) ?: end;
		if (next - word == len && !memcmp(word, tag, len))
			return true;
	}
	return false;
}

static bool afpa_object_is_banned(const struct afpa_object *obj, u64 arg)
{
	const struct afpa_ban_ref *ban = (const void *)(unsigned long)arg;

	if (!afpa_object_is_of(obj, ban->site))
		return false;
	if (ban->host_len && (ban->host_len != obj->key.host_len ||
			      memcmp(ban->host, obj->key.host, ban->host_len)))
		return false;
	if (ban->is_tag)
		return afpa_object_has_tag(obj, ban->text, ban->text_len);
	return ban->text_len <= obj->key.path_len &&
	       !memcmp(ban->text, obj->key.path, ban->text_len);
}

u64 afpa_cache_ban(struct afpa_net *an, const struct afpa_ban_ref *ban)
{
	u64 n;

	afpa_cache_touch_all(&an->cache);
	n = afpa_cache_drop_some(&an->cache, afpa_object_is_banned, (unsigned long)ban,
				 AFPA_LAST_BANNED);
	afpa_count_add(an, AFPA_STAT_BANNED, n);
	return n;
}

void afpa_cache_expire(struct afpa_net *an)
{
	u64 n;

	n = afpa_cache_drop_some(&an->cache, afpa_object_is_over, get_jiffies_64(),
				 AFPA_LAST_EXPIRED);
	afpa_count_add(an, AFPA_STAT_EXPIRED, n);
}

void afpa_cache_set_budget(struct afpa_net *an, u64 budget)
{
	struct afpa_cache *cache = &an->cache;
	u64 evicted;

	spin_lock(&cache->lock);
	WRITE_ONCE(cache->budget, budget);
	evicted = afpa_cache_evict(cache, budget, NULL);
	spin_unlock(&cache->lock);
	afpa_count_add(an, AFPA_STAT_EVICTED, evicted);
}

void afpa_cache_set_policy(struct afpa_net *an, u32 policy)
{
	struct afpa_cache *cache = &an->cache;
	struct afpa_object *obj;
	unsigned long version;
	u64 newest;

	spin_lock(&cache->lock);
	WRITE_ONCE(cache->policy, policy);
	/* Later ones are added as they are put. */
	newest = cache->version;
	xa_for_each_range(&cache->order, version, obj, 0, newest) {
		/* Another caller may have changed it meanwhile. */
		if (cache->policy != AFPA_POLICY_LRU)
			break;
		afpa_lru_add(&cache->lru, obj);
		cond_resched_lock(&cache->lock);
	}
	spin_unlock(&cache->lock);
}

void afpa_cache_used(struct afpa_cache *cache, struct afpa_object *obj)
{
	if (!READ_ONCE(obj->recent))
		WRITE_ONCE(obj->recent, true);
	if (READ_ONCE(cache->policy) == AFPA_POLICY_LRU)
		WRITE_ONCE(obj->last_use, atomic64_inc_return(&cache->lru.uses));
	atomic64_inc(&obj->hits);
}

bool afpa_cache_make_room(struct afpa_net *an, const struct afpa_key_ref *key, u64 bytes)
{
	struct afpa_cache *cache = &an->cache;
	struct afpa_object *keep;
	u64 used, evicted;

	spin_lock(&cache->lock);
	rcu_read_lock();
	keep = rhashtable_lookup(&cache->table, key, afpa_cache_params);
	rcu_read_unlock();
	used = cache->used[AFPA_CLOCK_ALL];
	evicted = afpa_cache_evict(cache, used - min(used, bytes), keep);
	spin_unlock(&cache->lock);
	afpa_count_add(an, AFPA_STAT_EVICTED, evicted);
	return evicted;
}

struct afpa_object *afpa_cache_next(struct afpa_cache *cache, u64 version)
{
	unsigned long index = version;
	struct afpa_object *obj;

	spin_lock(&cache->lock);
	obj = xa_find_after(&cache->order, &index, ULONG_MAX, XA_PRESENT);
	if (obj)
		refcount_inc(&obj->users);
	spin_unlock(&cache->lock);
	return obj;
}

/* Each of them counts with the share that it has of all. */
u64 afpa_cache_shrink(struct afpa_net *an, enum afpa_clock clock, u64 share, u64 whole)
{
	struct afpa_cache *cache = &an->cache;
	u64 before, limit, n;
	bool more;

	spin_lock(&cache->lock);
	before = cache->used[AFPA_CLOCK_ALL];
	limit = cache->used[clock];
	limit -= min(limit, mul_u64_u64_div_u64(limit, share, whole));
	n = afpa_cache_evict_some(cache, clock, limit, NULL, AFPA_LAST_SHRUNK, &more);
	before -= cache->used[AFPA_CLOCK_ALL];
	spin_unlock(&cache->lock);
	afpa_count_add(an, AFPA_STAT_SHRUNK, n);
	if (clock == AFPA_CLOCK_AUTOMATIC)
		afpa_count_add(an, AFPA_STAT_SHRUNK_AUTOMATIC, n);
	return before;
}
