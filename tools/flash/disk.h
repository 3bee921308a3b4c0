/* SPDX-License-Identifier: GPL-2.0 */
/* Is a part of a file in memory, and if not, who brings it there? (Pai, 4.4.7) */
#ifndef FLASH_DISK_H
#define FLASH_DISK_H

#include "worker.h"

/*
 * Does the configured test tell the truth here? mincore() and cachestat() answer only who owns a
 * file or may write it; mincore() even says "resident" to the others. Warns and returns the test
 * to use.
 */
enum residency residency_probe(const struct conf *conf);

/* @map: the mapping of the part's chunk, or NULL. */
bool disk_resident(struct worker *w, struct file *f, uint64_t off, uint32_t len,
		   struct mapping *map);

/*
 * More than a chunk: false also where one question does not tell it exactly, or memory is short,
 * so that what is tested could be gone before it is sent.
 */
bool disk_resident_far(struct worker *w, struct file *f, uint64_t off, uint32_t len);

/*
 * May @len bytes that were just found in memory be evicted before they are sent? They may where
 * memory is short: what the loop itself allocates to send them can be what evicts them.
 */
bool disk_may_lose(const struct worker *w, uint32_t len);

/*
 * Reads from memory alone, up to 64 KB, into memory that the next call uses again (@copy). Bytes
 * (0: past the end), or a negative errno: -EAGAIN when the first of them are not there.
 */
ssize_t disk_copy(struct worker *w, struct file *f, uint64_t off, uint32_t len, const char **copy);

/*
 * Reads the part, mapped for the purpose if @map. On a helper. 0, or a negative errno; *@cold:
 * it waited for a disk, as far as is known.
 */
int disk_bring(int fd, uint64_t off, uint64_t len, bool map, bool *cold);

/* residency clock: the predictor of the loop. 0, or -ENOMEM. */
int disk_predict_init(struct worker *w);

/*
 * Has a helper read the part; @waiter (may be NULL) is called then. One read serves all who wait
 * for the same part. 0, or a negative errno with @waiter not queued.
 */
int disk_read(struct worker *w, struct file *f, uint64_t off, uint32_t len,
	      struct mapping *map, struct waiter *waiter);

#endif
