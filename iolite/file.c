// SPDX-License-Identifier: GPL-2.0
/*
 * Files: read from and written to our cache. What is not there is read from the disk straight into
 * buffers, several at a time for one who reads on and on.
 */
#include <linux/bvec.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/shmem_fs.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include "counter.h"
#include "file.h"

/* Most chunks that are read at once, and how far ahead of the kernel's own reading ahead. */
#define IOL_RUN_CHUNKS		16
#define IOL_RUN_AHEAD		8

/**
 * struct iol_run - chunks that were read at once
 * @start: in the file, of a chunk
 * @len:   bytes
 * @n:     buffers, a reference each
 * @buf:   each a chunk, but for the last
 */
struct iol_run {
	u64 start;
	u32 len;
	unsigned int n;
	struct iol_buf *buf[IOL_RUN_CHUNKS];
};

/*
 * File systems whose files only this machine changes, and whose ctime says so: none that several
 * machines mount, that a program serves (fuseblk), or whose ctime is what utimes(2) says (vfat). A
 * file in memory must be one that is opened by its name, so that writers are counted and their end
 * is told: not memfd_create(2)'s, which may also be written as a udmabuf.
 */
static bool iol_sb_is_local(const struct super_block *sb)
{
	switch (sb->s_magic) {
	case TMPFS_MAGIC:
		return !(sb->s_flags & SB_NOUSER);
	case EXT4_SUPER_MAGIC:
	case XFS_SUPER_MAGIC:
	case ISOFS_SUPER_MAGIC:
	case SQUASHFS_MAGIC:
	case EROFS_SUPER_MAGIC_V1:
		return sb->s_bdev;
	default:
		return false;
	}
}

/* Elsewhere files change without our being told. */
bool iol_is_cacheable(struct file *file)
{
	struct inode *inode = file_inode(file);

	return S_ISREG(inode->i_mode) && !IS_DAX(inode) && iol_sb_is_local(inode->i_sb) &&
	       !(file->f_flags & O_DIRECT) && file->f_op->read_iter;
}

/* Cache what was read, unless the file has changed since the call looked. */
static void iol_file_keep(struct iol_call *call, struct iol_file *file, const struct iol_view *view,
			  u64 offset, struct iol_buf *buf, u32 len)
{
	struct iol_manager *manager = READ_ONCE(call->domain->manager);

	mutex_lock(&file->fresh);
	if (iol_file_unchanged(file, file_inode(call->file), view) &&
	    iol_cache_insert(&file->extents, manager, offset, buf, 0, len) == -EEXIST &&
	    /* Parts, which writes have left: the whole is better. */
	    !iol_cache_remove(&file->extents, offset, len))
		iol_cache_insert(&file->extents, manager, offset, buf, 0, len);
	mutex_unlock(&file->fresh);
}

/* From the disk, if the page cache has nothing of the file. */
static bool iol_file_is_direct(const struct file *file)
{
	return (file->f_mode & FMODE_CAN_ODIRECT) && !file->f_mapping->nrpages &&
	       !shmem_mapping(file->f_mapping);
}

static u32 iol_run_part(u32 bytes, unsigned int nth)
{
	return min_t(u32, bytes - nth * IOL_CHUNK_SIZE, IOL_CHUNK_SIZE);
}

/*
 * How much to read at @start. What is asked for; and who goes on where the last run ended gets
 * twice as much as that, up to some times what the device's read_ahead_kb says: nothing else is
 * read while he looks at it. But nothing that is cached.
 */
static u32 iol_run_bytes(struct iol_call *call, struct iol_file *file, u64 start, u64 end)
{
	struct file_ra_state *ra = &call->file->f_ra;
	pgoff_t index = start >> PAGE_SHIFT;
	u64 most = (u64)READ_ONCE(ra->ra_pages) * IOL_RUN_AHEAD << PAGE_SHIFT;
	u64 bytes = end - start, last = (u64)READ_ONCE(ra->size) << PAGE_SHIFT;

	if (index && index == READ_ONCE(ra->start) + READ_ONCE(ra->size) &&
	    !(call->file->f_mode & FMODE_RANDOM))
		bytes = max(bytes, min(2 * last, most));
	bytes = clamp_t(u64, round_up(bytes, IOL_CHUNK_SIZE), IOL_CHUNK_SIZE,
			IOL_RUN_CHUNKS * IOL_CHUNK_SIZE);
	end = round_down(iol_cache_next(&file->extents, start + IOL_CHUNK_SIZE), IOL_CHUNK_SIZE);
	bytes = min(bytes, max_t(u64, end, start + IOL_CHUNK_SIZE) - start);
	WRITE_ONCE(ra->start, index);
	WRITE_ONCE(ra->size, bytes >> PAGE_SHIFT);
	return bytes;
}

