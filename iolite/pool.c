// SPDX-License-Identifier: GPL-2.0
/* Pools: where buffers are cut from chunks and where their memory goes back. */
#include <linux/bitmap.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "kmod/param.h"

#include "buffer.h"
#include "counter.h"
#include "csum.h"
#include "domain.h"
#include "pool.h"
#include "user.h"

/* Free chunks that a pool keeps, with the mappings that readers have of them. */
static uint pool_spare = 64;
module_param(pool_spare, admin_uint, 0644);
MODULE_PARM_DESC(pool_spare, "free 64 KiB chunks a pool keeps for its next buffers (64)");

/*
 * How long after a buffer was freed its pages are looked at again: twice as long each time that
 * nothing had landed. Whoever wants memory of the pool looks by himself.
 */
#define IOL_LIMBO_POLL		msecs_to_jiffies(10)
#define IOL_LIMBO_POLL_MOST	msecs_to_jiffies(2560)
/* Chunks with room that are tried before a new chunk is made. */
#define IOL_CARVE_TRIES		64
/* Buffers in flight that one look takes in: at the file cache's pool, and with the lock held. */
#define IOL_LIMBO_LOOKS		64
#define IOL_LIMBO_POLL_LOOKS	1024

static atomic64_t iol_ids = ATOMIC64_INIT(0);
static struct workqueue_struct *iol_workqueue;

/* All pools. The lock is a leaf. */
static LIST_HEAD(iol_pools);
static DEFINE_SPINLOCK(iol_pools_lock);

/* Domains, pools and generations take their names from one counter that never wraps. */
u64 iol_id_next(void)
{
	return atomic64_inc_return(&iol_ids);
}

void iol_pool_get(struct iol_pool *pool)
{
	refcount_inc(&pool->refs);
}

void iol_pool_put(struct iol_pool *pool)
{
	if (!refcount_dec_and_test(&pool->refs))
		return;
	WARN_ON(pool->nchunks);
	iol_domains_forget_pool(pool->id);
	spin_lock(&iol_pools_lock);
	list_del_init(&pool->node);
	spin_unlock(&iol_pools_lock);
	if (pool->user)
		iol_user_disown(pool);
	mutex_destroy(&pool->lock);
	kfree(pool);
}

/* Both lists give chunks with room in the order that keeps mapped memory in use: newest first. */
static void iol_pool_place(struct iol_pool *pool, struct iol_chunk *chunk)
{
	lockdep_assert_held(&pool->lock);
	if (bitmap_full(&chunk->busy, IOL_CHUNK_PAGES))
		list_move_tail(&chunk->node, &pool->full);
	else
		list_move(&chunk->node, &pool->room);
}

/* Cut @npages of @chunk for @buf, false if it has no such run. */
static bool iol_chunk_carve(struct iol_chunk *chunk, struct iol_buf *buf, unsigned int npages)
{
	struct iol_pool *pool = chunk->pool;
	unsigned long first;
	unsigned int i;

	lockdep_assert_held(&pool->lock);
	first = bitmap_find_next_zero_area(&chunk->busy, IOL_CHUNK_PAGES, 0, npages, 0);
	if (first >= IOL_CHUNK_PAGES || !iol_chunk_fill(chunk, first, npages))
		return false;
	if (!chunk->busy)
		WRITE_ONCE(pool->nspare, pool->nspare - 1);
	buf->chunk = chunk;
	buf->first = first;
	buf->npages = npages;
	pool->allocs++;
	buf->used = chunk->used >> first & GENMASK(npages - 1, 0);
	if (buf->used) {
		pool->recycled++;
		iol_count(IOL_BUFFERS_RECYCLED);
	}
	iol_sums_forget(chunk, first, npages);
	bitmap_set(&chunk->busy, first, npages);
	bitmap_set(&chunk->used, first, npages);
	for (i = first; i < first + npages; i++)
		chunk->buf[i] = buf;
	WRITE_ONCE(pool->nbusy, pool->nbusy + npages);
	iol_pool_place(pool, chunk);
	return true;
}

static bool iol_pool_carve_known(struct iol_pool *pool, struct iol_buf *buf, unsigned int npages)
{
	unsigned int tries = IOL_CARVE_TRIES;
	struct iol_chunk *chunk;

	list_for_each_entry(chunk, &pool->room, node) {
		if (iol_chunk_carve(chunk, buf, npages))
			return true;
		if (!--tries)
			break;
	}
	return false;
}

