// SPDX-License-Identifier: GPL-2.0
/* Buffers: allocate, seal, let go; and lists of their slices. */
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "kmod/compat/memory.h"
#include "buffer.h"
#include "counter.h"
#include "csum.h"
#include "trace.h"
#include "window.h"

static struct kmem_cache *iol_buf_cache;

void iol_buf_struct_free(struct iol_buf *buf)
{
	kmem_cache_free(iol_buf_cache, buf);
}

/* What was in the memory before goes: whoever is given a part of a page may see all of it. */
static void iol_buf_clean(struct iol_buf *buf)
{
	unsigned long used = buf->used;
	unsigned int i;

	for_each_set_bit(i, &used, buf->npages)
		clear_highpage(iol_buf_page(buf, i << PAGE_SHIFT));
}

/**
 * iol_buf_alloc - a buffer to fill
 * @pool:     where
 * @size:     1 to 65536 bytes; made whole pages
 * @producer: domain that may store into it, which finds it empty; 0: the kernel, which fills what
 *            it gives
 *
 * Return: the buffer with one reference, or -ENOMEM, -ENOSPC, -ESTALE.
 */
struct iol_buf *iol_buf_alloc(struct iol_pool *pool, size_t size, u64 producer)
{
	struct iol_buf *buf = kmem_cache_zalloc(iol_buf_cache, GFP_KERNEL_ACCOUNT);
	int err;

	if (!buf)
		return ERR_PTR(-ENOMEM);
	mutex_lock(&pool->lock);
	err = iol_pool_carve(pool, buf, DIV_ROUND_UP(size, PAGE_SIZE));
	if (!err) {
		buf->state = producer ? IOL_BUF_FILLING : IOL_BUF_SEALED;
		buf->producer = producer;
		buf->generation = iol_id_next();
		refcount_set(&buf->refs, 1);
		INIT_LIST_HEAD(&buf->node);
		iol_count(IOL_BUFFERS_MADE);
		trace_iol_alloc(pool->id, iol_buf_pgoff(buf), buf->npages, buf->generation);
	}
	mutex_unlock(&pool->lock);
	if (err) {
		iol_buf_struct_free(buf);
		return ERR_PTR(err);
	}
	if (producer)
		iol_buf_clean(buf);
	return buf;
}

/**
 * iol_buf_may_cross - may one who is given this range see all of its pages?
 * @buf: sealed
 * @off: start of the range
 * @len: bytes
 *
 * Return: whether there are only zeroes in the pages where the range begins and ends.
 */
bool iol_buf_may_cross(const struct iol_buf *buf, u32 off, u32 len)
{
	u32 before = offset_in_page(off), end = off + len, after = PAGE_ALIGN(end) - end;
	bool zero = true;
	void *at;

	if (before) {
		at = kmap_local_page(iol_buf_page(buf, off));
		zero = !memchr_inv(at, 0, before);
		kunmap_local(at);
	}
	if (after && zero) {
		at = kmap_local_page(iol_buf_page(buf, end));
		zero = !memchr_inv(at + PAGE_SIZE - after, 0, after);
		kunmap_local(at);
	}
	return zero;
}

/* Does anyone but us refer to the memory: a packet, a device, a reader's pipe? */
bool iol_buf_in_flight(const struct iol_buf *buf)
{
	unsigned int i;

	for (i = 0; i < buf->npages; i++)
		if (page_count(buf->chunk->pages[buf->first + i]) != 1)
			return true;
	return false;
}

static void iol_buf_revoke_write(struct iol_buf *buf)
{
	lockdep_assert_held(&buf->chunk->pool->lock);
	if (!buf->fill_mapped)
		return;
	buf->fill_mapped = false;
	iol_window_zap(IOL_WINDOW_PAGES + iol_buf_pgoff(buf), buf->npages);
	iol_count(IOL_WRITE_REVOKES);
}

/* What comes next here must not show through a mapping that was for these contents alone. */
static void iol_buf_revoke_read(struct iol_buf *buf)
{
	lockdep_assert_held(&buf->chunk->pool->lock);
	if (!buf->read_mapped)
		return;
	buf->read_mapped = false;
	iol_window_zap(iol_buf_pgoff(buf), buf->npages);
	iol_count(IOL_ZAPS);
}

/**
 * iol_buf_put - let go of a buffer
 * @buf: its memory goes back to the pool, unless a packet still reads it: then later
 *
 * Context: may sleep; no pool's lock.
 */
