/* SPDX-License-Identifier: GPL-2.0 */
/* What a request can be answered with. */
#ifndef AFPA_OBJECT_H
#define AFPA_OBJECT_H

#include <linux/bvec.h>
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/rhashtable-types.h>

/* Largest block of pages, as the paper's: 128 KB. */
#define AFPA_PIECE_ORDER	5

/**
 * struct afpa_key_ref - what an object is found by
 * @site:     number of the site; never used again
 * @host_len: of @host
 * @path_len: of @path
 * @host:     lower case, without a port 80; "*" is for any
 * @path:     with its query
 */
struct afpa_key_ref {
	u32 site;
	u16 host_len;
	u16 path_len;
	const char *host;
	const char *path;
};

struct afpa_cache;
struct afpa_protocol;
struct file;

/* Whose least recently used object is looked for. */
enum afpa_clock {
	AFPA_CLOCK_ALL,
	AFPA_CLOCK_AUTOMATIC,
	AFPA_CLOCKS
};

/**
 * struct afpa_object - an answer
 * @node:     in the cache's table
 * @key:      its strings lie behind @piece
 * @clock:    in the cache's clocks, under its lock; empty when it is in the cache no more
 * @lru:      in the cache's tree, under its lock (lru.h); empty when it is not
 * @listed:   what it is there by; the same
 * @last_use: number of its last use, where the policy is AFPA_POLICY_LRU; READ_ONCE
 * @users:    one for the cache, one for each answer that is under way
 * @recent:   it was used since a clock's hand came by
 * @automatic: its program can have it again; goes first when memory is short
 * @version:  grows with each object of the cache
 * @put:      jiffies64
 * @aged:     answers have an Age
 * @born:     when that was 0, in nanoseconds of the boot time clock, which goes on amid suspension
 * @expires:  jiffies64 or 0; under the cache's lock, READ_ONCE
 * @gone:     jiffies, not 0: it is in the cache no more, since then; READ_ONCE
 * @hits:     requests that it was the answer to
 * @body_len: bytes
 * @file:     NULL, or whose pages the body is, instead of @piece; as afpa_file_open() gave it
 * @cache:    that it was made for; outlives it
 * @charged:  bytes that count against the budget
 * @head_len: bytes before the body that are always the same: HTTP: of the header fields, and of the
 *	      empty line
 * @tail_len: bytes behind the body
 * @tail_last: of these, those that only the last object of an answer has
 * @pieces:   number of @piece
 * @tags:     words with spaces between them, behind the key's strings
 * @tags_len: bytes
 * @rcu:      for freeing
 * @piece:    blocks of pages, header first, the body right behind it (none
 *	      with @file); all but the last are full.
 *	      bv_offset is where the block begins in the object, in the page it would be 0
 *
 * Its bytes never change: what has been sent and is not acknowledged refers to these pages, and a
 * newer version has its own. Found under RCU.
 */
struct afpa_object {
	struct rhash_head node;
	struct afpa_key_ref key;
	struct list_head clock[AFPA_CLOCKS];
	struct rb_node lru;
	u64 listed;
	u64 last_use;
	refcount_t users;
	bool recent;
	bool automatic;
	bool aged;
	u64 version;
	u64 put;
	s64 born;
	u64 expires;
	unsigned long gone;
	atomic64_t hits;
	u64 body_len;
	struct file *file;
	struct afpa_cache *cache;
	u64 charged;
	u32 head_len;
	u8 tail_len;
	u8 tail_last;
	u32 pieces;
	const char *tags;
	u32 tags_len;
	struct rcu_head rcu;
	struct bio_vec piece[];
};

/**
 * struct afpa_recipe - what an object is made of
 * @key:      sound, and in kernel memory
 * @type:     content type, or empty
 * @headers:  further lines with their ends, or empty
 * @type_len: bytes
 * @headers_len: bytes
 * @tags:     words, or empty
 * @tags_len: bytes
 * @protocol: its site's
 * @body:     address, see @user
 * @user:     that is in user memory, the caller's; else in the kernel's
 * @file:     or the body is this, which is the object's if there is no error
 * @body_len: bytes
 * @automatic: see struct afpa_object
 * @aged:     the same
 * @age:      in seconds
 */
struct afpa_recipe {
	struct afpa_key_ref key;
	const char *type;
	const char *headers;
	u32 type_len;
	u32 headers_len;
	const char *tags;
	u32 tags_len;
	const struct afpa_protocol *protocol;
	u64 body;
	bool user;
	struct file *file;
	u64 body_len;
	bool automatic;
	bool aged;
	u32 age;
};

/*
 * Charged to the caller's memory cgroup and to the cache. ERR_PTR(-ENOMEM), ERR_PTR(-EFAULT),
 * ERR_PTR(-ENOSPC): afpa_cache_charge() refuses. ERR_PTR(-EINVAL): its protocol refuses.
 */
struct afpa_object *afpa_object_make(struct afpa_cache *cache, const struct afpa_recipe *recipe);
void afpa_object_put(struct afpa_object *obj);

/* Seconds, at most AFPA_AGE_MAX; of one that is @aged. */
u32 afpa_object_age(const struct afpa_object *obj);

/*
 * All of the first chunk is in memory: what comes after that is sent by work items. Context: as
 * afpa_file_vecs().
 */
bool afpa_object_is_there(const struct afpa_object *obj);

/* As the paper's. */
#define AFPA_CHUNK	65536
/* A chunk in single pages, and what is before it. */
#define AFPA_VECS	(AFPA_CHUNK / PAGE_SIZE + 3)

/**
 * struct afpa_vecs - bytes of objects for TCP
 * @nr:   of @vec
 * @held: bits: which of @vec have a reference of their own
 * @vec:  stretches of memory
 */
struct afpa_vecs {
	unsigned int nr;
	u32 held;
	struct bio_vec vec[AFPA_VECS];
};

static_assert(AFPA_VECS <= 32);

/**
 * afpa_object_vecs() - a stretch of header, body and tail
 * @obj:  object
 * @pos:  where it begins
 * @len:  its length; within the object
 * @vecs: where it is added
 *
 * Context: any.
 * Return: bytes; there may be fewer than @len, for want of room, or as a file is not in memory.
 */
u64 afpa_object_vecs(const struct afpa_object *obj, u64 pos, u64 len, struct afpa_vecs *vecs);
/* What of it has references is given back. */
void afpa_vecs_put(struct afpa_vecs *vecs);

#endif
