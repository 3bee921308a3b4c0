// SPDX-License-Identifier: GPL-2.0
/* Is a disk asked whether it does not rotate, or whether it does? */
#include <linux/blkdev.h>

bool flt_probe(struct block_device *bdev);
bool flt_probe(struct block_device *bdev)
{
#ifndef FLT_PROBE_NOT
	return bdev_nonrot(bdev);
#else
	return bdev_rot(bdev);
#endif
}
