// SPDX-License-Identifier: GPL-2.0
/*
 * What is in flight, sent again when the exporter is back: in the order in which it came, so that
 * the later one of two writes to a place stays the later one.
 */

#include <linux/slab.h>
#include <linux/sort.h>

#include "request.h"

/**
 * struct card_again - what is in flight, to be sent again in the order in which it came
 * @nr:  there are
 * @max: places
 * @rq:  number of each request and its tag, as in struct card_wire_block
 */
struct card_again {
	unsigned int nr;
	unsigned int max;
	struct {
		u32 use;
		u32 tag;
	} rq[] __counted_by(max);
};

static int card_again_order(const void *a, const void *b)
{
	/* Numbers may wrap. */
	s32 later = *(const u32 *)a - *(const u32 *)b;

	return later < 0 ? -1 : later > 0;
}

static bool card_again_note(struct request *rq, void *arg)
{
	struct card_flight *cmd = blk_mq_rq_to_pdu(rq);
	u32 life = atomic_read(&cmd->life);
	struct card_again *again = arg;

	if ((life & CARD_CMD_STATE) == CARD_CMD_SENT && again->nr < again->max) {
		again->rq[again->nr].use = life & ~CARD_CMD_STATE;
		again->rq[again->nr++].tag = rq->tag;
	}
	return true;
}

static void card_again_send(struct card_disk *disk, u32 tag, u32 use)
{
	struct card_wire_block head = { .tag = cpu_to_be32(tag), .gen = cpu_to_be32(use) };
	struct request *rq = card_request_find(disk, &head);
	struct card_flight *cmd;

	if (!rq)
		return;
	/* It may be another life of the exporter's, which knows nothing of it. */
	cmd = blk_mq_rq_to_pdu(rq);
	card_flight_heard(cmd, false);
	card_request_resend(disk, rq, use);
	card_request_put(disk);
}

void card_request_resend_all(struct card_disk *disk)
{
	unsigned int i, max = disk->set.queue_depth;
	struct card_again *again;

	/* What is not sent now, for want of memory, the timer of each request sends. */
	again = kzalloc(struct_size(again, rq, max), GFP_NOIO | __GFP_NOWARN);
	if (!again)
		return;
	again->max = max;
	blk_mq_tagset_busy_iter(&disk->set, card_again_note, again);
	sort(again->rq, again->nr, sizeof(again->rq[0]), card_again_order, NULL);
	for (i = 0; i < again->nr; i++)
		card_again_send(disk, again->rq[i].tag, again->rq[i].use);
	kfree(again);
}
