/* SPDX-License-Identifier: GPL-2.0 */
/* Block devices: what differs between kernels. */
#ifndef FLT_COMPAT_BLOCK_H
#define FLT_COMPAT_BLOCK_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <flt_compat_config.h>

/* Requests of one tag set are merged: said by a flag once, by nothing now. */
#ifdef FLT_HAVE_MQ_SHOULD_MERGE
#define FLT_MQ_SHOULD_MERGE	BLK_MQ_F_SHOULD_MERGE
#else
#define FLT_MQ_SHOULD_MERGE	0
#endif

static inline bool flt_compat_bdev_rotates(struct block_device *bdev)
{
#ifdef FLT_HAVE_BDEV_NONROT
	return !bdev_nonrot(bdev);
#else
	return bdev_rot(bdev);
#endif
}

#endif