/* It has landed, or somebody wants it again. */
void iol_pool_limbo_del(struct iol_buf *buf)
{
	struct iol_pool *pool = buf->chunk->pool;

	lockdep_assert_held(&pool->lock);
	list_del_init(&buf->node);
	pool->nlimbo -= buf->npages;
	pool->nflights--;
}

/* What is in flight goes to the end; whether something was not any more. */
static bool iol_pool_look_limbo(struct iol_pool *pool, unsigned int left, struct list_head *dead)
{
	struct iol_buf *buf, *next;
	LIST_HEAD(flying);
	bool landed = false;

	lockdep_assert_held(&pool->lock);
	list_for_each_entry_safe(buf, next, &pool->limbo, node) {
		if (!left--)
			break;
		if (iol_buf_in_flight(buf)) {
			list_move_tail(&buf->node, &flying);
			continue;
		}
		iol_pool_limbo_del(buf);
		iol_pool_uncarve(buf, dead);
		landed = true;
	}
	list_splice_tail(&flying, &pool->limbo);
	return landed;
}

/* All of it where a quota bounds it; of the file cache's, which all share, a part at a time. */
static void iol_pool_poll_limbo(struct iol_pool *pool, struct list_head *dead)
{
	iol_pool_look_limbo(pool, pool->quota ? UINT_MAX : IOL_LIMBO_LOOKS, dead);
}

/**
 * iol_pool_carve - find memory for a buffer
 * @pool:   where
 * @buf:    fresh
 * @npages: 1 to 16
 *
 * Memory that was used before comes first: its readers have it mapped.
 *
 * Context: called and returns with the pool's lock held, drops it to make a chunk.
 * Return: 0, -ENOMEM, -ENOSPC (window full), -ESTALE (pool retired).
 */
int iol_pool_carve(struct iol_pool *pool, struct iol_buf *buf, unsigned int npages)
{
	struct iol_chunk *chunk;
	LIST_HEAD(dead);
	int err = 0;

	lockdep_assert_held(&pool->lock);
	if (pool->retired)
		return -ESTALE;
	iol_pool_poll_limbo(pool, &dead);
	if (iol_pool_carve_known(pool, buf, npages))
		goto out;
	if (pool->quota && ((u64)pool->nchunks + 1) * IOL_CHUNK_SIZE > pool->quota) {
		iol_count(IOL_QUOTA_REFUSED);
		err = -ENOMEM;
		goto out;
	}
	mutex_unlock(&pool->lock);
	chunk = iol_chunk_make(pool);
	mutex_lock(&pool->lock);
	if (IS_ERR(chunk)) {
		err = PTR_ERR(chunk);
		goto out;
	}
	pool->nchunks++;
	WRITE_ONCE(pool->nspare, pool->nspare + 1);
	list_add(&chunk->node, &pool->room);
	err = pool->retired ? -ESTALE : 0;
	if (!err && !iol_chunk_carve(chunk, buf, npages))
		err = -ENOMEM;
	if (err) {
		chunk->dead = true;
		pool->nchunks--;
		WRITE_ONCE(pool->nspare, pool->nspare - 1);
		list_move(&chunk->node, &dead);
	}
out:
	if (!list_empty(&dead)) {
		mutex_unlock(&pool->lock);
		iol_pool_free_chunks(&dead);
		mutex_lock(&pool->lock);
	}
	return err;
}

/**
 * iol_pool_uncarve - give a buffer's pages back to the pool
 * @buf:  nobody refers to it, no page of it is in flight
 * @dead: out: chunks that the caller frees when it has let go of the pool's lock
 */
