// SPDX-License-Identifier: GPL-2.0
/*
 * Files: read from and written to our cache. Legacy calls know nothing of it, so we learn of them:
 * a mark on the inode counts modifications (write, truncate, fallocate) as they end, ctime and size
 * betray those that send no event, and a file that is mapped writable is not cached at all.
 */
#include <linux/bvec.h>
#include <linux/fs.h>
#include <linux/fsnotify_backend.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/shmem_fs.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include "cache.h"
#include "counter.h"
#include "io.h"

/* A change of ctime this young may hide another one behind it: the clock of files ticks slowly. */
#define IOL_SETTLE_NS		(20 * NSEC_PER_MSEC)

/**
 * struct iol_stamp - what of an inode changes when its data does
 * @ctime: of the inode
 * @size:  of the file
 */
struct iol_stamp {
	struct timespec64 ctime;
	loff_t size;
};

/**
 * struct iol_file - a file with cached data; hangs on the inode as a mark, and goes with it
 * @mark:    keeps no reference to the inode
 * @lock:    IOL_read shared, IOL_write exclusive: one is atomic for the other
 * @changes: modifications that we were told of
 * @fresh:   makes @seen, @stamp and insertion into @extents one step
 * @seen:    @changes as they were when the extents were right; under @fresh
 * @stamp:   the same; under @fresh
 * @extents: what is cached
 *
 * Lock order: f_pos_lock, @lock, inode lock, @fresh, the cache's lock.
 */
struct iol_file {
	struct fsnotify_mark mark;
	struct rw_semaphore lock;
	atomic64_t changes;
	struct mutex fresh;		/* whether the extents are right */
	s64 seen;
	struct iol_stamp stamp;
	struct iol_extents extents;
};

static struct fsnotify_group *iol_group;

static struct iol_file *iol_file_of(struct fsnotify_mark *mark)
{
	return container_of(mark, struct iol_file, mark);
}

static int iol_file_event(struct fsnotify_mark *mark, u32 mask, struct inode *inode,
			  struct inode *dir, const struct qstr *name, u32 cookie)
{
	atomic64_inc(&iol_file_of(mark)->changes);
	return 0;
}

static void iol_file_free(struct fsnotify_mark *mark)
{
	struct iol_file *file = iol_file_of(mark);

	iol_cache_drop(&file->extents);
	mutex_destroy(&file->fresh);
	kfree(file);
}

static const struct fsnotify_ops iol_fsnotify_ops = {
	.handle_inode_event = iol_file_event,
	.free_mark = iol_file_free,
};

static struct iol_file *iol_file_make(struct inode *inode, int *err)
{
	struct iol_file *file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);

	*err = -ENOMEM;
	if (!file)
		return NULL;
	init_rwsem(&file->lock);
	mutex_init(&file->fresh);
	file->extents.by_offset = RB_ROOT;
	file->seen = -1;
	fsnotify_init_mark(&file->mark, iol_group);
	file->mark.mask = FS_MODIFY;
	/* Of stores through a mapping of memory only the end of their file tells. */
	if (shmem_mapping(inode->i_mapping))
		file->mark.mask |= FS_CLOSE_WRITE;
	/* Cached data is no reason to keep an inode. */
	file->mark.flags |= FSNOTIFY_MARK_FLAG_NO_IREF;
	*err = fsnotify_add_inode_mark(&file->mark, inode, 0);
	if (!*err)
		return file;
	fsnotify_put_mark(&file->mark);
	return NULL;
}

/* The file of an inode, with a reference to its mark, or NULL. */
static struct iol_file *iol_file_get(struct inode *inode)
{
	struct fsnotify_mark *mark;
	struct iol_file *file;
	int err;

	do {
		mark = fsnotify_find_inode_mark(inode, iol_group);
		if (mark)
			return iol_file_of(mark);
		file = iol_file_make(inode, &err);
	} while (!file && err == -EEXIST);
	return file;
}