static void iol_run_put(struct iol_run *run)
{
	while (run->n)
		iol_buf_put(run->buf[--run->n]);
	run->len = 0;
}

/* Buffers of @pool for @bytes, or for fewer: one is enough to go on. */
static int iol_run_alloc(struct iol_run *run, struct iol_pool *pool, u64 start, u32 bytes)
{
	run->start = start;
	run->len = 0;
	while (run->len < bytes) {
		u32 part = iol_run_part(bytes, run->n);
		struct iol_buf *buf = iol_buf_alloc(pool, part, 0);

		if (IS_ERR(buf))
			return run->n ? 0 : PTR_ERR(buf);
		run->buf[run->n++] = buf;
		run->len += part;
	}
	return 0;
}

/* All pages of a run as page ranges; how many, at most @room. */
static unsigned int iol_run_bvec(const struct iol_run *run, struct bio_vec *bvec, size_t *size)
{
	unsigned int i, k, n = 0;

	*size = 0;
	for (i = 0; i < run->n; i++) {
		for (k = 0; k < run->buf[i]->npages; k++)
			n = iol_bvec_add(bvec, n, iol_buf_page(run->buf[i], k << PAGE_SHIFT), 0,
					 PAGE_SIZE);
		*size += iol_buf_size(run->buf[i]);
	}
	return n;
}

/* From the disk straight into the buffers; from the page cache, if the data is there already. */
static ssize_t iol_run_load(struct iol_call *call, struct iol_run *run, bool direct)
{
	struct bio_vec few[IOL_CHUNK_PAGES], *bvec = few;
	struct address_space *mapping = call->file->f_mapping;
	struct iov_iter iter;
	struct kiocb iocb;
	unsigned int n;
	size_t size;
	ssize_t ret;

	if (run->n > 1)
		bvec = kvmalloc_array(run->n * IOL_CHUNK_PAGES, sizeof(*bvec), GFP_KERNEL_ACCOUNT);
	if (!bvec)
		return -ENOMEM;
	n = iol_run_bvec(run, bvec, &size);
	for (;;) {
		iov_iter_bvec(&iter, ITER_DEST, bvec, n, size);
		iol_kiocb_init(&iocb, call, false);
		iocb.ki_pos = run->start;
		if (direct)
			iocb.ki_flags |= IOCB_DIRECT;
		if (call->nowait)
			iocb.ki_flags |= IOCB_NOIO;
		ret = iol_iter_read(call, &iocb, &iter);
		if (!direct || ret >= 0 || ret == -EIO)
			break;
		direct = false;
	}
	if (!direct && ret > 0) {
		iol_count_add(IOL_BYTES_COPIED_FILE, ret);
		/* One copy of the data is enough; dirty pages stay. */
		if (!shmem_mapping(mapping))
			invalidate_mapping_pages(mapping, run->start >> PAGE_SHIFT,
						 (run->start + ret - 1) >> PAGE_SHIFT);
	}
	iol_bvec_put(bvec, few);
	return ret;
}

/* What was read is the run now; no more than that is seen of its buffers. */
static void iol_run_trim(struct iol_run *run, u32 got)
{
	unsigned int i;

	run->len = got;
	while (run->n && (run->n - 1) * IOL_CHUNK_SIZE >= got)
		iol_buf_put(run->buf[--run->n]);
	for (i = 0; i < run->n; i++) {
		u32 part = iol_run_part(got, i);

		iol_buf_trim(run->buf[i], part);
		/* Whoever reads this file sees the whole page, where another file's bytes were. */
		if (offset_in_page(part))
			memzero_page(iol_buf_page(run->buf[i], part), offset_in_page(part),
				     PAGE_SIZE - offset_in_page(part));
	}
}