void iol_buf_put(struct iol_buf *buf)
{
	struct iol_pool *pool = buf->chunk->pool;
	LIST_HEAD(dead);

	if (!refcount_dec_and_mutex_lock(&buf->refs, &pool->lock))
		return;
	/* The chunk, and with it the pool, may go at the end of this. */
	iol_pool_get(pool);
	iol_buf_revoke_write(buf);
	iol_buf_revoke_read(buf);
	if (iol_buf_in_flight(buf))
		iol_pool_limbo_add(buf);
	else
		iol_pool_uncarve(buf, &dead);
	mutex_unlock(&pool->lock);
	iol_pool_free_chunks(&dead);
	iol_pool_put(pool);
}

/**
 * iol_buf_put_many - let go of several references at once
 * @buf: NULL when @n is 0
 * @n:   references of the caller's
 *
 * Context: as iol_buf_put().
 */
void iol_buf_put_many(struct iol_buf *buf, unsigned int n)
{
	if (!n)
		return;
	/* One is left for iol_buf_put(), so this cannot be the last. */
	if (n > 1)
		WARN_ON_ONCE(refcount_sub_and_test(n - 1, &buf->refs));
	iol_buf_put(buf);
}

/**
 * iol_buf_from_page - the buffer that a page in a pipe or packet belongs to
 * @page: any page; the caller holds a reference that came with the data
 * @off:  out: of the page in the buffer
 *
 * The page was in flight since it was sent, so the buffer cannot have been used anew; one that
 * everybody else let go of comes back from limbo.
 *
 * Return: the buffer with a reference, or NULL: not ours, or its pool is gone.
 */
struct iol_buf *iol_buf_from_page(struct page *page, u32 *off)
{
	struct iol_chunk *chunk;
	struct iol_buf *buf;
	unsigned int nth;

	chunk = iol_chunk_get_page(page, &nth);
	if (!chunk)
		return NULL;
	mutex_lock(&chunk->pool->lock);
	buf = chunk->dead ? NULL : chunk->buf[nth];
	if (buf && buf->state != IOL_BUF_SEALED)
		buf = NULL;
	if (buf && !refcount_inc_not_zero(&buf->refs)) {
		iol_pool_limbo_del(buf);
		refcount_set(&buf->refs, 1);
	}
	mutex_unlock(&chunk->pool->lock);
	if (buf)
		*off = (nth - buf->first) << PAGE_SHIFT;
	iol_chunk_put(chunk);
	return buf;
}

/**
 * iol_buf_seal - from here on the contents never change
 * @buf: held by the caller
 *
 * The fault handler makes write PTEs under the same lock and only while FILLING, so when the zap
 * returns, no CPU can store any more.
 *
 * Return: 1 when it was sealed by this call, 0 when it was before.
 */
int iol_buf_seal(struct iol_buf *buf)
{
	struct iol_pool *pool = buf->chunk->pool;

	/* No way back without the only reference, which the caller would have to give up. */
	if (READ_ONCE(buf->state) == IOL_BUF_SEALED)
		return 0;
	mutex_lock(&pool->lock);
	if (buf->state == IOL_BUF_SEALED) {
		mutex_unlock(&pool->lock);
		return 0;
	}
	WRITE_ONCE(buf->state, IOL_BUF_SEALED);
	iol_buf_revoke_write(buf);
	mutex_unlock(&pool->lock);
	iol_count(IOL_SEALS);
	trace_iol_seal(pool->id, iol_buf_pgoff(buf), buf->npages, buf->generation);
	return 1;
}

/**
 * iol_buf_reopen - fill a sealed buffer again
 * @buf:      the caller has one reference
 * @producer: domain; must own the pool
 *
 * Contents may change, so the name does.
 *
 * Return: 0, or -EBUSY when anyone else has a reference or a page is in flight.
 */
int iol_buf_reopen(struct iol_buf *buf, u64 producer)
{
	struct iol_pool *pool = buf->chunk->pool;
	int err = -EBUSY;

	mutex_lock(&pool->lock);
	if (refcount_read(&buf->refs) == 1 && !iol_buf_in_flight(buf)) {
		iol_buf_revoke_read(buf);
		iol_sums_forget(buf->chunk, buf->first, buf->npages);
		buf->generation = iol_id_next();
		buf->producer = producer;
		WRITE_ONCE(buf->state, IOL_BUF_FILLING);
		iol_count(IOL_BUFFERS_REOPENED);
		err = 0;
	}
	mutex_unlock(&pool->lock);
	return err;
}

