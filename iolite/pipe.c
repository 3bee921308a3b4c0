// SPDX-License-Identifier: GPL-2.0
/*
 * Pipes: a slot holds a reference to a page of a buffer. An IOL_read takes the reference out, an
 * ordinary read(2) copies from the page, tee(2) and splice(2) share it; nobody can change it.
 */
#include <linux/bvec.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pipe_fs_i.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/splice.h>

#include "kmod/compat/memory.h"
#include "kmod/compat/pipe.h"
#include "cache.h"
#include "counter.h"
#include "io.h"

/* Ranges up to this long are copied and not looked at whether they could go by reference. */
#define IOL_CROSS_COPY		512

static struct iol_buf *iol_slot_buf(struct pipe_buffer *slot)
{
	return (struct iol_buf *)slot->private;
}

/* A slot keeps the module: its operations are ours. */
static void iol_slot_release(struct pipe_inode_info *pipe, struct pipe_buffer *slot)
{
	iol_buf_put(iol_slot_buf(slot));
	module_put(THIS_MODULE);
}

static bool iol_slot_get(struct pipe_inode_info *pipe, struct pipe_buffer *slot)
{
	iol_buf_get(iol_slot_buf(slot));
	__module_get(THIS_MODULE);
	return true;
}

/* No try_steal: the page is never anybody else's. */
static const struct pipe_buf_operations iol_slot_ops = {
	.release = iol_slot_release,
	.get = iol_slot_get,
};

/* Notification pipes have their own writers and are read by copy. */
bool iol_is_pipe(struct file *file)
{
	struct inode *inode = file_inode(file);

	return S_ISFIFO(inode->i_mode) && inode->i_pipe && file->private_data == inode->i_pipe &&
	       !pipe_has_watch_queue(inode->i_pipe);
}

static bool iol_pipe_nowait(struct iol_call *call)
{
	return call->nowait || (call->file->f_flags & O_NONBLOCK);
}

/*
 * The buffer that the rest of a slot begins in, with a reference, or NULL. Of slots that we did not
 * make only those are ours that came out of a UNIX socket: those hold what the other end wrote.
 */
static struct iol_buf *iol_slot_get_buf(struct iol_call *call, struct pipe_buffer *slot, u32 *off)
{
	struct page *page = flt_nth_page(slot->page, slot->offset >> PAGE_SHIFT);
	struct iol_buf *buf;

	if (slot->ops == &iol_slot_ops) {
		buf = iol_buf_get(iol_slot_buf(slot));
		*off = (page_private(page) - iol_buf_pgoff(buf)) << PAGE_SHIFT;
	} else {
		buf = call->final ? iol_buf_from_page(page, off) : NULL;
	}
	if (buf)
		*off += offset_in_page(slot->offset);
	return buf;
}

/* Bytes of a slot from @off in @buf on that are in this buffer: it may reach into others. */
static u32 iol_slot_run(struct pipe_buffer *slot, const struct iol_buf *buf, u32 off, u32 len)
{
	const struct page *page = flt_nth_page(slot->page, slot->offset >> PAGE_SHIFT);
	u32 run = PAGE_SIZE - offset_in_page(off);

	while (run < len && off + run < iol_buf_size(buf) && iol_buf_page(buf, off + run) == ++page)
		run += PAGE_SIZE;
	return min(run, len);
}

/* Asked for each slot, and those of one pipe are mostly of one pool. */
static bool iol_call_may_read(struct iol_call *call, const struct iol_pool *pool)
{
	if (call->readable != pool->id && iol_domain_may_read(call->domain, pool))
		call->readable = pool->id;
	return call->readable == pool->id;
}

/*
 * How much of a range may go by reference, from its beginning; 0: its first bytes, up to the end of
 * @page, must be copied, since other things are in the page, too.
 */
