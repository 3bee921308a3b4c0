// SPDX-License-Identifier: GPL-2.0
/*
 * Who else changes a file. Legacy calls know nothing of our cache, so we learn of them:
 *
 * - A mark on the inode counts modifications (write, truncate, fallocate) as they end.
 * - libaio tells nobody of an end, but every write begins with a new ctime and, where the file
 *   system counts it, a new version of the inode. So a stamp that is the same as before says that
 *   no write has begun since; whether one was under way even then is asked once for each stamp:
 *   buffered writes hold the inode's lock, direct ones the count of direct I/O.
 * - A file that is mapped writable is not cached at all.
 * - A page that somebody got hold of while it was mapped may be stored to after that: by a direct
 *   read, a fixed buffer of io_uring, process_vm_writev(2). What is in such a page is not cached.
 */
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/iversion.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/shmem_fs.h>
#include <linux/slab.h>

#include "kmod/compat/memory.h"
#include "counter.h"
#include "file.h"

/*
 * Where inodes have no version, a change of ctime this young may hide another one behind it: some
 * file systems count in steps of two seconds, and the clock of files ticks slowly.
 */
#define IOL_SETTLE_NS		(2 * NSEC_PER_SEC + 20 * NSEC_PER_MSEC)

static struct fsnotify_group *iol_group;

static struct iol_file *iol_file_of(struct fsnotify_mark *mark)
{
	return container_of(mark, struct iol_file, mark);
}

static int iol_file_event(struct fsnotify_mark *mark, u32 mask, struct inode *inode,
			  struct inode *dir, const struct qstr *name, u32 cookie)
{
	struct iol_file *file = iol_file_of(mark);

	if (mask & FS_CLOSE_WRITE)
		atomic64_inc(&file->closes);
	/* Of stores through a mapping of memory only the end of their file tells. */
	if (mask & FS_MODIFY || shmem_mapping(inode->i_mapping))
		atomic64_inc(&file->changes);
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
	seqcount_mutex_init(&file->seq, &file->fresh);
	iol_extents_init(&file->extents);
	file->seen = -1;
	fsnotify_init_mark(&file->mark, iol_group);
	file->mark.mask = FS_MODIFY | FS_CLOSE_WRITE;
	/* Cached data is no reason to keep an inode. */
	file->mark.flags |= FSNOTIFY_MARK_FLAG_NO_IREF;
	*err = fsnotify_add_inode_mark(&file->mark, inode, 0);
	if (!*err)
		return file;
	fsnotify_put_mark(&file->mark);
	return NULL;
}

/* The file of an inode, with a reference to its mark, or NULL. */
struct iol_file *iol_file_get(struct inode *inode)
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

void iol_file_put(struct iol_file *file)
{
	fsnotify_put_mark(&file->mark);
}

static struct iol_stamp iol_stamp_now(struct inode *inode)
{
	return (struct iol_stamp){
		.ctime = inode_get_ctime(inode),
		.size = i_size_read(inode),
		.version = IS_I_VERSION(inode) ? inode_query_iversion(inode) : 0,
	};
}

static bool iol_stamp_equal(const struct iol_stamp *a, const struct iol_stamp *b)
{
	return timespec64_equal(&a->ctime, &b->ctime) && a->size == b->size &&
	       a->version == b->version;
}

/* Would the next write change it? */
static bool iol_stamp_settled(const struct inode *inode, const struct iol_stamp *stamp)
{
	struct timespec64 now;

	if (IS_I_VERSION(inode))
		return true;
	ktime_get_coarse_real_ts64(&now);
	return timespec64_to_ns(&now) - timespec64_to_ns(&stamp->ctime) > IOL_SETTLE_NS;
}

/*
 * Stores through a mapping send no event, and on a file system in memory do not even change ctime:
 * there any open writer might be about to map.
 */
bool iol_file_unwatchable(struct inode *inode)
{
	if (mapping_writably_mapped(inode->i_mapping))
		return true;
	return shmem_mapping(inode->i_mapping) && inode_is_open_for_write(inode);
}

static bool iol_file_is_fresh(struct iol_file *file, const struct iol_view *view)
{
	unsigned int seq;
	bool fresh;

	do {
		seq = read_seqcount_begin(&file->seq);
		fresh = file->seen == view->changes && iol_stamp_equal(&file->stamp, &view->stamp);
	} while (read_seqcount_retry(&file->seq, seq));
	return fresh;
}

static void iol_file_set(struct iol_file *file, s64 seen, const struct iol_stamp *stamp, bool quiet)
{
	lockdep_assert_held(&file->fresh);
	write_seqcount_begin(&file->seq);
	file->seen = seen;
	file->stamp = *stamp;
	WRITE_ONCE(file->quiet, quiet);
	WRITE_ONCE(file->extents.size, stamp->size);
	write_seqcount_end(&file->seq);
}

/**
 * iol_file_validate - forget what may be out of date
 * @file:  of @inode
 * @inode: of the file
 * @view:  out: the state for which the extents are right now
 */
void iol_file_validate(struct iol_file *file, struct inode *inode, struct iol_view *view)
{
	view->changes = atomic64_read(&file->changes);
	view->closes = atomic64_read(&file->closes);
	view->stamp = iol_stamp_now(inode);
	if (iol_file_is_fresh(file, view) && !iol_file_unwatchable(inode))
		return;
	mutex_lock(&file->fresh);
	if (iol_cache_drop(&file->extents))
		iol_count(IOL_FILE_INVALIDATED);
	iol_file_set(file, view->changes, &view->stamp, false);
	mutex_unlock(&file->fresh);
}

