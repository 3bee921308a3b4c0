// SPDX-License-Identifier: GPL-2.0
/*
 * Claims. What a disk's readers have in memory, here and at other nodes, is right only as
 * long as nobody writes to the disk on another way: a second export of it, a file system
 * mounted here, one of its partitions, a volume that is made of it.
 *
 * The block layer knows of exclusive use: mounts, volumes, arrays, swap, partitions beside
 * their disk. So an export claims its disk. Exports that only read claim together and may
 * have the same disk; who writes claims alone.
 *
 * Loop devices claim nothing of what is below them. The command finds those that lead to
 * the same storage, and we claim them too, so that nobody can mount them or export them.
 *
 * Two ways lead around the claim. A file system that is mounted read-only here may be
 * exported with its directory, for CARD_MODE_PAGE: it has the claim, and we look whether
 * it stays read-only. And CARD_FLAG_UNCLAIMED, if the disk itself is set read-only.
 */

#include <linux/fs.h>
#include <linux/mount.h>
#include <linux/namei.h>
#include <linux/netlink.h>
#include <linux/pagemap.h>

#include "claim.h"
#include "export.h"

/* Holder of all that only read. */
static const char card_readers[] = "card";

static void *card_claim_holder(struct card_export *export)
{
	return export->spec.flags & CARD_FLAG_WRITE ? export : (void *)card_readers;
}

/* Whose place we would take, if it is no more than read. */
static int card_claim_mount(struct card_export *export, dev_t dev, struct netlink_ext_ack *extack)
{
	struct super_block *sb;
	int err;

	if (!export->spec.mount[0])
		return 0;
	err = kern_path(export->spec.mount, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &export->mnt);
	if (err) {
		NL_SET_ERR_MSG_FMT(extack, "cannot find %s", export->spec.mount);
		return err;
	}
	sb = export->mnt.mnt->mnt_sb;
	if (!sb->s_bdev || sb->s_bdev->bd_dev != dev) {
		NL_SET_ERR_MSG(extack, "that is not where this disk is mounted");
		return -EINVAL;
	}
	if (!sb_rdonly(sb) || export->spec.flags & CARD_FLAG_WRITE) {
		NL_SET_ERR_MSG(extack, "mounted here, it must be read-only, here and for others");
		return -EBUSY;
	}
	return 0;
}

static int card_claim_refuse(const char *path, int err, struct netlink_ext_ack *extack)
{
	if (err == -EBUSY)
		NL_SET_ERR_MSG_FMT(extack, "%s is in use: mounted, exported, or a part of what is",
				   path);
	else
		NL_SET_ERR_MSG_FMT(extack, "cannot open %s", path);
	return err;
}

static int card_claim_disk(struct card_export *export, struct netlink_ext_ack *extack)
{
	u32 flags = export->spec.flags;
	blk_mode_t mode = BLK_OPEN_READ | (flags & CARD_FLAG_WRITE ? BLK_OPEN_WRITE : 0);
	bool claim = !(flags & CARD_FLAG_UNCLAIMED) && !export->mnt.mnt;
	struct file *file;

	if (claim)
		mode |= BLK_OPEN_RESTRICT_WRITES;
	file = bdev_file_open_by_path(export->spec.path, mode,
				      claim ? card_claim_holder(export) : NULL, NULL);
	if (IS_ERR(file))
		return card_claim_refuse(export->spec.path, PTR_ERR(file), extack);
	export->file = file;
	export->bdev = file_bdev(file);
	if (flags & CARD_FLAG_UNCLAIMED && !bdev_read_only(export->bdev)) {
		NL_SET_ERR_MSG(extack, "unclaimed only if nobody can write it: blockdev --setro");
		return -EBUSY;
	}
	return 0;
}

/* Other devices of the same storage. Only claimed: nothing is read through them. */
static int card_claim_others(struct card_export *export, struct netlink_ext_ack *extack)
{
	const struct card_export_spec *spec = &export->spec;
	char name[sizeof("device 4095:1048575")];
	unsigned int i;
	struct file *file;

	for (i = 0; i < spec->nr_claims; i++) {
		file = bdev_file_open_by_dev(spec->claims[i], BLK_OPEN_READ,
					     card_claim_holder(export), NULL);
		if (IS_ERR(file)) {
			snprintf(name, sizeof(name), "device %u:%u", MAJOR(spec->claims[i]),
				 MINOR(spec->claims[i]));
			return card_claim_refuse(name, PTR_ERR(file), extack);
		}
		export->others[i] = file;
	}
	return 0;
}

int card_claim_take(struct card_export *export, struct netlink_ext_ack *extack)
{
	dev_t dev;
	int err;

	err = lookup_bdev(export->spec.path, &dev);
	if (err) {
		NL_SET_ERR_MSG_FMT(extack, "cannot open %s", export->spec.path);
		return err;
	}
	err = card_claim_mount(export, dev, extack);
	if (!err)
		err = card_claim_disk(export, extack);
	if (!err && !(export->spec.flags & CARD_FLAG_UNCLAIMED))
		err = card_claim_others(export, extack);
	if (err)
		return err;
	/* What was cached before, while others could write, may be older than the disk. */
	sync_blockdev(export->bdev);
	invalidate_inode_pages2(export->bdev->bd_mapping);
	return 0;
}

void card_claim_release(struct card_export *export)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(export->others); i++)
		if (export->others[i])
			bdev_fput(export->others[i]);
	if (export->mnt.mnt)
		path_put(&export->mnt);
	if (export->file)
		bdev_fput(export->file);
}

bool card_claim_good(const struct card_export *export)
{
	return !export->mnt.mnt || sb_rdonly(export->mnt.mnt->mnt_sb);
}
