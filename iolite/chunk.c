// SPDX-License-Identifier: GPL-2.0
/* Chunks: places in the window, and pages for them. */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "chunk.h"
#include "counter.h"
#include "csum.h"
#include "pool.h"
#include "user.h"
#include "window.h"

static DEFINE_XARRAY_ALLOC(iol_chunks);

/* How many there were. */
static unsigned int iol_chunk_free_pages(struct iol_chunk *chunk)
{
	unsigned int i, n = 0;

	for (i = 0; i < IOL_CHUNK_PAGES; i++) {
		if (!chunk->pages[i])
			continue;
		set_page_private(chunk->pages[i], 0);
		/* At the end of the module a packet may still read it, and frees it later. */
		put_page(chunk->pages[i]);
		n++;
	}
	return n;
}

/* Zeroed: nothing of anyone else may show. Charged to the caller's memory cgroup. */
static int iol_chunk_alloc_pages(struct iol_chunk *chunk)
{
	/* Too little memory is an error of the call, and nobody is killed for it. */
	gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_RETRY_MAYFAIL;
	struct page *run;
	unsigned int i;

	/* One run makes longer segments for devices; single pages do as well. */
	run = alloc_pages(GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NORETRY | __GFP_NOWARN,
			  IOL_CHUNK_ORDER);
	if (run)
		split_page(run, IOL_CHUNK_ORDER);
	for (i = 0; i < IOL_CHUNK_PAGES; i++) {
		chunk->pages[i] = run ? run + i : alloc_page(gfp | __GFP_NOWARN);
		if (!chunk->pages[i])
			return -ENOMEM;
	}
	return 0;
}

/**
 * iol_chunk_make - a new chunk of a pool
 * @pool: the pool; the chunk takes a reference
 *
 * Context: may sleep and reclaim, so without the pool's lock.
 * Return: the chunk, in no list, or an error: -ENOMEM, or -ENOSPC when the window is full.
 */
struct iol_chunk *iol_chunk_make(struct iol_pool *pool)
{
	struct iol_chunk *chunk;
	unsigned int i;
	int err;

	chunk = kzalloc(sizeof(*chunk), GFP_KERNEL_ACCOUNT);
	if (!chunk)
		return ERR_PTR(-ENOMEM);
	refcount_set(&chunk->refs, 1);
	INIT_LIST_HEAD(&chunk->node);
	chunk->pool = pool;
	err = -ENOMEM;
	if (!iol_user_charge(pool->user, IOL_CHUNK_PAGES))
		goto free;
	err = iol_chunk_alloc_pages(chunk);
	if (err)
		goto uncharge;
	err = xa_alloc(&iol_chunks, &chunk->index, NULL, XA_LIMIT(0, IOL_WINDOW_CHUNKS - 1),
		       GFP_KERNEL);
	if (err) {
		if (err == -EBUSY)
			err = -ENOSPC;
		goto uncharge;
	}
	iol_pool_get(pool);
	for (i = 0; i < IOL_CHUNK_PAGES; i++)
		set_page_private(chunk->pages[i], iol_chunk_pgoff(chunk) + i);
	/* Reserved before, so this needs no memory. */
	xa_store(&iol_chunks, chunk->index, chunk, GFP_KERNEL);
	iol_count(IOL_CHUNKS_MADE);
	return chunk;

uncharge:
	iol_chunk_free_pages(chunk);
	iol_user_uncharge(pool->user, IOL_CHUNK_PAGES);
free:
	kfree(chunk);
	return ERR_PTR(err);
}

/**
 * iol_chunk_free - take a chunk out of the window
 * @chunk: @dead was set under the pool's lock, so no PTE is made any more
 */
void iol_chunk_free(struct iol_chunk *chunk)
{
	if (chunk->read_mapped)
		iol_window_zap(iol_chunk_pgoff(chunk), IOL_CHUNK_PAGES);
	/* Only now may the place in the window be given to another. */
	xa_erase(&iol_chunks, chunk->index);
	iol_user_uncharge(chunk->pool->user, iol_chunk_free_pages(chunk));
	iol_count(IOL_CHUNKS_FREED);
	iol_chunk_put(chunk);
}