void iol_pool_uncarve(struct iol_buf *buf, struct list_head *dead)
{
	struct iol_chunk *chunk = buf->chunk;
	struct iol_pool *pool = chunk->pool;
	unsigned int i;

	lockdep_assert_held(&pool->lock);
	for (i = buf->first; i < buf->first + buf->npages; i++)
		chunk->buf[i] = NULL;
	bitmap_clear(&chunk->busy, buf->first, buf->npages);
	WRITE_ONCE(pool->nbusy, pool->nbusy - buf->npages);
	iol_buf_struct_free(buf);
	iol_count(IOL_BUFFERS_FREED);
	iol_pool_place(pool, chunk);
	if (chunk->busy) {
		/* What is left is kept by others, for as long as they like. */
		if (pool->retired)
			iol_chunk_shed(chunk);
		return;
	}
	WRITE_ONCE(pool->nspare, pool->nspare + 1);
	if (pool->retired || pool->nspare > READ_ONCE(pool_spare)) {
		chunk->dead = true;
		pool->nchunks--;
		WRITE_ONCE(pool->nspare, pool->nspare - 1);
		list_move(&chunk->node, dead);
	}
}

/* Give the tail of a buffer back; it has @npages then. */
void iol_pool_shorten(struct iol_buf *buf, unsigned int npages)
{
	struct iol_chunk *chunk = buf->chunk;
	unsigned int i;

	lockdep_assert_held(&chunk->pool->lock);
	for (i = buf->first + npages; i < buf->first + buf->npages; i++)
		chunk->buf[i] = NULL;
	bitmap_clear(&chunk->busy, buf->first + npages, buf->npages - npages);
	WRITE_ONCE(chunk->pool->nbusy, chunk->pool->nbusy - (buf->npages - npages));
	buf->npages = npages;
	iol_pool_place(chunk->pool, chunk);
}

/* Not under the pool's lock: the last chunk may take the pool with it. */
void iol_pool_free_chunks(struct list_head *dead)
{
	struct iol_chunk *chunk, *next;

	list_for_each_entry_safe(chunk, next, dead, node) {
		list_del_init(&chunk->node);
		iol_chunk_free(chunk);
	}
}

/* The work holds a reference of its own. */
static void iol_pool_poll_queue(struct iol_pool *pool)
{
	iol_pool_get(pool);
	if (!queue_delayed_work(iol_workqueue, &pool->poll, pool->wait))
		refcount_dec(&pool->refs);
}

static void iol_pool_poll(struct work_struct *work)
{
	struct iol_pool *pool = container_of(to_delayed_work(work), struct iol_pool, poll);
	bool landed = false;
	LIST_HEAD(dead);
	long left;

	mutex_lock(&pool->lock);
	for (left = pool->nflights; left > 0; left -= IOL_LIMBO_POLL_LOOKS) {
		landed |= iol_pool_look_limbo(pool, min(left, IOL_LIMBO_POLL_LOOKS), &dead);
		mutex_unlock(&pool->lock);
		cond_resched();
		mutex_lock(&pool->lock);
	}
	pool->wait = landed ? IOL_LIMBO_POLL : min(2 * pool->wait, IOL_LIMBO_POLL_MOST);
	if (!list_empty(&pool->limbo))
		iol_pool_poll_queue(pool);
	mutex_unlock(&pool->lock);
	iol_pool_free_chunks(&dead);
	iol_pool_put(pool);
}

/* A buffer that is in flight comes to limbo. While others stay there it waits with them. */
void iol_pool_limbo_add(struct iol_buf *buf)
{
	struct iol_pool *pool = buf->chunk->pool;

	lockdep_assert_held(&pool->lock);
	if (list_empty(&pool->limbo))
		pool->wait = IOL_LIMBO_POLL;
	list_add_tail(&buf->node, &pool->limbo);
	pool->nlimbo += buf->npages;
	pool->nflights++;
	iol_count(IOL_BUFFERS_LIMBO);
	iol_pool_poll_queue(pool);
}

/* At the end of the module: pages in flight are freed by whoever has them last. */
static void iol_pool_drop_limbo(struct iol_pool *pool, struct list_head *dead)
{
	struct iol_buf *buf, *next;

	list_for_each_entry_safe(buf, next, &pool->limbo, node) {
		iol_pool_limbo_del(buf);
		iol_pool_uncarve(buf, dead);
	}
}

/**
 * iol_pool_trim - give free memory back to the system
 * @pool: any
 *
 * Whole chunks; and single pages where nobody is admitted, so that nobody has free ones mapped, or
 * nothing is made any more.
 */
