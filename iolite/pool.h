/* SPDX-License-Identifier: GPL-2.0 */
/* Pools: buffers with one audience. */
#ifndef IOL_POOL_H
#define IOL_POOL_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/workqueue.h>

#include "chunk.h"

struct iol_user;

enum iol_pool_kind {
	IOL_POOL_SHARED,	/* who is admitted may read all, others what they hold */
	IOL_POOL_FILE,		/* nobody is admitted */
};

/**
 * struct iol_pool - buffers with one audience
 * @id:       never used again
 * @owner:    domain that may allocate; 0: the kernel
 * @kind:     how the audience is known
 * @quota:    most bytes of memory, 0: no limit
 * @user:     whose memory it is, NULL: the kernel's
 * @refs:     owner, chunks, work under way
 * @lock:     this pool's chunks and buffers: lists, states, and the making of PTEs to them
 * @retired:  no more allocations; memory goes back as it gets free, and the pool stays for that
 *	      long; under @lock
 * @room:     chunks with a free page; under @lock
 * @full:     chunks without; under @lock
 * @nchunks:  of both; under @lock
 * @nspare:   chunks with no busy page; under @lock
 * @limbo:    freed buffers whose pages a socket, device or pipe still reads; under @lock
 * @nbusy:    busy pages; under @lock
 * @nlimbo:   of these, in limbo; under @lock
 * @allocs:   buffers given out; under @lock
 * @recycled: of these, from memory used before; under @lock
 * @nflights: buffers in limbo; under @lock
 * @poll:     looks again at @limbo
 * @wait:     after so many jiffies; under @lock
 * @of_user:  in the list of @user
 * @of_domain: in the list of the domain @owner; under that domain's lock
 * @node:     in the list of all pools
 *
 * Lock order: mmap_lock, @lock, i_mmap_rwsem. Page faults take @lock, so nothing under it may touch
 * user memory; reclaim may take it, so nothing under it may reclaim into file systems.
 */
struct iol_pool {
	u64 id;
	u64 owner;
	enum iol_pool_kind kind;
	u64 quota;
	struct iol_user *user;
	refcount_t refs;
	struct mutex lock;	/* chunks, buffers and PTEs */
	bool retired;
	struct list_head room;
	struct list_head full;
	u32 nchunks;
	u32 nspare;
	struct list_head limbo;
	u64 nbusy;
	u64 nlimbo;
	u64 allocs;
	u64 recycled;
	u32 nflights;
	struct delayed_work poll;
	unsigned long wait;
	struct list_head of_user;
	struct list_head of_domain;
	struct list_head node;
};

struct iol_pool *iol_pool_create(enum iol_pool_kind kind, u64 owner, struct iol_user *user,
				 u64 quota);
void iol_pool_retire(struct iol_pool *pool);
void iol_pool_trim(struct iol_pool *pool);
void iol_pool_land(struct iol_pool *pool);
void iol_pool_collect(struct iol_pool *pool);
void iol_pool_get(struct iol_pool *pool);
void iol_pool_put(struct iol_pool *pool);
void iol_pool_stat(struct iol_pool *pool, struct iol_pool_args *args);
u64 iol_id_next(void);

/* Bytes in buffers, in limbo too; of who only wants to know about how many. */
static inline u64 iol_pool_busy(const struct iol_pool *pool)
{
	return READ_ONCE(pool->nbusy) << PAGE_SHIFT;
}

int iol_pools_init(void);
void iol_pools_exit(void);

int iol_pool_carve(struct iol_pool *pool, struct iol_buf *buf, unsigned int npages);
void iol_pool_uncarve(struct iol_buf *buf, struct list_head *dead);
void iol_pool_shorten(struct iol_buf *buf, unsigned int npages);
void iol_pool_free_chunks(struct list_head *dead);
void iol_pool_limbo_add(struct iol_buf *buf);
void iol_pool_limbo_del(struct iol_buf *buf);

#endif