static u32 iol_run_by_reference(struct iol_call *call, const struct iol_buf *buf, u32 off, u32 len,
				u32 *part)
{
	u32 first = min_t(u32, len, PAGE_SIZE - offset_in_page(off));

	*part = first;
	if (iol_call_may_read(call, buf->chunk->pool))
		return len;
	if (first == PAGE_SIZE)
		return round_down(len, PAGE_SIZE);
	return first > IOL_CROSS_COPY && iol_buf_may_cross(buf, off, first) ? first : 0;
}

/* Move or copy some of up to @len bytes of a slot; how many, or 0 and the reason. */
static u32 iol_slot_take(struct iol_call *call, struct pipe_buffer *slot, u32 len, size_t left,
			 int *err)
{
	u32 off, run, part = len;
	struct iol_buf *buf;

	buf = iol_slot_get_buf(call, slot, &off);
	run = buf ? iol_run_by_reference(call, buf, off, iol_slot_run(slot, buf, off, len), &part) :
		    0;
	*err = run ? iol_call_take(call, buf, off, run) : -EXDEV;
	if (!*err) {
		iol_count_add(IOL_BYTES_BY_REFERENCE, run);
		return run;
	}
	if (buf)
		iol_buf_put(buf);
	if (run && !call->final)
		return 0;
	return iol_call_copy(call, slot->page, slot->offset, run ? run : part, left, err);
}

/**
 * iol_pipe_take - take what is in a pipe
 * @call: gets the data
 * @pipe: locked
 * @size: most bytes
 *
 * Return: bytes, 0: empty, or -errno when nothing could be taken.
 */
ssize_t iol_pipe_take(struct iol_call *call, struct pipe_inode_info *pipe, size_t size)
{
	size_t done = 0;
	int err = 0;

	while (done < size && !pipe_empty(pipe->head, pipe->tail)) {
		struct pipe_buffer *slot = &pipe->bufs[pipe->tail & (pipe->ring_size - 1)];
		bool packet = slot->flags & PIPE_BUF_FLAG_PACKET;
		u32 part = min_t(size_t, slot->len, size - done);

		err = pipe_buf_confirm(pipe, slot);
		if (!err && part)
			part = iol_slot_take(call, slot, part, size - done, &err);
		if (err && !part)
			break;
		slot->offset += part;
		slot->len -= part;
		done += part;
		if (!slot->len || packet) {
			pipe_buf_release(pipe, slot);
			pipe->tail++;
		}
		if (err || packet)
			break;
	}
	/* No room for another slice is a short read. */
	return done ? done : err;
}

/**
 * iol_pipe_bvec - what is in a pipe, as page ranges that stay there
 * @pipe: locked for as long as the result is used
 * @bvec: out
 * @room: of @bvec
 * @size: in: most bytes; out: bytes in @bvec
 *
 * Return: how many ranges, or -errno when what comes first cannot be had.
 */
int iol_pipe_bvec(struct pipe_inode_info *pipe, struct bio_vec *bvec, unsigned int room,
		  size_t *size)
{
	size_t left = *size;
	unsigned int at;
	int err = 0, n = 0;

	for (at = pipe->tail; at != pipe->head && n < (int)room && left; at++) {
		struct pipe_buffer *slot = &pipe->bufs[at & (pipe->ring_size - 1)];
		u32 part = min_t(size_t, slot->len, left);

		err = pipe_buf_confirm(pipe, slot);
		if (err)
			break;
		if (part)
			n = iol_bvec_add(bvec, n, slot->page, slot->offset, part);
		left -= part;
	}
	*size -= left;
	return n ? n : err;
}

/* Take so many bytes out of a locked pipe, for those who have them already. */
void iol_pipe_consume(struct pipe_inode_info *pipe, size_t bytes)
{
	struct iol_buf *buf = NULL;
	unsigned int refs = 0;

	while (!pipe_empty(pipe->head, pipe->tail)) {
		struct pipe_buffer *slot = &pipe->bufs[pipe->tail & (pipe->ring_size - 1)];
		u32 part = min_t(size_t, slot->len, bytes);

		slot->offset += part;
		slot->len -= part;
		bytes -= part;
		if (slot->len)
			break;
		pipe->tail++;
		if (slot->ops != &iol_slot_ops) {
			pipe_buf_release(pipe, slot);
			continue;
		}
		/* As pipe_buf_release(), but pages of one buffer let go of it together. */
		if (iol_slot_buf(slot) != buf) {
			iol_buf_put_many(buf, refs);
			buf = iol_slot_buf(slot);
			refs = 0;
		}
		refs++;
		slot->ops = NULL;
		module_put(THIS_MODULE);
	}
	iol_buf_put_many(buf, refs);
}