/* @pos, and what else of @len from there on is not cached, from the disk; 0: behind the end. */
static int iol_file_fill(struct iol_call *call, struct iol_file *file, const struct iol_view *view,
			 u64 pos, size_t len, struct iol_run *run)
{
	bool direct = iol_file_is_direct(call->file), quiet;
	u64 start = round_down(pos, IOL_CHUNK_SIZE), size = i_size_read(file_inode(call->file));
	u32 bytes = IOL_CHUNK_SIZE, skip = pos - start;
	struct iol_pool *pool = iol_cache_pool();
	unsigned int i;
	ssize_t got;
	int err;

	if (pos >= size)
		return 0;
	/* A caller that does not wait gets what is in memory, and starts no reading ahead. */
	if (call->nowait && (direct || !(call->file->f_mode & FMODE_NOWAIT)))
		return -EAGAIN;
	quiet = iol_file_settle(call, file, view);
	/* A direct read takes the inode's lock, which is that of a writer under way. */
	direct = direct && quiet;
	/* The page cache reads ahead by itself, and what is not kept is not worth it. */
	if (direct)
		bytes = iol_run_bytes(call, file, start, min_t(u64, pos + len, size));
	bytes = min_t(u64, bytes, size - start);
	quiet = quiet && !iol_file_held(file_inode(call->file), start, bytes);
	if (iol_cache_is_kept_from()) {
		pool = call->pool;
		quiet = false;
	}
	err = iol_run_alloc(run, pool, start, bytes);
	if (err)
		return err;
	bytes = run->len;
	got = iol_run_load(call, run, direct);
	/* Some pages are in memory, and this is not one of them. */
	if (call->nowait && got >= 0 && got <= (ssize_t)skip)
		got = -EAGAIN;
	if (got <= (ssize_t)skip) {
		iol_run_put(run);
		return min_t(ssize_t, got, 0);
	}
	iol_run_trim(run, min_t(u32, got, bytes));
	iol_count_add(IOL_FILE_MISSES, run->n);
	for (i = 0; quiet && i < run->n; i++) {
		u32 part = iol_run_part(run->len, i);

		/* A part would be in the way of the whole. */
		if (part == iol_run_part(bytes, i))
			iol_file_keep(call, file, view, start + i * IOL_CHUNK_SIZE, run->buf[i],
				      part);
	}
	return 1;
}

/* What @pos is in of a run, with a reference, or NULL. */
static struct iol_buf *iol_run_find(const struct iol_run *run, u64 pos, u32 *off, u32 *len)
{
	u64 at = pos - run->start;
	unsigned int nth = at / IOL_CHUNK_SIZE;

	if (pos < run->start || at >= run->len)
		return NULL;
	*off = at % IOL_CHUNK_SIZE;
	*len = min(*len, iol_run_part(run->len, nth) - *off);
	return iol_buf_get(run->buf[nth]);
}

static ssize_t iol_file_read_locked(struct iol_call *call, struct iol_file *file, u64 pos)
{
	struct iol_run run = { };
	struct iol_view view;
	size_t done = 0;
	int err = 0;

	iol_file_validate(file, file_inode(call->file), &view);
	while (done < call->size) {
		u32 off, len = min_t(size_t, call->size - done, IOL_CHUNK_SIZE);
		struct iol_buf *buf;

		buf = iol_run_find(&run, pos + done, &off, &len);
		if (!buf) {
			buf = iol_cache_find(&file->extents, READ_ONCE(call->domain->manager),
					     pos + done, &off, &len);
			if (buf)
				iol_count(IOL_FILE_HITS);
		}
		if (!buf) {
			iol_run_put(&run);
			err = iol_file_fill(call, file, &view, pos + done, call->size - done, &run);
			if (err <= 0)
				break;
			continue;
		}
		err = iol_call_take(call, buf, off, len);
		if (err) {
			iol_buf_put(buf);
			break;
		}
		iol_count_add(IOL_BYTES_BY_REFERENCE, len);
		done += len;
	}
	iol_run_put(&run);
	return done ? done : err;
}

/*
 * A read and a write of ours wait for each other, for as long as the disk takes: until they are
 * killed, or not at all.
 */
static int iol_file_lock_shared(const struct iol_call *call, struct iol_file *file)
{
	if (call->nowait)
		return down_read_trylock(&file->lock) ? 0 : -EAGAIN;
	return down_read_killable(&file->lock);
}

static int iol_file_lock(const struct iol_call *call, struct iol_file *file)
{
	if (call->nowait)
		return down_write_trylock(&file->lock) ? 0 : -EAGAIN;
	return down_write_killable(&file->lock);
}

/**
 * iol_file_read - read a file from the cache, filling it
 * @call: gets a snapshot: what comes back never changes
 *
 * Return: bytes or -errno; -EAGAIN: the call does not wait, and would have to, -EINTR: killed.
 */
