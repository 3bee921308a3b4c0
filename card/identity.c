// SPDX-License-Identifier: GPL-2.0
/*
 * Identities. A name is given to another disk by a slip of the hand, and a device number
 * at each restart; who writes to a disk has to know that it is still the same one.
 *
 * The disk's own number is best: it stays when the machine is started anew, and a copy of
 * the disk, sector by sector, has another one. What only user space can see (the file
 * under a loop device, the name of a logical volume, a serial number) comes with the
 * command. A partition of a disk without a number has the UUID of its table's entry.
 */

#include "kmod/compat/hash.h"
#include "identity.h"
#include "wire.h"

/**
 * struct card_identity_seed - what is hashed: of fixed size, without holes
 * @id:    of the whole disk
 * @start: first sector of a partition
 * @len:   bytes of @id
 * @type:  enum blk_unique_id
 */
struct card_identity_seed {
	u8 id[16];
	__le64 start;
	__le32 len;
	__le32 type;
};

static bool card_identity_of_disk(struct block_device *bdev, uuid_t *uuid)
{
	static const enum blk_unique_id types[] = { BLK_UID_NAA, BLK_UID_EUI64, BLK_UID_T10 };
	struct gendisk *disk = bdev->bd_disk;
	struct card_identity_seed seed = { .start = cpu_to_le64(bdev->bd_start_sect) };
	unsigned int i;
	int len;

	if (!disk->fops->get_unique_id)
		return false;
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		memset(seed.id, 0, sizeof(seed.id));
		len = disk->fops->get_unique_id(disk, seed.id, types[i]);
		if (len <= 0 || !memchr_inv(seed.id, 0, sizeof(seed.id)))
			continue;
		seed.len = cpu_to_le32(len);
		seed.type = cpu_to_le32(types[i]);
		flt_compat_blake2s(uuid->b, sizeof(*uuid), &seed, sizeof(seed));
		return true;
	}
	return false;
}

u8 card_identity_find(struct block_device *bdev, uuid_t *uuid)
{
	const struct partition_meta_info *info = bdev->bd_meta_info;

	if (card_identity_of_disk(bdev, uuid))
		return CARD_ORIGIN_DISK;
	if (info && !uuid_parse(info->uuid, uuid) && !uuid_is_null(uuid))
		return CARD_ORIGIN_DISK;
	uuid_gen(uuid);
	return CARD_ORIGIN_MADE;
}