static void iol_file_put(struct iol_file *file)
{
	fsnotify_put_mark(&file->mark);
}

/* Data of a local disk or of memory; elsewhere files change without our being told. */
bool iol_is_cacheable(struct file *file)
{
	struct inode *inode = file_inode(file);

	return S_ISREG(inode->i_mode) && (inode->i_sb->s_bdev || shmem_mapping(inode->i_mapping)) &&
	       !(file->f_flags & O_DIRECT) && file->f_op->read_iter;
}

static struct iol_stamp iol_stamp_now(struct inode *inode)
{
	return (struct iol_stamp){
		.ctime = inode_get_ctime(inode),
		.size = i_size_read(inode),
	};
}

static bool iol_stamp_equal(const struct iol_stamp *a, const struct iol_stamp *b)
{
	return timespec64_equal(&a->ctime, &b->ctime) && a->size == b->size;
}

static bool iol_stamp_settled(const struct iol_stamp *stamp)
{
	struct timespec64 now;

	ktime_get_coarse_real_ts64(&now);
	return timespec64_to_ns(&now) - timespec64_to_ns(&stamp->ctime) > IOL_SETTLE_NS;
}

/*
 * Stores through a mapping send no event, and on a file system in memory do not even change ctime:
 * there any open writer might be about to map.
 */
static bool iol_file_unwatchable(struct inode *inode)
{
	if (mapping_writably_mapped(inode->i_mapping))
		return true;
	return shmem_mapping(inode->i_mapping) && inode_is_open_for_write(inode);
}

/* Forget what may be out of date. Returns the count of changes for which the extents are right. */
static s64 iol_file_validate(struct iol_file *file, struct inode *inode)
{
	s64 changes = atomic64_read(&file->changes);
	struct iol_stamp stamp = iol_stamp_now(inode);

	mutex_lock(&file->fresh);
	if (file->seen != changes || !iol_stamp_equal(&file->stamp, &stamp) ||
	    iol_file_unwatchable(inode)) {
		if (iol_cache_drop(&file->extents))
			iol_count(IOL_FILE_INVALIDATED);
		file->seen = changes;
		file->stamp = stamp;
		file->extents.size = stamp.size;
	}
	mutex_unlock(&file->fresh);
	return changes;
}

/* Cache what was read, unless the file has changed since @changes was taken. */
static void iol_file_keep(struct iol_call *call, struct iol_file *file, s64 changes, u64 offset,
			  struct iol_buf *buf, u32 len)
{
	struct iol_manager *manager = READ_ONCE(call->domain->manager);
	struct inode *inode = file_inode(call->file);
	struct iol_stamp stamp = iol_stamp_now(inode);

	mutex_lock(&file->fresh);
	if (file->seen == changes && atomic64_read(&file->changes) == changes &&
	    iol_stamp_equal(&file->stamp, &stamp) && iol_stamp_settled(&stamp) &&
	    !iol_file_unwatchable(inode) &&
	    iol_cache_insert(&file->extents, manager, offset, buf, 0, len) == -EEXIST &&
	    /* Parts, which writes have left: the whole is better. */
	    !iol_cache_remove(&file->extents, offset, len))
		iol_cache_insert(&file->extents, manager, offset, buf, 0, len);
	mutex_unlock(&file->fresh);
}

