// SPDX-License-Identifier: GPL-2.0
#include "cache.h"

#include <stdlib.h>
#include <string.h>

struct cache *cache_new(const struct conf *conf, bool shared)
{
	struct cache *c = calloc(1, sizeof(*c));
	uint32_t i, n = 256;

	if (!c)
		return NULL;
	while (n < conf->path_entries && n < 1 << 22)
		n <<= 1;
	c->conf = conf;
	c->shared = shared;
	c->mask = n - 1;
	c->paths = malloc(n * sizeof(*c->paths));
	c->files = malloc(n * sizeof(*c->files));
	if (!c->paths || !c->files) {
		free(c->paths);
		free(c->files);
		free(c);
		return NULL;
	}
	for (i = 0; i < n; i++) {
		list_init(&c->paths[i]);
		list_init(&c->files[i]);
	}
	list_init(&c->clock);
	pthread_mutex_init(&c->lock, NULL);
	return c;
}

static void file_drop(struct cache *c, struct file *f)
{
	if (--f->refs)
		return;
	if (f->hashed) {
		list_del(&f->hash_node);
		c->bytes -= f->head_len + f->body_len;
		c->nr_fds -= f->fd >= 0;
	}
	if (!list_empty(&f->maps))
		c->unmap(c->maps, f);
	file_destroy(f);
}

static void path_drop(struct cache *c, struct path *p)
{
	int i;

	if (--p->refs)
		return;
	for (i = 0; i < ENC_COUNT; i++)
		if (p->files[i])
			file_drop(c, p->files[i]);
	free(p->app_path);
	free(p->location);
	free(p);
}

static void path_unlink(struct cache *c, struct path *p)
{
	if (!p->cached)
		return;
	list_del(&p->hash_node);
	list_del(&p->clock_node);
	p->cached = false;
	c->nr_paths--;
	path_drop(c, p);
}

void cache_free(struct cache *c)
{
	if (!c)
		return;
	while (!list_empty(&c->clock))
		path_unlink(c, list_entry(c->clock.next, struct path, clock_node));
	pthread_mutex_destroy(&c->lock);
	free(c->paths);
	free(c->files);
	free(c);
}

static bool over_limit(const struct cache *c)
{
	return c->nr_paths > c->conf->path_entries || c->bytes > c->conf->memory_cache ||
	       c->nr_fds > c->conf->open_files;
}

/* The clock hand goes round at most twice: once to clear, once to take. */
static void evict(struct cache *c, struct stats *stats)
{
	unsigned int tries = 2 * c->nr_paths;

	while (over_limit(c) && tries--) {
		struct path *p = list_entry(c->clock.next, struct path, clock_node);

		if (p->used || p->refs > 1) {
			p->used = false;
			list_del(&p->clock_node);
			list_add_tail(&p->clock_node, &c->clock);
			continue;
		}
		path_unlink(c, p);
		stats_add(stats, path_evictions, 1);
	}
}

static struct list *path_head(struct cache *c, uint32_t hash)
{
	return &c->paths[(hash ^ hash >> 16) & c->mask];
}

static struct path *find_locked(struct cache *c, const struct vhost *vhost,
				const struct slice *name, uint32_t hash)
{
	struct list *head = path_head(c, hash), *n;

	for (n = head->next; n != head; n = n->next) {
		struct path *p = list_entry(n, struct path, hash_node);

		if (p->hash == hash && p->len == name->len && p->vhost == vhost &&
		    !memcmp(p->name, name->p, name->len))
			return p;
	}
	return NULL;
}

struct path *path_find(struct cache *c, const struct vhost *vhost, const struct slice *name,
		       uint32_t hash)
{
	struct path *p;

	cache_lock(c);
	p = find_locked(c, vhost, name, hash);
	if (p) {
		p->refs++;
		p->used = true;
	}
	cache_unlock(c);
	return p;
}

struct path *path_new(const struct vhost *vhost, const struct slice *name, uint32_t hash)
{
	struct path *p = calloc(1, sizeof(*p) + name->len + 1);

	if (!p)
		return NULL;
	p->refs = 1;
	p->hash = hash;
	p->vhost = vhost;
	p->len = name->len;
	memcpy(p->name, name->p, name->len);
	list_init(&p->waiters);
	list_init(&p->hash_node);
	return p;
}

void path_insert(struct cache *c, struct path *p, struct stats *stats)
{
	struct slice name = { p->name, p->len };
	struct path *other;

	if (!c->conf->path_cache && !c->conf->map_cache)
		return;
	cache_lock(c);
	if (c->conf->path_cache) {
		other = find_locked(c, p->vhost, &name, p->hash);
		if (other)
			path_unlink(c, other);
		list_add(&p->hash_node, path_head(c, p->hash));
	}
	list_add_tail(&p->clock_node, &c->clock);
	p->cached = true;
	p->refs++;
	c->nr_paths++;
	evict(c, stats);
	cache_unlock(c);
}

void path_remove(struct cache *c, struct path *p)
{
	cache_lock(c);
	path_unlink(c, p);
	cache_unlock(c);
}

void path_put(struct cache *c, struct path *p)
{
	cache_lock(c);
	path_drop(c, p);
	cache_unlock(c);
}

static struct list *file_head(struct cache *c, const struct file_id *id)
{
	uint64_t h = (id->ino + (id->dev << 32)) * 0x9e3779b97f4a7c15ull;

	return &c->files[(h >> 40) & c->mask];
}

struct file *file_find(struct cache *c, const struct vhost *vhost, const struct file_id *id,
		       const char *mime, enum encoding enc, bool vary)
{
	struct list *head = file_head(c, id), *n;
	struct file *found = NULL;

	cache_lock(c);
	for (n = head->next; n != head; n = n->next) {
		struct file *f = list_entry(n, struct file, hash_node);

		/* Types are compared by pointer: the map gives each one only once. */
		if (f->vhost == vhost && f->mime == mime && f->encoding == enc && f->vary == vary &&
		    !memcmp(&f->id, id, sizeof(*id))) {
			f->refs++;
			found = f;
			break;
		}
	}
	cache_unlock(c);
	return found;
}

void file_insert(struct cache *c, struct file *f)
{
	cache_lock(c);
	f->hashed = true;
	list_add(&f->hash_node, file_head(c, &f->id));
	c->bytes += f->head_len + f->body_len;
	c->nr_fds += f->fd >= 0;
	cache_unlock(c);
}

struct file *file_get(struct cache *c, struct file *f)
{
	cache_lock(c);
	f->refs++;
	cache_unlock(c);
	return f;
}

void file_put(struct cache *c, struct file *f)
{
	cache_lock(c);
	file_drop(c, f);
	cache_unlock(c);
}
