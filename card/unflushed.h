/* SPDX-License-Identifier: GPL-2.0 */
/* Writes that the exporter has acknowledged and that no flush has covered yet. */
#ifndef CARD_UNFLUSHED_H
#define CARD_UNFLUSHED_H

#include <linux/blk_types.h>
#include <linux/types.h>

struct card_disk;
struct request;

/**
 * struct card_unflushed - a disk's promises
 * @acked:   writes that the exporter has acknowledged and may have in a volatile cache
 * @flushed: so many of them a flush has covered, or were lost
 * @life:    of the disk at the exporter, as it said last
 * @lost:    acknowledged writes were lost
 * @told:    and a flush has failed since
 *
 * All but @acked under the disk's lock; @lost also READ_ONCE.
 */
struct card_unflushed {
	atomic64_t acked;
	u64 flushed;
	u64 life;
	bool lost;
	bool told;
};

/* A flush begins: what it covers. */
u64 card_unflushed_covers(struct card_disk *disk);
/* The exporter has done a write or a flush, which covers @covers: how the request ends. */
blk_status_t card_unflushed_done(struct card_disk *disk, struct request *rq, u64 covers);
/* Attached; under the disk's lock. True: writes were lost, and somebody has to hear of it. */
bool card_unflushed_attached(struct card_disk *disk, u64 life);
/* The exporter has flushed all of it; under the disk's lock. */
void card_unflushed_settle(struct card_disk *disk);
/* Nobody has the disk open: who opens it now was promised nothing. */
void card_unflushed_open(struct card_disk *disk);

#endif
