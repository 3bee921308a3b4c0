// SPDX-License-Identifier: GPL-2.0
/* Which kind of descriptor it is, and the way for those that know nothing of references: a copy. */
#include <linux/bvec.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/fsnotify.h>
#include <linux/mm.h>
#include <linux/net.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include "counter.h"
#include "io.h"
#include "trace.h"

/**
 * iol_bvec_add - add a part of a page to page ranges
 * @bvec: has room for one more
 * @n:    ranges in it
 * @page: kept by whoever keeps the others
 * @off:  start in the page
 * @len:  bytes
 *
 * What lies behind the last range in memory makes that longer: TCP takes up to eight pages of
 * a range at a time. The pages of a chunk lie in a row unless memory was short.
 *
 * Return: ranges now.
 */
unsigned int iol_bvec_add(struct bio_vec *bvec, unsigned int n, struct page *page, u32 off,
			  u32 len)
{
	struct bio_vec *last = n ? &bvec[n - 1] : NULL;
	size_t end = last ? (size_t)last->bv_offset + last->bv_len : 0;

	if (last && off == offset_in_page(end) && page == last->bv_page + (end >> PAGE_SHIFT) &&
	    last->bv_len + len >= len) {
		last->bv_len += len;
		return n;
	}
	bvec_set_page(&bvec[n], page, len, off);
	return n + 1;
}

/* Bytes of a range that lie in a row in memory. */
static u32 iol_buf_run(const struct iol_buf *buf, u32 off, u32 len)
{
	const struct page *page = iol_buf_page(buf, off);
	u32 run = PAGE_SIZE - offset_in_page(off);

	while (run < len && iol_buf_page(buf, off + run) == ++page)
		run += PAGE_SIZE;
	return min(run, len);
}

/**
 * iol_list_bvec - a list as page ranges
 * @list: stays referenced by the caller for as long as the result is used
 * @few:  the caller's, IOL_BVEC_FEW of them, or NULL
 * @n:    out: how many
 *
 * Return: an array for iol_bvec_put(), or NULL.
 */
struct bio_vec *iol_list_bvec(const struct iol_list *list, struct bio_vec *few, unsigned int *n)
{
	unsigned int most = list->bytes / PAGE_SIZE + 2 * list->n;
	struct bio_vec *bvec = few;
	u32 i;

	if (!few || most > IOL_BVEC_FEW)
		bvec = kvmalloc_array(most, sizeof(*bvec), GFP_KERNEL_ACCOUNT);

	*n = 0;
	if (!bvec)
		return NULL;
	for (i = 0; i < list->n; i++) {
		const struct iol_vec *vec = &list->vec[i];
		u32 off = vec->off;
		u32 left = vec->len;

		while (left) {
			u32 part = vec->buf ? iol_buf_run(vec->buf, off, left) : left;
			struct page *page = vec->buf ? iol_buf_page(vec->buf, off) : vec->page;

			*n = iol_bvec_add(bvec, *n, page, offset_in_page(off), part);
			off += part;
			left -= part;
		}
	}
	return bvec;
}

/**
 * iol_list_is_small - would these bytes keep far more memory than they are?
 * @list: data on its way out
 * @pool: whose buffers count: the file cache's, which are in nobody's limit
 *
 * A reference to one page keeps its whole buffer, of which who receives is charged the bytes. Less
 * than a quarter of what it would keep is copied, so that no socket keeps more than four times its
 * limit. A program's own buffers are charged to its memory cgroup.
 */
bool iol_list_is_small(const struct iol_list *list, const struct iol_pool *pool)
{
	const struct iol_buf *last = NULL;
	size_t kept = 0;
	u32 i;

	for (i = 0; i < list->n; i++) {
		const struct iol_buf *buf = list->vec[i].buf;

		/* One page is what sendfile() keeps as well. */
		if (!buf || buf == last || buf->npages == 1)
			continue;
		last = buf;
		if (buf->chunk->pool == pool)
			kept += iol_buf_size(buf);
	}
	return list->bytes < kept / IOL_KEEP_MOST;
}

void iol_bvec_put(struct bio_vec *bvec, struct bio_vec *few)
{
	if (bvec != few)
		kvfree(bvec);
}

/**
 * iol_call_take - add data by reference to what was read
 * @call: has the buffer then; its domain, when the call has succeeded
 * @buf:  consumes a reference if it succeeds
 * @off:  start in the buffer
 * @len:  bytes; what else is in their pages the caller is given, too, or it is zero
 *
 * Before the data is consumed, so that a quota never costs data.
 *
 * Return: 0, -ENOSPC: no room for another slice; -ENOMEM, -ESHUTDOWN.
 */
int iol_call_take(struct iol_call *call, struct iol_buf *buf, u32 off, u32 len)
{
	int err;

	/* For the slice that it makes longer the domain has the buffer already. */
	if (iol_list_extend(&call->list, buf, off, len))
		return 0;
	err = call->inside ? 0 : iol_domain_pend(call->domain, buf);
	if (err)
		return err;
	if (iol_list_append(&call->list, buf, off, len))
		return 0;
	if (!call->inside)
		iol_domain_cancel(call->domain, buf);
	return -ENOSPC;
}