/**
 * iol_chunk_shed - give the pages that no buffer has back to the system
 * @chunk: of a pool from which nothing is made any more, or whose free pages nobody has mapped
 *
 * Its places in the window stay, and iol_chunk_fill() gives them pages again.
 *
 * Context: the pool's lock.
 */
void iol_chunk_shed(struct iol_chunk *chunk)
{
	unsigned int i, n = 0;

	lockdep_assert_held(&chunk->pool->lock);
	if (chunk->pool->kind != IOL_POOL_FILE && chunk->read_mapped)
		iol_window_zap(iol_chunk_pgoff(chunk), IOL_CHUNK_PAGES);
	for_each_clear_bit(i, &chunk->busy, IOL_CHUNK_PAGES) {
		struct page *page = chunk->pages[i];

		if (!page)
			continue;
		WRITE_ONCE(chunk->pages[i], NULL);
		set_page_private(page, 0);
		put_page(page);
		n++;
	}
	chunk->used &= chunk->busy;
	iol_user_uncharge(chunk->pool->user, n);
	iol_count_add(IOL_PAGES_SHED, n);
}

/**
 * iol_chunk_fill - have pages for a buffer
 * @chunk:  some of its pages may have been given back
 * @first:  of the chunk
 * @npages: from there on; new ones are zeroed and charged to the caller's memory cgroup
 *
 * Context: the pool's lock, which reclaim may want: no reclaim into file systems.
 * Return: whether they are there.
 */
bool iol_chunk_fill(struct iol_chunk *chunk, unsigned int first, unsigned int npages)
{
	unsigned int i;

	lockdep_assert_held(&chunk->pool->lock);
	for (i = first; i < first + npages; i++) {
		struct page *page;

		if (chunk->pages[i])
			continue;
		page = alloc_page(GFP_NOFS | __GFP_ACCOUNT | __GFP_ZERO | __GFP_NOWARN |
				  __GFP_NORETRY);
		if (!page)
			return false;
		set_page_private(page, iol_chunk_pgoff(chunk) + i);
		WRITE_ONCE(chunk->pages[i], page);
		iol_count(IOL_PAGES_FILLED);
	}
	return true;
}

/* The chunk at a place in the window, with a reference, or NULL. */
struct iol_chunk *iol_chunk_get(unsigned long index)
{
	struct iol_chunk *chunk;

	rcu_read_lock();
	chunk = xa_load(&iol_chunks, index);
	if (chunk && !refcount_inc_not_zero(&chunk->refs))
		chunk = NULL;
	rcu_read_unlock();
	return chunk;
}

static void iol_chunk_free_rcu(struct rcu_head *rcu)
{
	struct iol_chunk *chunk = container_of(rcu, struct iol_chunk, rcu);

	kfree(chunk->sums);
	kfree(chunk);
}

void iol_chunk_put(struct iol_chunk *chunk)
{
	if (!refcount_dec_and_test(&chunk->refs))
		return;
	iol_pool_put(chunk->pool);
	call_rcu(&chunk->rcu, iol_chunk_free_rcu);
}

/**
 * iol_chunk_peek_page - whose page is this?
 * @page: any page that the caller holds
 * @nth:  out: which page of the chunk
 *
 * A page says where in the window it is, and the chunk there says whether that is true.
 *
 * Context: RCU read side, for as long as the result is used.
 */
struct iol_chunk *iol_chunk_peek_page(struct page *page, unsigned int *nth)
{
	unsigned long pgoff = page_private(page);
	struct iol_chunk *chunk;

	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "page looked up without protection");
	if (PageCompound(page) || pgoff >= IOL_WINDOW_PAGES)
		return NULL;
	chunk = xa_load(&iol_chunks, pgoff / IOL_CHUNK_PAGES);
	*nth = pgoff % IOL_CHUNK_PAGES;
	return chunk && READ_ONCE(chunk->pages[*nth]) == page ? chunk : NULL;
}

/* As iol_chunk_peek_page(), with a reference. */
struct iol_chunk *iol_chunk_get_page(struct page *page, unsigned int *nth)
{
	struct iol_chunk *chunk;

	rcu_read_lock();
	chunk = iol_chunk_peek_page(page, nth);
	if (chunk && !refcount_inc_not_zero(&chunk->refs))
		chunk = NULL;
	rcu_read_unlock();
	return chunk;
}

bool iol_chunks_empty(void)
{
	return xa_empty(&iol_chunks);
}
