/* SPDX-License-Identifier: GPL-2.0 */
/* Buffers: whole pages of a chunk, filled once, then immutable until the last user lets go. */
#ifndef IOL_BUFFER_H
#define IOL_BUFFER_H

#include "chunk.h"
#include "pool.h"

enum iol_buf_state {
	IOL_BUF_FILLING,	/* the producer may have write PTEs */
	IOL_BUF_SEALED,
};

/**
 * struct iol_buf - one use of some pages; a new use is a new struct
 * @chunk:       where; never changes
 * @first:       page of the chunk
 * @npages:      1 to 16
 * @used:        which of them had other contents before; never changes
 * @state:       under the pool's lock; once SEALED, only IOL_IOC_REOPEN changes it
 * @fill_mapped: the producer may have write PTEs; under the pool's lock
 * @read_mapped: a domain that may not read the pool may have read PTEs; under the pool's lock
 * @producer:    domain that fills it, 0: the kernel
 * @generation:  names this use among all
 * @refs:        domains that hold it, pipe slots, cache entries, calls under way; from 0 (limbo)
 *               it may come back, under the pool's lock, as long as a page is in flight
 * @node:        limbo; under the pool's lock
 */
struct iol_buf {
	struct iol_chunk *chunk;
	u8 first;
	u8 npages;
	u8 state;
	u16 used;
	bool fill_mapped;
	bool read_mapped;
	u64 producer;
	u64 generation;
	refcount_t refs;
	struct list_head node;
};

/**
 * struct iol_vec - a range of a buffer, or of a page that is not in the window
 * @buf:  with a reference; NULL: @page
 * @page: data that went by value, with a reference
 * @off:  from the start of @buf or @page
 * @len:  bytes
 */
struct iol_vec {
	struct iol_buf *buf;
	struct page *page;
	u32 off;
	u32 len;
};

/**
 * struct iol_list - a kernel's aggregate
 * @vec:   slices, in order
 * @few:   @vec while there are few of them: the caller's, not to be freed
 * @n:     how many
 * @max:   room
 * @most:  how far @max may grow
 * @bytes: sum of lengths
 */
struct iol_list {
	struct iol_vec *vec;
	struct iol_vec *few;
	u32 n;
	u32 max;
	u32 most;
	size_t bytes;
};

/* Slices of a call that need no allocation. */
#define IOL_VEC_FEW		16

struct iol_buf *iol_buf_alloc(struct iol_pool *pool, size_t size, u64 producer);
struct iol_buf *iol_buf_from_page(struct page *page, u32 *off);
void iol_buf_put(struct iol_buf *buf);
void iol_buf_put_many(struct iol_buf *buf, unsigned int n);
int iol_buf_seal(struct iol_buf *buf);
int iol_buf_reopen(struct iol_buf *buf, u64 producer);
void iol_buf_trim(struct iol_buf *buf, size_t len);
bool iol_buf_may_cross(const struct iol_buf *buf, u32 off, u32 len);
void iol_buf_copy_in(struct iol_buf *buf, u32 off, struct page *page, u32 page_off, u32 len);
bool iol_buf_in_flight(const struct iol_buf *buf);

void iol_list_init(struct iol_list *list, struct iol_vec *few, u32 most);
int iol_list_reserve(struct iol_list *list, u32 room);
void iol_list_put(struct iol_list *list);
void iol_list_drop(struct iol_list *list);
bool iol_list_extend(struct iol_list *list, struct iol_buf *buf, u32 off, u32 len);
bool iol_list_append(struct iol_list *list, struct iol_buf *buf, u32 off, u32 len);

static inline struct iol_buf *iol_buf_get(struct iol_buf *buf)
{
	refcount_inc(&buf->refs);
	return buf;
}

static inline size_t iol_buf_size(const struct iol_buf *buf)
{
	return (size_t)buf->npages << PAGE_SHIFT;
}

static inline pgoff_t iol_buf_pgoff(const struct iol_buf *buf)
{
	return iol_chunk_pgoff(buf->chunk) + buf->first;
}

static inline struct page *iol_buf_page(const struct iol_buf *buf, u32 off)
{
	return buf->chunk->pages[buf->first + (off >> PAGE_SHIFT)];
}

int iol_buffers_init(void);
void iol_buffers_exit(void);
void iol_buf_struct_free(struct iol_buf *buf);

#endif