/* Done with the present copy buffer, if any: what was not filled goes back. */
void iol_call_copy_end(struct iol_call *call)
{
	if (!call->copy)
		return;
	if (call->copied && call->inside)
		iol_buf_trim(call->copy, call->copied);
	else if (call->copied)
		iol_domain_trim(call->domain, call->copy, call->copied);
	iol_buf_put(call->copy);
	call->copy = NULL;
	call->copied = 0;
}

/**
 * iol_call_copy_buf - have an empty buffer for data that must be copied
 * @call: gets it as @call->copy
 * @size: bytes that are expected
 */
int iol_call_copy_buf(struct iol_call *call, size_t size)
{
	struct iol_buf *buf;

	iol_call_copy_end(call);
	buf = iol_buf_alloc(call->pool, min_t(size_t, size, IOL_CHUNK_SIZE), 0);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	call->copy = buf;
	return 0;
}

/**
 * iol_call_copy - add data by copy to what was read
 * @call: @call->copy is filled first, and replaced when it is full
 * @page: where the data is now
 * @off:  start in the page
 * @len:  bytes
 * @left: bytes that may follow, these included
 * @err:  out: why not all of it, 0 if all
 *
 * Return: bytes added.
 */
u32 iol_call_copy(struct iol_call *call, struct page *page, u32 off, u32 len, size_t left,
		  int *err)
{
	u32 done = 0;

	*err = 0;
	while (done < len && !*err) {
		u32 part;

		if (!call->copy || call->copied == iol_buf_size(call->copy)) {
			*err = iol_call_copy_buf(call, left - done);
			continue;
		}
		part = min_t(u32, len - done, iol_buf_size(call->copy) - call->copied);
		iol_buf_copy_in(call->copy, call->copied, page, off + done, part);
		*err = iol_call_take(call, iol_buf_get(call->copy), call->copied, part);
		if (*err) {
			iol_buf_put(call->copy);
			break;
		}
		call->copied += part;
		done += part;
	}
	iol_count_add(IOL_BYTES_COPIED_RECEIVE, done);
	return done;
}

/* A kiocb of the caller's position; the file's own is taken under its lock by whoever calls. */
void iol_kiocb_init(struct kiocb *iocb, struct iol_call *call, bool write)
{
	init_sync_kiocb(iocb, call->file);
	/* Buffered writes refuse it; for write(2) O_NONBLOCK means nothing there either. */
	if (call->nowait && !(write && S_ISREG(file_inode(call->file)->i_mode)))
		iocb->ki_flags |= IOCB_NOWAIT;
	if (call->file->f_flags & O_APPEND)
		iocb->ki_flags |= IOCB_APPEND;
	iocb->ki_pos = call->position == IOL_POSITION_FILE ? call->file->f_pos : call->position;
}

/**
 * iol_verify - what read(2) and write(2) ask before they begin
 * @call: at its position
 * @rw:   READ or WRITE
 * @len:  bytes
 *
 * Of security modules and, when it reads, of fanotify's watchers, who may take their time. Once for
 * each call, whether the data is in the cache or not.
 *
 * Return: 0 or -errno.
 */
int iol_verify(struct iol_call *call, int rw, size_t len)
{
	loff_t pos = call->position == IOL_POSITION_FILE ? call->file->f_pos : call->position;

	return rw_verify_area(rw, call->file, call->file->f_mode & FMODE_STREAM ? NULL : &pos, len);
}

/* For a call that was verified. */
ssize_t iol_iter_read(struct iol_call *call, struct kiocb *iocb, struct iov_iter *iter)
{
	if (!(call->file->f_mode & FMODE_CAN_READ))
		return -EINVAL;
	return call->file->f_op->read_iter(iocb, iter);
}

/**
 * iol_read_copy - read anything into a new buffer
 * @call: at most one buffer's worth is read
 */
ssize_t iol_read_copy(struct iol_call *call)
{
	size_t size = min_t(size_t, call->size, IOL_CHUNK_SIZE);
	struct bio_vec bvec[IOL_CHUNK_PAGES];
	struct iol_list *list = &call->list;
	struct iov_iter iter;
	struct iol_buf *buf;
	struct kiocb iocb;
	unsigned int i;
	ssize_t ret;
	int err;

	/* Only the caller itself can give such files an address to read to. */
	if (!call->file->f_op->read_iter)
		return -EOPNOTSUPP;
	err = iol_call_copy_buf(call, size);
	if (err)
		return err;
	buf = call->copy;
	err = iol_call_take(call, iol_buf_get(buf), 0, size);
	if (err) {
		iol_buf_put(buf);
		return err;
	}
	for (i = 0; i < buf->npages; i++)
		bvec_set_page(&bvec[i], iol_buf_page(buf, i << PAGE_SHIFT), PAGE_SIZE, 0);
	iov_iter_bvec(&iter, ITER_DEST, bvec, buf->npages, size);
	iol_kiocb_init(&iocb, call, false);
	ret = iol_iter_read(call, &iocb, &iter);
	if (ret <= 0) {
		if (!call->inside)
			iol_domain_cancel(call->domain, buf);
		iol_list_put(list);
		return ret;
	}
	if (call->position == IOL_POSITION_FILE && (call->file->f_mode & FMODE_ATOMIC_POS))
		call->file->f_pos = iocb.ki_pos;
	list->vec[list->n - 1].len = ret;
	list->bytes -= size - ret;
	call->copied = ret;
	iol_count_add(IOL_BYTES_COPIED_RECEIVE, ret);
	return ret;
}