/* From the disk straight into the buffer; from the page cache, if the data is there already. */
static ssize_t iol_file_load(struct iol_call *call, struct iol_buf *buf, u64 offset)
{
	struct address_space *mapping = call->file->f_mapping;
	bool direct = (call->file->f_mode & FMODE_CAN_ODIRECT) && !mapping->nrpages &&
		      !shmem_mapping(mapping);
	struct bio_vec bvec[IOL_CHUNK_PAGES];
	struct iov_iter iter;
	struct kiocb iocb;
	unsigned int i;
	ssize_t ret;

	/* A caller that does not wait gets what is in memory, and starts no reading ahead. */
	if (call->nowait && (direct || !(call->file->f_mode & FMODE_NOWAIT)))
		return -EAGAIN;
	for (i = 0; i < buf->npages; i++)
		bvec_set_page(&bvec[i], iol_buf_page(buf, i << PAGE_SHIFT), PAGE_SIZE, 0);
	for (;;) {
		iov_iter_bvec(&iter, ITER_DEST, bvec, buf->npages, iol_buf_size(buf));
		iol_kiocb_init(&iocb, call, false);
		iocb.ki_pos = offset;
		if (direct)
			iocb.ki_flags |= IOCB_DIRECT;
		if (call->nowait)
			iocb.ki_flags |= IOCB_NOIO;
		ret = vfs_iocb_iter_read(call->file, &iocb, &iter);
		if (!direct || ret >= 0 || ret == -EIO)
			break;
		direct = false;
	}
	if (!direct && ret > 0) {
		iol_count_add(IOL_BYTES_COPIED_FILE, ret);
		/* One copy of the data is enough; dirty pages stay. */
		if (!shmem_mapping(mapping))
			invalidate_mapping_pages(mapping, offset >> PAGE_SHIFT,
						 (offset + ret - 1) >> PAGE_SHIFT);
	}
	return ret;
}

/* What @pos is in, from the disk; the caller's buffer reference, place and length there. */
static struct iol_buf *iol_file_fill(struct iol_call *call, struct iol_file *file, u64 pos,
				     s64 changes, u32 *buf_off, u32 *len)
{
	struct inode *inode = file_inode(call->file);
	u64 start = round_down(pos, IOL_CHUNK_SIZE);
	u64 size = i_size_read(inode);
	struct iol_buf *buf;
	ssize_t got, all;
	u32 skip = pos - start;

	if (pos >= size)
		return NULL;
	all = min_t(u64, size - start, IOL_CHUNK_SIZE);
	buf = iol_buf_alloc(iol_cache_pool(), all, 0);
	if (IS_ERR(buf))
		return buf;
	got = iol_file_load(call, buf, start);
	/* Some pages are in memory, and this is not one of them. */
	if (call->nowait && got >= 0 && got <= (ssize_t)skip)
		got = -EAGAIN;
	if (got <= (ssize_t)skip) {
		iol_buf_put(buf);
		return got < 0 ? ERR_PTR(got) : NULL;
	}
	iol_count(IOL_FILE_MISSES);
	iol_buf_trim(buf, got);
	/* Whoever reads this file sees the whole page, which another file's bytes were in. */
	if (offset_in_page(got))
		memzero_page(iol_buf_page(buf, got), offset_in_page(got),
			     PAGE_SIZE - offset_in_page(got));
	/* A part would be in the way of the whole. */
	if (got == all)
		iol_file_keep(call, file, changes, start, buf, got);
	*buf_off = skip;
	*len = min_t(u32, *len, got - skip);
	return buf;
}

static ssize_t iol_file_read_locked(struct iol_call *call, struct iol_file *file, u64 pos)
{
	s64 changes = iol_file_validate(file, file_inode(call->file));
	size_t done = 0;
	int err = 0;

	while (done < call->size) {
		u32 len = min_t(size_t, call->size - done, IOL_CHUNK_SIZE);
		struct iol_buf *buf;
		u32 off;

		buf = iol_cache_find(&file->extents, READ_ONCE(call->domain->manager), pos + done,
				     &off, &len);
		if (buf)
			iol_count(IOL_FILE_HITS);
		else
			buf = iol_file_fill(call, file, pos + done, changes, &off, &len);
		if (IS_ERR_OR_NULL(buf)) {
			err = PTR_ERR_OR_ZERO(buf);
			break;
		}
		err = iol_call_take(call, buf, off, len);
		if (err) {
			iol_buf_put(buf);
			break;
		}
		iol_count_add(IOL_BYTES_BY_REFERENCE, len);
		done += len;
	}
	return done ? done : err;
}