ssize_t iol_file_read(struct iol_call *call)
{
	u64 pos = call->position == IOL_POSITION_FILE ? call->file->f_pos : call->position;
	struct inode *inode = file_inode(call->file);
	struct iol_file *file;
	ssize_t ret;

	file = iol_file_get(inode);
	if (!file)
		return iol_read_copy(call);
	ret = iol_file_lock_shared(call, file);
	if (ret)
		goto put_file;
	if (iol_file_unwatchable(inode)) {
		iol_count(IOL_FILE_BYPASSES);
		ret = iol_read_copy(call);
		up_read(&file->lock);
		goto put_file;
	}
	ret = iol_file_read_locked(call, file, pos);
	up_read(&file->lock);
	/* The file system does it only for what is read from it. */
	file_accessed(call->file);
	if (ret > 0 && call->position == IOL_POSITION_FILE)
		call->file->f_pos += ret;
put_file:
	iol_file_put(file);
	return ret;
}

/*
 * What of a slice may be in the cache by reference: whole pages, and only if that is most of the
 * buffer, which it keeps.
 */
static bool iol_file_range(const struct iol_vec *vec, u32 len, u32 *start, u32 *end)
{
	*start = PAGE_ALIGN(vec->off);
	*end = vec->off + len;
	if (*end <= *start)
		return false;
	if (!iol_buf_may_cross(vec->buf, *start, *end - *start))
		*end = round_down(*end, PAGE_SIZE);
	return (*end - *start) * 2 >= iol_buf_size(vec->buf);
}

/* The buffers that were written are the file's contents now; what they replace leaves the cache. */
static void iol_file_replace(struct iol_call *call, struct iol_file *file, u64 pos, size_t len)
{
	const struct iol_list *list = &call->list;
	u64 at = pos;
	u32 i;

	lockdep_assert_held(&file->fresh);
	if (iol_cache_remove(&file->extents, pos, len)) {
		iol_cache_drop(&file->extents);
		return;
	}
	for (i = 0; i < list->n && at < pos + len; i++) {
		const struct iol_vec *vec = &list->vec[i];
		u32 start, end;

		if (vec->buf && iol_file_range(vec, min_t(u64, vec->len, pos + len - at), &start,
					       &end))
			iol_cache_insert(&file->extents, READ_ONCE(call->domain->manager),
					 at + start - vec->off, vec->buf, start, end - start);
		at += vec->len;
	}
}

/**
 * iol_file_write - write to a file, and cache the buffers themselves
 * @call: the file system gets the data through its page cache, which writes behind and knows fsync
 *
 * What O_SYNC and O_DSYNC wait for comes last, when the data can be read already.
 *
 * Return: bytes or -errno; -EAGAIN: the call does not wait, and would have to, -EINTR: killed.
 */
ssize_t iol_file_write(struct iol_call *call)
{
	struct inode *inode = file_inode(call->file);
	struct iol_file *file = iol_file_get(inode);
	struct bio_vec *bvec;
	struct iov_iter iter;
	struct kiocb iocb;
	unsigned int n;
	struct iol_view view;
	ssize_t ret;
	int sync;
	u64 at;

	if (!file)
		return iol_write_copy(call);
	bvec = iol_list_bvec(&call->list, NULL, &n);
	if (!bvec) {
		ret = -ENOMEM;
		goto put_file;
	}
	iov_iter_bvec(&iter, ITER_SOURCE, bvec, n, call->list.bytes);
	iol_kiocb_init(&iocb, call, true);
	sync = iocb.ki_flags & (IOCB_DSYNC | IOCB_SYNC);
	iocb.ki_flags &= ~sync;
	ret = iol_file_lock(call, file);
	if (ret)
		goto put_bvec;
	iol_file_validate(file, inode, &view);
	at = iocb.ki_flags & IOCB_APPEND ? i_size_read(inode) : iocb.ki_pos;
	view.alone = iol_file_alone(call) && !iol_file_held(inode, at, call->list.bytes);
	ret = vfs_iocb_iter_write(call->file, &iocb, &iter);
	if (ret > 0) {
		mutex_lock(&file->fresh);
		/* The rest of the cached data is still right. */
		if (iol_file_written_by_us(call, file, &view))
			iol_file_replace(call, file, iocb.ki_pos - ret, ret);
		mutex_unlock(&file->fresh);
	}
	up_write(&file->lock);
	if (ret > 0) {
		iol_count_add(IOL_BYTES_COPIED_FILE, ret);
		iocb.ki_flags |= sync;
		if (sync)
			ret = generic_write_sync(&iocb, ret);
	}
	if (ret > 0 && call->position == IOL_POSITION_FILE)
		call->file->f_pos = iocb.ki_pos;
put_bvec:
	iol_bvec_put(bvec, NULL);
put_file:
	iol_file_put(file);
	return ret;
}