static bool iol_pipe_readable(struct pipe_inode_info *pipe)
{
	return !pipe_empty(READ_ONCE(pipe->head), READ_ONCE(pipe->tail)) ||
	       !READ_ONCE(pipe->writers);
}

static bool iol_pipe_writable(struct pipe_inode_info *pipe)
{
	return !pipe_full(READ_ONCE(pipe->head), READ_ONCE(pipe->tail),
			  READ_ONCE(pipe->max_usage)) ||
	       !READ_ONCE(pipe->readers);
}

/* Until there is something in it, or nobody left to write. */
int iol_pipe_wait(struct pipe_inode_info *pipe)
{
	return wait_event_interruptible(pipe->rd_wait, iol_pipe_readable(pipe));
}

/* For whoever waits for room in a pipe that is not full any more. */
void iol_pipe_wake_writers(struct pipe_inode_info *pipe, bool was_full)
{
	if (was_full)
		wake_up_interruptible_sync_poll(&pipe->wr_wait, EPOLLOUT | EPOLLWRNORM);
	kill_fasync(&pipe->fasync_writers, SIGIO, POLL_OUT);
}

ssize_t iol_pipe_read(struct iol_call *call)
{
	struct pipe_inode_info *pipe = call->file->private_data;
	bool was_full, writers;
	ssize_t ret;

	for (;;) {
		pipe_lock(pipe);
		was_full = pipe_full(pipe->head, pipe->tail, pipe->max_usage);
		ret = iol_pipe_take(call, pipe, call->size);
		writers = pipe->writers;
		pipe_unlock(pipe);
		if (ret || !writers)
			break;
		if (iol_pipe_nowait(call))
			return -EAGAIN;
		if (iol_pipe_wait(pipe))
			return -ERESTARTSYS;
	}
	iol_pipe_wake_writers(pipe, was_full);
	return ret;
}

/**
 * struct iol_cursor - place in a list that is being written
 * @vec:  slice
 * @done: bytes of it
 */
struct iol_cursor {
	const struct iol_vec *vec;
	u32 done;
};

static bool iol_pipe_has_slot(const struct pipe_inode_info *pipe)
{
	return !pipe_full(pipe->head, pipe->tail, pipe->max_usage);
}

/* One slot for the rest of the present page of the present slice; the reference is the caller's. */
static struct pipe_buffer *iol_slot_make(struct pipe_inode_info *pipe, struct iol_cursor *at)
{
	struct pipe_buffer *slot = &pipe->bufs[pipe->head++ & (pipe->ring_size - 1)];
	const struct iol_vec *vec = at->vec;
	u32 off = vec->off + at->done;

	slot->page = vec->buf ? iol_buf_page(vec->buf, off) : vec->page;
	slot->offset = offset_in_page(off);
	slot->len = min_t(u32, vec->len - at->done, PAGE_SIZE - offset_in_page(off));
	slot->flags = 0;
	slot->private = 0;
	at->done += slot->len;
	return slot;
}

/* Slots for the rest of the present slice, as far as some are free; bytes. */
static u32 iol_pipe_fill_vec(struct pipe_inode_info *pipe, struct iol_cursor *at)
{
	struct iol_buf *buf = at->vec->buf;
	u32 refs = 0, start = at->done;

	while (at->done < at->vec->len && iol_pipe_has_slot(pipe)) {
		struct pipe_buffer *slot = iol_slot_make(pipe, at);

		slot->ops = &iol_slot_ops;
		slot->private = (unsigned long)buf;
		__module_get(THIS_MODULE);
		refs++;
	}
	refcount_add(refs, &buf->refs);
	iol_count_add(IOL_BYTES_BY_REFERENCE, at->done - start);
	return at->done - start;
}

