/* SPDX-License-Identifier: GPL-2.0 */
/* Chunks: 64 KiB of the window and the pages under it. */
#ifndef IOL_CHUNK_H
#define IOL_CHUNK_H

#include <linux/bits.h>
#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/types.h>
#include <flotilla/iolite.h>

#define IOL_CHUNK_PAGES		(IOL_CHUNK_SIZE / PAGE_SIZE)
#define IOL_CHUNK_ORDER		(const_ilog2(IOL_CHUNK_PAGES))
/* 64 GiB; the mapping for filling lies behind the one for reading. */
#define IOL_WINDOW_CHUNKS	BIT(20)
#define IOL_WINDOW_PAGES	(IOL_WINDOW_CHUNKS * IOL_CHUNK_PAGES)
#define IOL_WINDOW_SIZE		(IOL_WINDOW_PAGES << PAGE_SHIFT)

struct iol_pool;
struct iol_buf;
struct iol_sums;

/**
 * struct iol_chunk - unit of the window's bookkeeping; belongs to one pool for all its life
 * @index:       place in the window, in chunks
 * @pool:        owner; the chunk holds a reference
 * @pages:       the memory; each page has one reference of ours. NULL: given back, in no buffer;
 *		 written under the pool's lock
 * @buf:         the buffer that a page belongs to, NULL when free; under the pool's lock
 * @busy:        pages in buffers, live or in limbo; under the pool's lock
 * @used:        pages that have been in a buffer; under the pool's lock
 * @read_mapped: some domain may have read PTEs; under the pool's lock
 * @dead:        on its way out: no PTE may be made; under the pool's lock
 * @sums:        checksums of contents, made when first needed; freed with the chunk
 * @node:        in the pool's list of chunks with or without room; under the pool's lock
 * @refs:        the pool's, and lookups under way
 *
 * Found by RCU lookup from page faults and by whoever meets one of its pages in a pipe or packet.
 */
struct iol_chunk {
	u32 index;
	struct iol_pool *pool;
	struct page *pages[IOL_CHUNK_PAGES];
	struct iol_buf *buf[IOL_CHUNK_PAGES];
	unsigned long busy;
	unsigned long used;
	bool read_mapped;
	bool dead;
	struct iol_sums *sums;
	struct list_head node;
	refcount_t refs;
	struct rcu_head rcu;
};

struct iol_chunk *iol_chunk_make(struct iol_pool *pool);
void iol_chunk_free(struct iol_chunk *chunk);
void iol_chunk_shed(struct iol_chunk *chunk);
bool iol_chunk_fill(struct iol_chunk *chunk, unsigned int first, unsigned int npages);
struct iol_chunk *iol_chunk_get(unsigned long index);
void iol_chunk_put(struct iol_chunk *chunk);
struct iol_chunk *iol_chunk_peek_page(struct page *page, unsigned int *nth);
struct iol_chunk *iol_chunk_get_page(struct page *page, unsigned int *nth);
bool iol_chunks_empty(void);

static inline pgoff_t iol_chunk_pgoff(const struct iol_chunk *chunk)
{
	return (pgoff_t)chunk->index * IOL_CHUNK_PAGES;
}

#endif
