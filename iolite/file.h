/* SPDX-License-Identifier: GPL-2.0 */
/* A file with cached data, and who else changes it. */
#ifndef IOL_FILE_H
#define IOL_FILE_H

#include <linux/fsnotify_backend.h>
#include <linux/seqlock.h>

#include "cache.h"
#include "io.h"

/**
 * struct iol_stamp - what of an inode changes when a write to it begins
 * @ctime:   of the inode; by a clock that ticks slowly
 * @size:    of the file
 * @version: of the inode, where it has one: changes once it was looked at
 */
struct iol_stamp {
	struct timespec64 ctime;
	loff_t size;
	u64 version;
};

/**
 * struct iol_file - a file with cached data; hangs on the inode as a mark, and goes with it
 * @mark:    keeps no reference to the inode
 * @lock:    IOL_read shared, IOL_write exclusive: one is atomic for the other
 * @changes: modifications that we were told of
 * @closes:  descriptors open for writing that were closed
 * @fresh:   makes the following and insertion into @extents one step
 * @seq:     for those who only look whether they have changed
 * @seen:    @changes as they were when the extents were right; under @fresh
 * @stamp:   the same; under @fresh
 * @quiet:   no write that began before @stamp was under way any more; under @fresh
 * @extents: what is cached
 *
 * Lock order: f_pos_lock, @lock, inode lock, @fresh, the cache's lock.
 */
struct iol_file {
	struct fsnotify_mark mark;
	struct rw_semaphore lock;
	atomic64_t changes;
	atomic64_t closes;
	struct mutex fresh;		/* whether the extents are right */
	seqcount_mutex_t seq;
	s64 seen;
	struct iol_stamp stamp;
	bool quiet;
	struct iol_extents extents;
};

/**
 * struct iol_view - the state of a file when a call looked
 * @changes: as the file's
 * @closes:  as the file's
 * @stamp:   of the inode
 * @alone:   nobody but the caller could write
 */
struct iol_view {
	s64 changes;
	s64 closes;
	struct iol_stamp stamp;
	bool alone;
};

struct iol_file *iol_file_get(struct inode *inode);
void iol_file_put(struct iol_file *file);
bool iol_file_unwatchable(struct inode *inode);
void iol_file_validate(struct iol_file *file, struct inode *inode, struct iol_view *view);
bool iol_file_settle(struct iol_call *call, struct iol_file *file, const struct iol_view *view);
bool iol_file_unchanged(struct iol_file *file, struct inode *inode, const struct iol_view *view);
bool iol_file_held(struct inode *inode, u64 offset, u64 len);
bool iol_file_alone(const struct iol_call *call);
bool iol_file_written_by_us(struct iol_call *call, struct iol_file *file,
			    const struct iol_view *view);

#endif