/* The same for data by value, which is never more than a page of it. */
static u32 iol_pipe_fill_page(struct pipe_inode_info *pipe, struct iol_cursor *at)
{
	struct pipe_buffer *slot = iol_slot_make(pipe, at);

	slot->ops = &nosteal_pipe_buf_ops;
	get_page(slot->page);
	return slot->len;
}

/* Fill the slots that are free; bytes, or -EPIPE. */
static ssize_t iol_pipe_fill(struct pipe_inode_info *pipe, struct iol_cursor *at, size_t left)
{
	size_t done = 0;

	if (!pipe->readers) {
		send_sig(SIGPIPE, current, 0);
		return -EPIPE;
	}
	while (done < left && iol_pipe_has_slot(pipe)) {
		done += at->vec->buf ? iol_pipe_fill_vec(pipe, at) : iol_pipe_fill_page(pipe, at);
		if (at->done == at->vec->len) {
			at->vec++;
			at->done = 0;
		}
	}
	return done;
}

/* Is there room for all of it at once? */
static bool iol_pipe_has_room(const struct pipe_inode_info *pipe, const struct iol_list *list)
{
	unsigned int slots = pipe_occupancy(pipe->head, pipe->tail);
	u32 i;

	for (i = 0; i < list->n && slots <= pipe->max_usage; i++)
		slots += DIV_ROUND_UP(offset_in_page(list->vec[i].off) + list->vec[i].len,
				      PAGE_SIZE);
	return slots <= pipe->max_usage;
}

/* Bytes that found room, or -EPIPE; @alone: all or nothing, not into the middle of another's. */
static ssize_t iol_pipe_try(struct iol_call *call, struct iol_cursor *at, size_t left, bool alone)
{
	struct pipe_inode_info *pipe = call->file->private_data;
	ssize_t ret = 0;
	bool was_empty;

	pipe_lock(pipe);
	was_empty = pipe_empty(pipe->head, pipe->tail);
	if (!alone || (iol_pipe_has_room(pipe, &call->list) && !iol_object_written(call->file)))
		ret = iol_pipe_fill(pipe, at, left);
	pipe_unlock(pipe);
	if (ret > 0) {
		if (was_empty || flt_compat_pipe_by_edges(pipe))
			wake_up_interruptible_sync_poll(&pipe->rd_wait, EPOLLIN | EPOLLRDNORM);
		kill_fasync(&pipe->fasync_readers, SIGIO, POLL_IN);
	}
	return ret;
}

static ssize_t iol_pipe_write_locked(struct iol_call *call, struct iol_cursor *at)
{
	struct pipe_inode_info *pipe = call->file->private_data;
	size_t done = 0;
	ssize_t ret;

	for (;;) {
		ret = iol_pipe_try(call, at, call->list.bytes - done, false);
		if (ret < 0)
			break;
		done += ret;
		if (done == call->list.bytes)
			break;
		ret = -EAGAIN;
		if (iol_pipe_nowait(call))
			break;
		ret = -ERESTARTSYS;
		if (wait_event_interruptible(pipe->wr_wait, iol_pipe_writable(pipe)))
			break;
	}
	return done ? done : ret;
}

ssize_t iol_pipe_write(struct iol_call *call)
{
	struct iol_cursor at = { .vec = call->list.vec };
	bool small = iol_list_is_small(&call->list, iol_cache_pool());
	struct iol_object *object;
	ssize_t ret;

	/* What fits is one write under the pipe's lock; who waits in the middle of his is known. */
	ret = small ? 0 : iol_pipe_try(call, &at, call->list.bytes, true);
	if (ret)
		return ret;
	object = iol_object_lock(call, iol_pipe_nowait(call) ? 0 : MAX_SCHEDULE_TIMEOUT);
	if (IS_ERR(object))
		return PTR_ERR(object);
	ret = small ? iol_write_copy(call) : iol_pipe_write_locked(call, &at);
	iol_object_unlock(object);
	return ret;
}
