/* SPDX-License-Identifier: GPL-2.0 */
/* The objects of a network namespace. */
#ifndef AFPA_CACHE_H
#define AFPA_CACHE_H

#include <linux/rhashtable-types.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>

#include "lru.h"
#include "object.h"

struct afpa_net;
struct afpa_past;

/**
 * struct afpa_cache - objects, found by site, host and path
 * @table:   RCU; changed under @lock
 * @lock:    leaf but for the table's and @order's own; process context (reclaim, too): whoever
 *	     answers takes none
 * @clock:   the least recently used ones are looked at first; AFPA_CLOCK_AUTOMATIC: of those alone
 * @lru:     with AFPA_POLICY_LRU what makes room for others is found there, not by @clock
 * @policy:  enum afpa_policy; READ_ONCE
 * @order:   by version
 * @budget:  bytes; READ_ONCE
 * @used:    bytes; the same; AFPA_CLOCK_AUTOMATIC: of those alone
 * @objects: number; the same
 * @alive:   bytes of all objects that are in memory: besides @used those that are being put, and
 *	     those that were replaced, deleted or thrown out while a client is being sent them
 * @version: of the newest; any number of it is a moment
 * @banned:  the last moment at which some or all were dropped by a program
 * @touched: NULL as long as nobody has a ticket; when objects were put or deleted, by two hashes of
 *	     their keys; AFPA_TOUCHED of each
 * @seed:    of the two, and of what @past has its keys by
 * @past:    NULL as long as nobody has put anything: what was last said of keys (past.h)
 *
 * An object is in @table, @clock and @order, or in none; with AFPA_CLOCK_AUTOMATIC only if it is.
 */
struct afpa_cache {
	struct rhashtable table;
	spinlock_t lock;	/* all that follows, and changes of @table */
	struct list_head clock[AFPA_CLOCKS];
	struct afpa_lru lru;
	u32 policy;
	struct xarray order;
	u64 budget;
	u64 used[AFPA_CLOCKS];
	u64 objects;
	atomic64_t alive;
	u64 version;
	u64 banned;
	u64 *touched;
	u32 seed[2];
	struct afpa_past *past;
};

/**
 * struct afpa_ban_ref - which objects are not to be answered with any more
 * @site:     of this, or 0
 * @host_len: of this host, or 0
 * @text_len: of @text
 * @is_tag:   with the tag @text, or with a path that begins so
 * @host:     lower case
 * @text:     not empty
 */
struct afpa_ban_ref {
	u32 site;
	u16 host_len;
	u16 text_len;
	bool is_tag;
	const char *host;
	const char *text;
};

int afpa_cache_init(struct afpa_cache *cache, u64 budget);
void afpa_cache_exit(struct afpa_cache *cache);

/* What was fetched before now is too old, whatever it is. */
void afpa_cache_touch_all(struct afpa_cache *cache);

/**
 * afpa_cache_get() - the object for a request
 * @cache: of the namespace
 * @key:   whose host is what the request says
 *
 * Context: under rcu_read_lock(); any.
 * Return: the object of the very host, or else that of any, with a reference; NULL.
 */
struct afpa_object *afpa_cache_get(struct afpa_cache *cache, const struct afpa_key_ref *key);

u32 afpa_key_hash(const struct afpa_key_ref *key, u32 seed);

/* That of the key alone, without a reference: RCU holds it. */
struct afpa_object *afpa_cache_find_exact(struct afpa_cache *cache, const struct afpa_key_ref *key);

/**
 * afpa_cache_put() - an object comes into the cache, instead of the one with its key
 * @an:     namespace
 * @obj:    belongs to the cache on success
 * @ttl_ms: lifetime, or 0
 * @update: only if there is one
 * @since:  0, or only if nothing has been said about its key since then
 * @version: out: the object's
 *
 * Return: 0; -ENOENT; -ENOSPC; -ENOMEM; -ESTALE.
 */
int afpa_cache_put(struct afpa_net *an, struct afpa_object *obj, u32 ttl_ms, bool update,
		   u64 since, u64 *version);

/* A moment, not 0; -ENOMEM. */
int afpa_cache_ticket(struct afpa_net *an, u64 *ticket);

/**
 * afpa_cache_charge() - memory for an object is about to be taken
 * @cache: that it is for
 * @bytes: of it
 *
 * What is not in the cache may have as much as the cache: slow clients hold what they are being
 * sent, and nobody knows for how long.
 *
 * Return: false: that is spent. Else afpa_cache_uncharge() gives it back.
 */
bool afpa_cache_charge(struct afpa_cache *cache, u64 bytes);
void afpa_cache_uncharge(struct afpa_cache *cache, u64 bytes);
/* Of @alive what is not in the cache. */
u64 afpa_cache_outside(const struct afpa_cache *cache);

/* A new lifetime from now on; -ENOENT. */
int afpa_cache_set_ttl(struct afpa_net *an, const struct afpa_key_ref *key, u32 ttl_ms);

/* A put of @key was in vain. */
void afpa_cache_refuse(struct afpa_net *an, const struct afpa_key_ref *key, int err);

/* What was last said of the key, into *@past; the object, with a reference, or NULL. */
struct afpa_object *afpa_cache_recall(struct afpa_net *an, const struct afpa_key_ref *key,
				      struct afpa_past *past);

/* -ENOENT: it is not there. */
int afpa_cache_del(struct afpa_net *an, const struct afpa_key_ref *key);

/* Objects of @site, or of all (0); how many there were. */
u64 afpa_cache_flush(struct afpa_net *an, u32 site);

/* Those that are there already; how many there were. */
u64 afpa_cache_ban(struct afpa_net *an, const struct afpa_ban_ref *ban);

/* Those that have expired. */
void afpa_cache_expire(struct afpa_net *an);

void afpa_cache_set_budget(struct afpa_net *an, u64 budget);

/* Objects that are there already have their order by the time at which they were put. */
void afpa_cache_set_policy(struct afpa_net *an, u32 policy);

/* A request is answered with it. Context: any; takes no lock. */
void afpa_cache_used(struct afpa_cache *cache, struct afpa_object *obj);

/*
 * The memory of whoever puts is at its end. The object of @key stays, in case that it was in vain.
 * False: there is nothing to throw out.
 */
bool afpa_cache_make_room(struct afpa_net *an, const struct afpa_key_ref *key, u64 bytes);

/**
 * afpa_cache_shrink() - memory is short
 * @an:    namespace
 * @clock: whose least recently used ones go
 * @share: of @whole of their bytes
 * @whole: not 0
 *
 * So few are looked at that none may go, where all of them were used of late: not so the next time.
 *
 * Return: bytes.
 */
u64 afpa_cache_shrink(struct afpa_net *an, enum afpa_clock clock, u64 share, u64 whole);

/* The first object after @version with a reference, or NULL. */
struct afpa_object *afpa_cache_next(struct afpa_cache *cache, u64 version);

static inline bool afpa_object_is_over(const struct afpa_object *obj, u64 now)
{
	u64 expires = READ_ONCE(obj->expires);

	return expires && time_after_eq64(now, expires);
}

#endif
