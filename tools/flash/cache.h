/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two caches that live and die together: path names as sent -> what they stand for, and files.
 *
 * An event loop has a cache of its own and takes no lock. In mt the threads share one: @lock is
 * then taken for look-ups, insertions and references, never while a disk may be waited for, and
 * what a path entry or a file says does not change after it was inserted.
 */
#ifndef FLASH_CACHE_H
#define FLASH_CACHE_H

#include <pthread.h>

#include "config.h"
#include "file.h"
#include "stats.h"

struct map_cache;
struct path;

enum path_kind {
	PATH_PENDING,		/* a helper is looking it up */
	PATH_FILE,
	PATH_REDIRECT,		/* a directory without its final slash */
	PATH_ERROR,
	PATH_APP,
};

/*
 * Called on the loop when what it waits for has come. @path is the entry that was looked up, for
 * the waiter to take a reference of; NULL when it waited for something else.
 */
struct waiter {
	struct list node;
	void (*ready)(struct waiter *w, struct path *path);
};

/**
 * struct path - one name as clients send it
 * @refs:    users besides the cache
 * @checked: when it was last found true, ms; atomic because mt threads refresh it
 * @waiters: struct waiter of connections, while PENDING
 * @app_path: PATH_APP: the decoded path
 */
struct path {
	struct list hash_node;
	struct list clock_node;
	unsigned int refs;
	uint32_t hash;
	uint8_t kind;
	bool used, cached;
	int status;			/* PATH_ERROR */
	uint64_t checked;
	const struct vhost *vhost;
	const struct app *app;
	char *app_path;
	char *location;			/* PATH_REDIRECT */
	struct file *files[ENC_COUNT];	/* PATH_FILE; [ENC_IDENTITY] is always there */
	struct list waiters;
	uint32_t len;
	char name[];
};

struct cache {
	const struct conf *conf;
	bool shared;
	pthread_mutex_t lock;
	struct list *paths, *files;	/* hash tables of @mask + 1 heads */
	uint32_t mask;
	struct list clock;		/* second chance: the hand is at the head */
	unsigned int nr_paths, nr_fds;
	uint64_t bytes;			/* of struct file blocks */
	struct map_cache *maps;		/* transfer mmap */
	void (*unmap)(struct map_cache *maps, struct file *f);	/* of a file about to go */
};

struct cache *cache_new(const struct conf *conf, bool shared);
void cache_free(struct cache *c);

static inline void cache_lock(struct cache *c)
{
	if (c->shared)
		pthread_mutex_lock(&c->lock);
}

static inline void cache_unlock(struct cache *c)
{
	if (c->shared)
		pthread_mutex_unlock(&c->lock);
}

/* An entry with a reference taken, or NULL. */
struct path *path_find(struct cache *c, const struct vhost *vhost, const struct slice *name,
		       uint32_t hash);
/* A new entry, PENDING, one reference, not in the cache. */
struct path *path_new(const struct vhost *vhost, const struct slice *name, uint32_t hash);
/*
 * Puts it into the cache in place of one of the same name. With the path cache off it is never
 * found there, but still keeps its file: the three caches can be switched one by one.
 */
void path_insert(struct cache *c, struct path *p, struct stats *stats);
/* Takes it out; users may still hold it. */
void path_remove(struct cache *c, struct path *p);
void path_put(struct cache *c, struct path *p);

/* A file in this very state that somebody already holds, with a reference, or NULL. */
struct file *file_find(struct cache *c, const struct vhost *vhost, const struct file_id *id,
		       const char *mime, enum encoding enc, bool vary);
void file_insert(struct cache *c, struct file *f);
struct file *file_get(struct cache *c, struct file *f);
void file_put(struct cache *c, struct file *f);

#endif