void iol_pool_trim(struct iol_pool *pool)
{
	struct iol_chunk *chunk, *next;
	LIST_HEAD(dead);

	mutex_lock(&pool->lock);
	list_for_each_entry_safe(chunk, next, &pool->room, node) {
		if (chunk->busy) {
			if (pool->kind == IOL_POOL_FILE || pool->retired)
				iol_chunk_shed(chunk);
			continue;
		}
		chunk->dead = true;
		pool->nchunks--;
		WRITE_ONCE(pool->nspare, pool->nspare - 1);
		list_move(&chunk->node, &dead);
	}
	mutex_unlock(&pool->lock);
	iol_pool_free_chunks(&dead);
}

/* A part of what is in flight is looked at. */
void iol_pool_land(struct iol_pool *pool)
{
	LIST_HEAD(dead);

	mutex_lock(&pool->lock);
	iol_pool_poll_limbo(pool, &dead);
	mutex_unlock(&pool->lock);
	iol_pool_free_chunks(&dead);
}

/* Look for free memory: what is in flight no more, and what is spare. */
void iol_pool_collect(struct iol_pool *pool)
{
	iol_pool_land(pool);
	iol_pool_trim(pool);
}

/**
 * iol_pool_retire - the owner is done with it
 * @pool: consumes the owner's reference; buffers in use stay, and what is in flight, which its user
 *        has until it has landed
 */
void iol_pool_retire(struct iol_pool *pool)
{
	mutex_lock(&pool->lock);
	pool->retired = true;
	mutex_unlock(&pool->lock);
	iol_pool_collect(pool);
	iol_pool_put(pool);
}

struct iol_pool *iol_pool_create(enum iol_pool_kind kind, u64 owner, struct iol_user *user,
				 u64 quota)
{
	struct iol_pool *pool;

	pool = kzalloc(sizeof(*pool), GFP_KERNEL_ACCOUNT);
	if (!pool)
		return NULL;
	pool->id = iol_id_next();
	pool->owner = owner;
	pool->kind = kind;
	pool->quota = quota;
	refcount_set(&pool->refs, 1);
	mutex_init(&pool->lock);
	INIT_LIST_HEAD(&pool->room);
	INIT_LIST_HEAD(&pool->full);
	INIT_LIST_HEAD(&pool->limbo);
	INIT_DELAYED_WORK(&pool->poll, iol_pool_poll);
	/* From here on his other threads find it. */
	if (user && !iol_user_adopt(user, pool)) {
		kfree(pool);
		return NULL;
	}
	spin_lock(&iol_pools_lock);
	list_add_tail(&pool->node, &iol_pools);
	spin_unlock(&iol_pools_lock);
	return pool;
}

void iol_pool_stat(struct iol_pool *pool, struct iol_pool_args *args)
{
	mutex_lock(&pool->lock);
	args->quota = pool->quota;
	args->chunks = pool->nchunks;
	args->busy = (pool->nbusy - pool->nlimbo) << PAGE_SHIFT;
	args->limbo = pool->nlimbo << PAGE_SHIFT;
	args->allocs = pool->allocs;
	args->recycled = pool->recycled;
	mutex_unlock(&pool->lock);
}

int iol_pools_init(void)
{
	iol_workqueue = alloc_workqueue("iolite", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return iol_workqueue ? 0 : -ENOMEM;
}

/* A pool that is left, with a reference and off the list, or NULL. */
static struct iol_pool *iol_pools_pop(void)
{
	struct iol_pool *pool;

	spin_lock(&iol_pools_lock);
	do {
		pool = list_first_entry_or_null(&iol_pools, struct iol_pool, node);
		if (pool)
			list_del_init(&pool->node);
	} while (pool && !refcount_inc_not_zero(&pool->refs));
	spin_unlock(&iol_pools_lock);
	return pool;
}

/* There are no domains and files any more: what is left waits for what is in flight. */
void iol_pools_exit(void)
{
	struct iol_pool *pool;
	LIST_HEAD(dead);

	while ((pool = iol_pools_pop())) {
		/* Destroying a workqueue does not wait for what is delayed. */
		if (cancel_delayed_work_sync(&pool->poll))
			iol_pool_put(pool);
		mutex_lock(&pool->lock);
		iol_pool_drop_limbo(pool, &dead);
		mutex_unlock(&pool->lock);
		iol_pool_free_chunks(&dead);
		iol_pool_put(pool);
	}
	destroy_workqueue(iol_workqueue);
	WARN_ON(!iol_chunks_empty());
}
