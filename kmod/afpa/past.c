// SPDX-License-Identifier: GPL-2.0
/* What became of objects: the last of each of some thousand keys. */

#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <flotilla/afpa.h>

#include "cache.h"
#include "past.h"

/* Places for keys. */
#define AFPA_PASTS	4096

void afpa_past_begin(struct afpa_cache *cache)
{
	struct afpa_past *past;

	if (READ_ONCE(cache->past))
		return;
	past = kvcalloc(AFPA_PASTS, sizeof(*past),
			GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
	if (!past)
		return;
	spin_lock(&cache->lock);
	if (!cache->past) {
		WRITE_ONCE(cache->past, past);
		past = NULL;
	}
	spin_unlock(&cache->lock);
	kvfree(past);
}

void afpa_past_end(struct afpa_cache *cache)
{
	kvfree(cache->past);
}

static u64 afpa_past_id(const struct afpa_cache *cache, const struct afpa_key_ref *key)
{
	return (u64)afpa_key_hash(key, cache->seed[0]) << 32 | afpa_key_hash(key, cache->seed[1]);
}

static void afpa_past_note(struct afpa_cache *cache, const struct afpa_key_ref *key,
			   struct afpa_past past)
{
	lockdep_assert_held(&cache->lock);
	if (!cache->past)
		return;
	past.id = afpa_past_id(cache, key);
	past.when = get_jiffies_64();
	cache->past[past.id % AFPA_PASTS] = past;
}

void afpa_past_gone(struct afpa_cache *cache, const struct afpa_object *obj, u16 last)
{
	afpa_past_note(cache, &obj->key, (struct afpa_past){
		.version = obj->version,
		.hits = min_t(u64, atomic64_read(&obj->hits), U32_MAX),
		.last = last,
	});
}

void afpa_past_refused(struct afpa_cache *cache, const struct afpa_key_ref *key, u16 error)
{
	afpa_past_note(cache, key, (struct afpa_past){
		.error = error,
		.last = AFPA_LAST_REFUSED,
	});
}

const struct afpa_past *afpa_past_find(const struct afpa_cache *cache,
				       const struct afpa_key_ref *key)
{
	const struct afpa_past *past;
	u64 id;

	lockdep_assert_held(&cache->lock);
	if (!cache->past)
		return NULL;
	id = afpa_past_id(cache, key);
	past = &cache->past[id % AFPA_PASTS];
	return past->last && past->id == id ? past : NULL;
}

void afpa_past_forget(struct afpa_cache *cache, const struct afpa_key_ref *key)
{
	struct afpa_past *past = (struct afpa_past *)afpa_past_find(cache, key);

	if (past)
		past->last = AFPA_LAST_NONE;
}
