// SPDX-License-Identifier: GPL-2.0
/* A request as the message that asks for it. */

#include <linux/crc32c.h>
#include <linux/slab.h>

#include "ask.h"
#include "bounce.h"
#include "file.h"
#include "request.h"
#include "send.h"
#include "trace.h"

static enum card_op card_op_of(struct request *rq)
{
	switch (req_op(rq)) {
	case REQ_OP_WRITE:
		return CARD_OP_WRITE;
	case REQ_OP_FLUSH:
		return CARD_OP_FLUSH;
	default:
		return CARD_OP_READ;
	}
}

static u16 card_flags_of(const struct card_disk *disk, struct request *rq)
{
	u32 set = READ_ONCE(disk->spec.flags);
	u16 flags = 0;

	if (set & CARD_FLAG_KEEP)
		flags |= CARD_REQ_KEEP;
	if (set & CARD_FLAG_NOLOOKUP)
		flags |= CARD_REQ_NOLOOKUP;
	if (rq->cmd_flags & REQ_RAHEAD)
		flags |= CARD_REQ_RAHEAD;
	if (rq->cmd_flags & REQ_FUA)
		flags |= CARD_REQ_FUA;
	return flags;
}

int card_send_prepare(struct card_disk *disk, struct request *rq, u32 use, bool again,
		      struct card_sending *to)
{
	struct card_flight *cmd = blk_mq_rq_to_pdu(rq);
	struct flt_node *peer;
	u16 flags = card_flags_of(disk, rq);
	u8 op = card_op_of(rq);

	memset(to, 0, sizeof(*to));
	to->ask.disk = cpu_to_be32(disk->id);
	to->ask.tag = cpu_to_be32(rq->tag);
	to->ask.gen = cpu_to_be32(use);
	to->ask.origin = cpu_to_be16(CARD_NOBODY);
	to->ask.deliverer = cpu_to_be16(CARD_NOBODY);
	to->ask.op = op;
	if (op != CARD_OP_FLUSH) {
		to->ask.sector = cpu_to_be64(blk_rq_pos(rq));
		to->ask.bytes = cpu_to_be32(blk_rq_bytes(rq));
	}
	if (op == CARD_OP_READ && READ_ONCE(disk->spec.mode) == CARD_MODE_PAGE && !disk->cache &&
	    disk->geo.features & CARD_FEATURE_FILES)
		to->files = card_file_of(disk->gendisk->part0, rq, &to->file);
	if (to->files)
		flags |= CARD_REQ_FILE;
	if (READ_ONCE(cmd->stable))
		flags |= CARD_REQ_STABLE;
	to->ask.flags = cpu_to_be16(flags);
	peer = card_ask_whom(disk, rq, &to->ask, again);

	spin_lock_bh(&disk->lock);
	/* Else it waits for the exporter, as long as its attempts last. */
	if (disk->state == CARD_STATE_LIVE) {
		to->peer = peer;
		to->node = peer ?: flt_node_get(disk->node);
		peer = NULL;
		to->ask.export = cpu_to_be32(disk->export);
		to->ask.epoch = cpu_to_be64(disk->epoch);
	}
	spin_unlock_bh(&disk->lock);
	if (peer)
		flt_node_put(peer);
	return to->node ? 0 : -ENOTCONN;
}

static int card_send_parts(struct card_sending *to, struct kvec *vec, unsigned int nr, gfp_t gfp)
{
	u32 crc = ~0;
	unsigned int i;

	for (i = 1; i < nr; i++)
		crc = crc32c(crc, vec[i].iov_base, vec[i].iov_len);
	to->ask.crc = cpu_to_be32(~crc);
	vec[0].iov_base = &to->ask;
	vec[0].iov_len = sizeof(to->ask);
	return flt_link_queue(to->node, CARD_MSG_WRITE, vec, nr, NULL, gfp);
}

/*
 * Data of a write is copied into the link: the request may end before the link is through.
 * Who changes it between the sum and the copy is told by the exporter that the sum is wrong.
 */
static int card_send_write(struct request *rq, struct card_sending *to, gfp_t gfp)
{
	struct card_bounce *bounce = NULL;
	struct req_iterator iter;
	struct bio_vec bv;
	struct kvec *vec;
	unsigned int nr = 1, i;
	int err = -ENOMEM;

	if (to->ask.flags & cpu_to_be16(CARD_REQ_STABLE)) {
		bounce = card_bounce_new(blk_rq_bytes(rq));
		if (!bounce)
			return -ENOMEM;
		card_bounce_fill(bounce, rq);
		nr += bounce->nr;
	} else {
		rq_for_each_bvec(bv, rq, iter)
			nr++;
	}
	vec = kmalloc_array(nr, sizeof(*vec), gfp | __GFP_NOWARN);
	if (!vec)
		goto out;
	i = 1;
	if (bounce) {
		for (; i < nr; i++) {
			vec[i].iov_base = bvec_virt(&bounce->bvec[i - 1]);
			vec[i].iov_len = bounce->bvec[i - 1].bv_len;
		}
	} else {
		rq_for_each_bvec(bv, rq, iter) {
			vec[i].iov_base = bvec_virt(&bv);
			vec[i++].iov_len = bv.bv_len;
		}
	}
	err = card_send_parts(to, vec, nr, gfp);
	kfree(vec);
out:
	card_bounce_free(bounce);
	return err;
}

int card_send_request(struct card_disk *disk, struct request *rq, struct card_sending *to,
		      gfp_t gfp)
{
	struct kvec vec[2] = {
		{ .iov_base = &to->ask, .iov_len = sizeof(to->ask) },
		{ .iov_base = &to->file, .iov_len = sizeof(to->file) },
	};
	int err;

	trace_card_send(disk, &to->ask);
	if (to->ask.op == CARD_OP_WRITE)
		err = card_send_write(rq, to, gfp);
	else
		err = flt_link_queue(to->node, to->peer ? CARD_MSG_PEER : CARD_MSG_READ, vec,
				     to->files ? 2 : 1, NULL, gfp);
	return err;
}