/**
 * iol_file_settle - may what is read from here on be kept?
 * @call: reads
 * @file: what it reads
 * @view: from iol_file_validate()
 *
 * Not while a write is under way: it changed the stamp when it began, and stores when it likes.
 * Who begins one after this changes the stamp, which iol_file_unchanged() sees. The inode's lock
 * is not waited for: who may write could keep it for as long as he likes to let the disk take.
 */
bool iol_file_settle(struct iol_call *call, struct iol_file *file, const struct iol_view *view)
{
	struct inode *inode = file_inode(call->file);
	struct iol_stamp stamp;
	bool quiet;

	if (READ_ONCE(file->quiet))
		return true;
	if (!inode_trylock(inode))
		return false;
	stamp = iol_stamp_now(inode);
	quiet = iol_stamp_settled(inode, &stamp) && !atomic_read(&inode->i_dio_count);
	inode_unlock(inode);
	mutex_lock(&file->fresh);
	quiet = quiet && iol_stamp_equal(&stamp, &view->stamp) &&
		iol_stamp_equal(&stamp, &file->stamp);
	if (quiet)
		WRITE_ONCE(file->quiet, true);
	mutex_unlock(&file->fresh);
	return quiet;
}

/**
 * iol_file_unchanged - may what was read since iol_file_settle() be kept?
 * @file:  of @inode
 * @inode: of the file
 * @view:  from iol_file_validate()
 *
 * Context: file->fresh is held, until it is kept.
 */
bool iol_file_unchanged(struct iol_file *file, struct inode *inode, const struct iol_view *view)
{
	struct iol_stamp stamp = iol_stamp_now(inode);

	lockdep_assert_held(&file->fresh);
	return file->quiet && file->seen == view->changes &&
	       atomic64_read(&file->changes) == view->changes &&
	       iol_stamp_equal(&file->stamp, &view->stamp) &&
	       iol_stamp_equal(&stamp, &view->stamp) && !iol_file_unwatchable(inode);
}

/*
 * Has anybody a reference whom we cannot name? Not all who store by way of one pin the page (NFS
 * and Ceph do not). One that is on no list may be on its way to one, which takes a reference.
 */
static bool iol_folio_held(struct folio *folio)
{
	int maps = folio_mapcount(folio);
	bool listed = folio_test_lru(folio);
	/* The page cache's, the caller's, buffers'. */
	int refs = folio_ref_count(folio) - folio_nr_pages(folio) - 1 - folio_test_private(folio);

	refs -= min(maps, folio_mapcount(folio));
	listed = listed || folio_test_lru(folio);
	return folio_maybe_dma_pinned(folio) || refs > (listed ? 0 : 1);
}

static bool iol_folios_held(struct address_space *mapping, pgoff_t first, pgoff_t last)
{
	struct folio_batch batch;
	bool held = false;
	unsigned int i;

	folio_batch_init(&batch);
	while (!held && filemap_get_folios(mapping, &first, last, &batch)) {
		for (i = 0; i < folio_batch_count(&batch) && !held; i++)
			held = iol_folio_held(batch.folios[i]);
		/* Empties this CPU's lists of pages on their way. */
		folio_batch_release(&batch);
	}
	return held;
}

/**
 * iol_file_held - may a range be stored to through references to its pages?
 * @inode:  of a file of which iol_file_validate() has made a view
 * @offset: in the file
 * @len:    bytes
 *
 * Who gets such a reference after this has mapped the file first, which iol_file_unchanged() sees:
 * he still has it mapped, or a disk's file has another ctime, or one in memory was closed.
 */
bool iol_file_held(struct inode *inode, u64 offset, u64 len)
{
	struct address_space *mapping = inode->i_mapping;
	pgoff_t first = offset >> PAGE_SHIFT, last = (offset + len - 1) >> PAGE_SHIFT;

	/* Again: references of this CPU's lists are gone by now. */
	return iol_folios_held(mapping, first, last) && iol_folios_held(mapping, first, last);
}

/**
 * iol_file_alone - can nobody write to the file but the caller's thread?
 * @call: writes
 *
 * Opened once for writing; of that open file the references are one descriptor's and the call's;
 * and the table of descriptors is one thread's. A write under way elsewhere would have another.
 */
bool iol_file_alone(const struct iol_call *call)
{
	struct inode *inode = file_inode(call->file);

	return IS_I_VERSION(inode) && atomic_read(&inode->i_writecount) == 1 &&
	       file_count(call->file) == 2 && atomic_read(&current->files->count) == 1;
}

/**
 * iol_file_written_by_us - did only this call write since it looked?
 * @call: has written
 * @file: to what
 * @view: from iol_file_validate(), with @alone as it was before
 *
 * Who was not alone in the meantime has closed his descriptor.
 *
 * Context: file->fresh is held.
 * Return: true: the extents are right but for what was written.
 */
bool iol_file_written_by_us(struct iol_call *call, struct iol_file *file,
			    const struct iol_view *view)
{
	struct inode *inode = file_inode(call->file);
	struct iol_stamp stamp;

	lockdep_assert_held(&file->fresh);
	if (!view->alone || !iol_file_alone(call) || iol_file_unwatchable(inode) ||
	    file->seen != view->changes || atomic64_read(&file->changes) != view->changes + 1 ||
	    atomic64_read(&file->closes) != view->closes)
		return false;
	stamp = iol_stamp_now(inode);
	iol_file_set(file, view->changes + 1, &stamp, true);
	return true;
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
