/* SPDX-License-Identifier: GPL-2.0 */
/* Why objects are not in the cache any more, or did not come in, for AFPA_IOC_EXPLAIN. */
#ifndef AFPA_PAST_H
#define AFPA_PAST_H

#include <linux/types.h>

struct afpa_cache;
struct afpa_key_ref;
struct afpa_object;

/**
 * struct afpa_past - what was last said of a key
 * @id:      64 bits of two hashes of the key; what another key of this place says takes its place
 * @when:    jiffies64
 * @version: of the object that has gone, 0: a put was refused
 * @hits:    its
 * @error:   errno of the put
 * @last:    enum afpa_last
 *
 * Under the cache's lock.
 */
struct afpa_past {
	u64 id;
	u64 when;
	u64 version;
	u32 hits;
	u16 error;
	u16 last;
};

/* Memory for it; without any nothing is remembered. Context: process; may sleep. */
void afpa_past_begin(struct afpa_cache *cache);
void afpa_past_end(struct afpa_cache *cache);

/* @obj has left the cache. */
void afpa_past_gone(struct afpa_cache *cache, const struct afpa_object *obj, u16 last);
/* A put of @key has failed with @error. */
void afpa_past_refused(struct afpa_cache *cache, const struct afpa_key_ref *key, u16 error);
/* There is an object again. */
void afpa_past_forget(struct afpa_cache *cache, const struct afpa_key_ref *key);
/* NULL: nothing is known. */
const struct afpa_past *afpa_past_find(const struct afpa_cache *cache,
				       const struct afpa_key_ref *key);

#endif
