// SPDX-License-Identifier: GPL-2.0
/*
 * Writes that the exporter has acknowledged and no flush has covered are in the volatile
 * cache of its disk, maybe. When its machine is started anew they are lost, and a flush that
 * comes afterwards has nothing left to do and succeeds: whoever asked by fsync() would be
 * told that they are safe. As the write verifier of NFS the exporter's life tells.
 *
 * Which of the flushes that follow is about the lost writes nobody can say here: several
 * programs may each have some, and the block layer keeps flushes back while another is
 * under way. One that succeeds may be the wrong one. So all fail until nobody has the disk
 * open any more; then what those programs believed is gone, and so is their page cache.
 */

#include "counter.h"
#include "disk.h"
#include "unflushed.h"

static bool card_unflushed_matters(const struct card_disk *disk)
{
	return disk->spec.flags & CARD_FLAG_WRITE &&
	       disk->geo.features & CARD_FEATURE_WRITE_CACHE;
}

u64 card_unflushed_covers(struct card_disk *disk)
{
	return atomic64_read(&disk->unflushed.acked);
}

blk_status_t card_unflushed_done(struct card_disk *disk, struct request *rq, u64 covers)
{
	struct card_unflushed *u = &disk->unflushed;
	bool lost;

	if (req_op(rq) == REQ_OP_WRITE && !(rq->cmd_flags & REQ_FUA))
		atomic64_inc(&u->acked);
	if (req_op(rq) != REQ_OP_FLUSH)
		return BLK_STS_OK;
	spin_lock_bh(&disk->lock);
	lost = u->lost;
	if (lost)
		u->told = true;
	else
		u->flushed = max(u->flushed, covers);
	spin_unlock_bh(&disk->lock);
	if (!lost)
		return BLK_STS_OK;
	card_count(disk->cn, CARD_STAT_FLUSHES_FAILED);
	return BLK_STS_IOERR;
}

bool card_unflushed_attached(struct card_disk *disk, u64 life)
{
	struct card_unflushed *u = &disk->unflushed;
	u64 acked = atomic64_read(&u->acked);
	bool lost;

	lockdep_assert_held(&disk->lock);
	lost = card_unflushed_matters(disk) && u->life && u->life != life && u->flushed != acked;
	u->life = life;
	if (!lost)
		return false;
	u->flushed = acked;
	u->told = false;
	WRITE_ONCE(u->lost, true);
	card_count(disk->cn, CARD_STAT_WRITES_LOST);
	return true;
}

void card_unflushed_settle(struct card_disk *disk)
{
	lockdep_assert_held(&disk->lock);
	disk->unflushed.flushed = atomic64_read(&disk->unflushed.acked);
}

void card_unflushed_open(struct card_disk *disk)
{
	struct card_unflushed *u = &disk->unflushed;

	spin_lock_bh(&disk->lock);
	/* Not before somebody has heard of it. */
	if (u->told)
		WRITE_ONCE(u->lost, false);
	u->told = false;
	spin_unlock_bh(&disk->lock);
}