/**
 * iol_file_read - read a file from the cache, filling it
 * @call: gets a snapshot: what comes back never changes
 */
ssize_t iol_file_read(struct iol_call *call)
{
	u64 pos = call->position == IOL_POSITION_FILE ? call->file->f_pos : call->position;
	struct inode *inode = file_inode(call->file);
	struct iol_file *file;
	ssize_t ret;

	file = iol_file_unwatchable(inode) ? NULL : iol_file_get(inode);
	if (!file) {
		iol_count(IOL_FILE_BYPASSES);
		return iol_read_copy(call);
	}
	down_read(&file->lock);
	ret = iol_file_read_locked(call, file, pos);
	up_read(&file->lock);
	if (ret > 0 && call->position == IOL_POSITION_FILE)
		call->file->f_pos += ret;
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

/* Only our own write came since @before: the rest of the cached data is still right. */
static void iol_file_written(struct iol_call *call, struct iol_file *file, s64 before, u64 pos,
			     size_t len)
{
	struct inode *inode = file_inode(call->file);

	mutex_lock(&file->fresh);
	if (file->seen == before && atomic64_read(&file->changes) == before + 1 &&
	    !iol_file_unwatchable(inode)) {
		file->seen = before + 1;
		file->stamp = iol_stamp_now(inode);
		file->extents.size = file->stamp.size;
		iol_file_replace(call, file, pos, len);
	}
	mutex_unlock(&file->fresh);
}

/**
 * iol_file_write - write to a file, and cache the buffers themselves
 * @call: the file system gets the data through its page cache, which writes behind and knows fsync
 */
ssize_t iol_file_write(struct iol_call *call)
{
	struct iol_file *file = iol_file_get(file_inode(call->file));
	struct bio_vec *bvec;
	struct iov_iter iter;
	struct kiocb iocb;
	unsigned int n;
	ssize_t ret;
	s64 before;

	if (!file)
		return iol_write_copy(call);
	bvec = iol_list_bvec(&call->list, NULL, &n);
	if (!bvec) {
		iol_file_put(file);
		return -ENOMEM;
	}
	iov_iter_bvec(&iter, ITER_SOURCE, bvec, n, call->list.bytes);
	iol_kiocb_init(&iocb, call, true);
	down_write(&file->lock);
	before = iol_file_validate(file, file_inode(call->file));
	ret = vfs_iocb_iter_write(call->file, &iocb, &iter);
	if (ret > 0)
		iol_file_written(call, file, before, iocb.ki_pos - ret, ret);
	up_write(&file->lock);
	if (ret > 0) {
		iol_count_add(IOL_BYTES_COPIED_FILE, ret);
		if (call->position == IOL_POSITION_FILE)
			call->file->f_pos = iocb.ki_pos;
	}
	iol_bvec_put(bvec, NULL);
	iol_file_put(file);
	return ret;
}

int iol_files_init(void)
{
	iol_group = fsnotify_alloc_group(&iol_fsnotify_ops, 0);
	return PTR_ERR_OR_ZERO(iol_group);
}

/* All files of the cache go, and have gone when this returns. */
void iol_files_exit(void)
{
	struct fsnotify_mark *mark;

	/* No new ones: there are no domains any more. */
	for (;;) {
		fsnotify_group_lock(iol_group);
		mark = list_first_entry_or_null(&iol_group->marks_list, struct fsnotify_mark,
						g_list);
		/* What fsnotify_get_mark(), which is not exported, does. */
		if (mark)
			refcount_inc(&mark->refcnt);
		fsnotify_group_unlock(iol_group);
		if (!mark)
			break;
		fsnotify_destroy_mark(mark, iol_group);
		fsnotify_put_mark(mark);
	}
	fsnotify_wait_marks_destroyed();
	fsnotify_put_group(iol_group);
}