/* The target copies; our side has nothing to copy. */
ssize_t iol_write_copy(struct iol_call *call)
{
	struct bio_vec *bvec;
	struct iov_iter iter;
	struct kiocb iocb;
	unsigned int n;
	ssize_t ret;

	if (!call->file->f_op->write_iter)
		return -EOPNOTSUPP;
	bvec = iol_list_bvec(&call->list, NULL, &n);
	if (!bvec)
		return -ENOMEM;
	iov_iter_bvec(&iter, ITER_SOURCE, bvec, n, call->list.bytes);
	iol_kiocb_init(&iocb, call, true);
	ret = vfs_iocb_iter_write(call->file, &iocb, &iter);
	if (ret > 0) {
		if (call->position == IOL_POSITION_FILE && (call->file->f_mode & FMODE_ATOMIC_POS))
			call->file->f_pos = iocb.ki_pos;
		iol_count_add(IOL_BYTES_COPIED_SEND, ret);
	}
	iol_bvec_put(bvec, NULL);
	return ret;
}

static bool iol_position_ok(struct iol_call *call)
{
	if (call->position == IOL_POSITION_FILE)
		return true;
	return call->position >= 0 && (call->file->f_mode & FMODE_PREAD);
}

static ssize_t iol_read_any(struct iol_call *call)
{
	struct socket *sock = sock_from_file(call->file);

	if (sock)
		return iol_socket_read(call, sock);
	if (iol_is_pipe(call->file))
		return iol_pipe_read(call);
	if (iol_is_cacheable(call->file))
		return iol_file_read(call);
	return iol_read_copy(call);
}

static ssize_t iol_write_stream(struct iol_call *call, struct socket *sock)
{
	ssize_t ret = iol_verify(call, WRITE, call->list.bytes);

	if (!ret)
		ret = sock ? iol_socket_write(call, sock) : iol_pipe_write(call);
	if (ret > 0)
		fsnotify_modify(call->file);
	return ret;
}

/* For those that are not streams vfs_iocb_iter_write() verifies and notifies. */
static ssize_t iol_write_any(struct iol_call *call)
{
	struct socket *sock = sock_from_file(call->file);

	if (sock || iol_is_pipe(call->file))
		return iol_write_stream(call, sock);
	if (iol_is_cacheable(call->file))
		return iol_file_write(call);
	return iol_write_copy(call);
}

/* As fdget_pos(): calls that move a file's position do so one at a time. */
static bool iol_position_lock(struct iol_call *call)
{
	if (call->position != IOL_POSITION_FILE || !(call->file->f_mode & FMODE_ATOMIC_POS))
		return false;
	mutex_lock(&call->file->f_pos_lock);
	return true;
}

/**
 * iol_read - read from a descriptor of any kind
 * @call: has pended what comes back, once for each slice
 *
 * Return: bytes, 0 at the end, or -errno.
 */
ssize_t iol_read(struct iol_call *call)
{
	bool locked;
	ssize_t ret;

	if (!(call->file->f_mode & FMODE_READ))
		return -EBADF;
	if (!iol_position_ok(call))
		return call->position < 0 ? -EINVAL : -ESPIPE;
	if (!call->size)
		return 0;
	locked = iol_position_lock(call);
	ret = iol_verify(call, READ, call->size);
	if (!ret)
		ret = iol_read_any(call);
	iol_call_copy_end(call);
	if (ret > 0)
		fsnotify_access(call->file);
	if (locked)
		mutex_unlock(&call->file->f_pos_lock);
	trace_iol_io(call->domain->id, false, file_inode(call->file)->i_mode, ret);
	return ret;
}

/**
 * iol_write - write to a descriptor of any kind
 * @call: the list stays the caller's
 *
 * Return: bytes, perhaps fewer than the list has, or -errno.
 */
ssize_t iol_write(struct iol_call *call)
{
	bool locked;
	ssize_t ret;

	if (!(call->file->f_mode & FMODE_WRITE))
		return -EBADF;
	if (!iol_position_ok(call))
		return call->position < 0 ? -EINVAL : -ESPIPE;
	if (!call->list.bytes)
		return 0;
	locked = iol_position_lock(call);
	ret = iol_write_any(call);
	if (locked)
		mutex_unlock(&call->file->f_pos_lock);
	trace_iol_io(call->domain->id, true, file_inode(call->file)->i_mode, ret);
	return ret;
}