/**
 * iol_buf_trim - keep only what was filled
 * @buf: fresh: nobody else has seen it
 * @len: bytes to keep, at least 1
 */
void iol_buf_trim(struct iol_buf *buf, size_t len)
{
	struct iol_pool *pool = buf->chunk->pool;

	mutex_lock(&pool->lock);
	iol_pool_shorten(buf, DIV_ROUND_UP(len, PAGE_SIZE));
	mutex_unlock(&pool->lock);
}

/* For a buffer that the kernel fills. */
void iol_buf_copy_in(struct iol_buf *buf, u32 off, struct page *page, u32 page_off, u32 len)
{
	while (len) {
		u32 to = offset_in_page(off);
		u32 from = offset_in_page(page_off);
		u32 part = min3(len, (u32)PAGE_SIZE - to, (u32)PAGE_SIZE - from);

		memcpy_page(iol_buf_page(buf, off), to,
			    flt_nth_page(page, page_off / PAGE_SIZE), from, part);
		page_off += part;
		off += part;
		len -= part;
	}
}

/**
 * iol_list_init - an empty list
 * @list: out
 * @few:  room for IOL_VEC_FEW slices that lives as long as the list
 * @most: slices that it may have
 */
void iol_list_init(struct iol_list *list, struct iol_vec *few, u32 most)
{
	*list = (struct iol_list){
		.vec = few,
		.few = few,
		.max = min_t(u32, most, IOL_VEC_FEW),
		.most = most,
	};
}

/**
 * iol_list_reserve - have room
 * @list: grows to all it may have when it must grow
 * @room: slices
 *
 * Return: 0, -EMSGSIZE: more than it may have; -ENOMEM.
 */
int iol_list_reserve(struct iol_list *list, u32 room)
{
	struct iol_vec *vec;

	if (room <= list->max)
		return 0;
	if (room > list->most)
		return -EMSGSIZE;
	vec = kvmalloc_array(list->most, sizeof(*vec), GFP_KERNEL_ACCOUNT);
	if (!vec)
		return -ENOMEM;
	memcpy(vec, list->vec, list->n * sizeof(*vec));
	if (list->vec != list->few)
		kvfree(list->vec);
	list->vec = vec;
	list->max = list->most;
	return 0;
}

/* Let go of what a list has; its room stays. */
void iol_list_put(struct iol_list *list)
{
	u32 i;

	for (i = 0; i < list->n; i++) {
		if (list->vec[i].buf)
			iol_buf_put(list->vec[i].buf);
		else
			put_page(list->vec[i].page);
	}
	list->n = 0;
	list->bytes = 0;
}

void iol_list_drop(struct iol_list *list)
{
	iol_list_put(list);
	if (list->vec != list->few)
		kvfree(list->vec);
	list->vec = NULL;
}

/**
 * iol_list_extend - make the last range longer
 * @list: where
 * @buf:  consumes a reference if it did
 * @off:  start in the buffer
 * @len:  bytes
 *
 * Return: false when the range is not behind the last one.
 */
bool iol_list_extend(struct iol_list *list, struct iol_buf *buf, u32 off, u32 len)
{
	struct iol_vec *last = list->n ? &list->vec[list->n - 1] : NULL;

	if (!last || last->buf != buf || last->off + last->len != off)
		return false;
	last->len += len;
	list->bytes += len;
	/* The list's own reference remains. */
	refcount_dec(&buf->refs);
	return true;
}

/**
 * iol_list_append - add a range of a buffer
 * @list: where
 * @buf:  consumes a reference if added
 * @off:  start in the buffer
 * @len:  bytes
 *
 * Return: false when the list is full; the reference stays the caller's.
 */
bool iol_list_append(struct iol_list *list, struct iol_buf *buf, u32 off, u32 len)
{
	if (iol_list_extend(list, buf, off, len))
		return true;
	if (iol_list_reserve(list, list->n + 1))
		return false;
	list->vec[list->n++] = (struct iol_vec){ .buf = buf, .off = off, .len = len };
	list->bytes += len;
	return true;
}

int iol_buffers_init(void)
{
	iol_buf_cache = KMEM_CACHE(iol_buf, 0);
	return iol_buf_cache ? 0 : -ENOMEM;
}

void iol_buffers_exit(void)
{
	kmem_cache_destroy(iol_buf_cache);
}
