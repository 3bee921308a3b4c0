/* SPDX-License-Identifier: GPL-2.0 */
/* What disk an export is, whatever its name. */
#ifndef CARD_IDENTITY_H
#define CARD_IDENTITY_H

#include <linux/blkdev.h>
#include <linux/uuid.h>

/* The disk's own, or a random one; says which: enum card_origin. Process context. */
u8 card_identity_find(struct block_device *bdev, uuid_t *uuid);

/* May who expects @wanted, CARD_UUID_LEN bytes of a message, have this one. Zeros: any. */
static inline bool card_identity_same(const uuid_t *uuid, const u8 *wanted)
{
	uuid_t want;

	import_uuid(&want, wanted);
	return uuid_is_null(&want) || uuid_equal(uuid, &want);
}

#endif
