// SPDX-License-Identifier: GPL-2.0
/*
 * Requests of an attached disk. A tag of the block layer is a place in the list of
 * requests in flight; the block layer's timer of each request says when to ask again.
 * Requests are sent at once, many at a time, and answers come in any order.
 *
 * A request waits for its answer without end, unless the disk was told otherwise: a link or
 * an exporter that comes back, a slow disk, a busy processor are no errors. What is asked for
 * again, ever more seldom, the exporter begins anew only if it does not work on it yet.
 *
 * An answer names the use of the tag that it is for. Who ends a request, or receives
 * into its pages, first takes it by moving its state on from SENT: so a late answer,
 * a second one, or one that comes while the timer expires, does no harm.
 */

#include <linux/crc32c.h>
#include <linux/log2.h>
#include <linux/slab.h>

#include "kmod/compat/bvec.h"
#include "ask.h"
#include "attach.h"
#include "bounce.h"
#include "counter.h"
#include "parcel.h"
#include "request.h"
#include "send.h"
#include "trace.h"

/* After 1, 2, 4... time-outs a request is asked for again, later after each so many. */
#define CARD_ASK_EVERY	64

/* Answers that are damaged, not counting the first, whose pages may have been changed. */
#define CARD_DAMAGED_MAX	3U

static bool card_cmd_move(struct card_flight *cmd, u32 use, enum card_cmd_state from,
			  enum card_cmd_state to)
{
	int old = use | from;

	return atomic_try_cmpxchg(&cmd->life, &old, use | to);
}

static void card_complete_rq(struct request *rq)
{
	struct card_flight *cmd = blk_mq_rq_to_pdu(rq);
	struct card_disk *disk = rq->q->queuedata;
	struct card_net *cn = disk->cn;

	atomic_dec(&disk->flying);
	if (cmd->status) {
		card_count(cn, CARD_STAT_ERRORS);
	} else if (req_op(rq) == REQ_OP_READ) {
		card_count(cn, CARD_STAT_READS);
		card_count_add(cn, CARD_STAT_BYTES_READ, blk_rq_bytes(rq));
		card_count_add(cn, CARD_STAT_TOTAL_NS, ktime_get_ns() - cmd->begun);
	} else if (req_op(rq) == REQ_OP_WRITE) {
		card_count(cn, CARD_STAT_WRITES);
		card_count_add(cn, CARD_STAT_BYTES_WRITTEN, blk_rq_bytes(rq));
	}
	trace_card_complete(disk, rq, cmd->status, ktime_get_ns() - cmd->begun, cmd->tries);
	blk_mq_end_request(rq, cmd->status);
}

/*
 * Here and now: whoever ends a request may sleep, and the block layer's softirq would
 * have to be run by another thread.
 */
static void card_cmd_end(struct request *rq, blk_status_t status)
{
	struct card_flight *cmd = blk_mq_rq_to_pdu(rq);

	cmd->status = status;
	blk_mq_complete_request_direct(rq, card_complete_rq);
}

/* Ends a request that is SENT, if no answer will come: who saw to that may not have seen it. */
static void card_cmd_settle(struct card_disk *disk, struct request *rq, u32 use)
{
	blk_status_t fate;

	/* Pairs with who changes the disk's state and looks at requests then. */
	smp_mb();
	fate = card_disk_fate(disk);
	if (fate && card_cmd_move(blk_mq_rq_to_pdu(rq), use, CARD_CMD_SENT, CARD_CMD_OVER))
		card_cmd_end(rq, fate);
}

/* Lets others end the request again; nobody else will if the disk has died meanwhile. */
static void card_cmd_release(struct card_disk *disk, struct request *rq, u32 use)
{
	card_cmd_move(blk_mq_rq_to_pdu(rq), use, CARD_CMD_FILLING, CARD_CMD_SENT);
	card_cmd_settle(disk, rq, use);
}

/* What it is asked for the first time the exporter answers when it is done: that is no silence. */
static void card_flight_ask(struct card_flight *cmd)
{
	u64 now = ktime_get_ns();

	WRITE_ONCE(cmd->asked, now);
	if (READ_ONCE(cmd->has) && !READ_ONCE(cmd->silent))
		WRITE_ONCE(cmd->silent, now);
	WRITE_ONCE(cmd->has, true);
}

/* A further attempt, while the answer to an earlier one may come at any time. */
void card_request_resend(struct card_disk *disk, struct request *rq, u32 use)
{
	struct card_flight *cmd = blk_mq_rq_to_pdu(rq);
	struct card_sending to;
	bool write;
	int err;

	if (!card_cmd_move(cmd, use, CARD_CMD_SENT, CARD_CMD_FILLING))
		return;
	err = card_send_prepare(disk, rq, use, true, &to);
	write = to.ask.op == CARD_OP_WRITE;
	if (!err)
		card_flight_ask(cmd);
	/* A read's message needs nothing more of the request, and its answer must be welcome. */
	if (err || !write)
		card_cmd_release(disk, rq, use);
	if (err)
		return;
	card_count(disk->cn, CARD_STAT_RESENT);
	err = card_send_request(disk, rq, &to, GFP_NOWAIT);
	if (!err)
		flt_link_flush(to.node, false);
	else
		card_flight_heard(cmd, false);	/* nobody was asked */
	flt_node_put(to.node);
	if (write)
		card_cmd_release(disk, rq, use);
}

/* Written by reclaim to make room. Not if it was merged with what somebody wants to keep. */
static bool card_request_swaps(struct request *rq)
{
	struct bio *bio;

	if (req_op(rq) != REQ_OP_WRITE || !(rq->cmd_flags & REQ_SWAP))
		return false;
	__rq_for_each_bio(bio, rq)
		if (!(bio->bi_opf & REQ_SWAP))
			return false;
	return true;
}

/* Sends the requests that are queued for the exporter. */
static void card_flush(struct card_disk *disk)
{
	struct flt_node *node;

	spin_lock_bh(&disk->lock);
	node = flt_node_get(disk->node);
	spin_unlock_bh(&disk->lock);
	/* As Nagle: a lone request leaves at once, others gather while answers are awaited. */
	flt_link_flush(node, atomic_read(&disk->flying) == 1);
	flt_node_put(node);
}

static blk_status_t card_request_begin(struct card_disk *disk, struct request *rq)
{
	struct card_flight *cmd = blk_mq_rq_to_pdu(rq);
	u32 use = atomic_add_return(CARD_CMD_USE, &disk->uses);
	struct card_sending to;
	blk_status_t fate;
	int err;

	switch (req_op(rq)) {
	case REQ_OP_READ:
		break;
	case REQ_OP_WRITE:
	case REQ_OP_FLUSH:
		if (disk->spec.flags & CARD_FLAG_WRITE)
			break;
		fallthrough;
	default:
		return BLK_STS_NOTSUPP;
	}
	if (card_request_swaps(rq)) {
		/* The page stays in memory, which is better than to wait for it there. */
		card_count(disk->cn, CARD_STAT_SWAP_REFUSED);
		pr_warn_ratelimited("card%d: no swap on a remote disk\n", disk->index);
		return BLK_STS_NOTSUPP;
	}
	fate = card_disk_fate(disk);
	if (fate)
		return fate;

	cmd->tries = 0;
	cmd->damaged = 0;
	cmd->status = BLK_STS_OK;
	cmd->stable = false;
	cmd->bvec = NULL;
	cmd->bounce = NULL;
	cmd->begun = ktime_get_ns();
	WRITE_ONCE(cmd->asked, cmd->begun);
	card_flight_heard(cmd, false);
	cmd->covers = card_unflushed_covers(disk);
	card_count(disk->cn, CARD_STAT_REQUESTS);
	blk_mq_start_request(rq);
	atomic_inc(&disk->flying);
	/* Nobody else may end it while the cache is looked at. */
	atomic_set_release(&cmd->life, use | CARD_CMD_FILLING);
	if (card_ask_hosted(disk, rq)) {
		card_cmd_move(cmd, use, CARD_CMD_FILLING, CARD_CMD_OVER);
		card_cmd_end(rq, BLK_STS_OK);
		return BLK_STS_OK;
	}
	err = card_send_prepare(disk, rq, use, false, &to);
	WRITE_ONCE(cmd->has, !err && !to.peer);
	atomic_set_release(&cmd->life, use | CARD_CMD_SENT);
	if (!err) {
		err = card_send_request(disk, rq, &to, GFP_NOIO);
		if (to.peer)
			flt_link_flush(to.node, false);
		flt_node_put(to.node);
	}
	if ((err == -ENOBUFS || err == -ENOMEM) &&
	    card_cmd_move(cmd, use, CARD_CMD_SENT, CARD_CMD_IDLE)) {
		atomic_dec(&disk->flying);
		return BLK_STS_RESOURCE;
	}
	card_cmd_settle(disk, rq, use);
	return BLK_STS_OK;
}

static blk_status_t card_queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd)
{
	struct card_disk *disk = hctx->queue->queuedata;
	blk_status_t status = card_request_begin(disk, bd->rq);

	if (bd->last && status == BLK_STS_OK)
		card_flush(disk);
	return status;
}

/* What was to be the last of a batch was not taken. */
static void card_commit_rqs(struct blk_mq_hw_ctx *hctx)
{
	card_flush(hctx->queue->queuedata);
}

/* Has it waited for as long as the disk was told to. */
static bool card_request_is_over(const struct card_disk *disk, struct card_flight *cmd)
{
	u32 retries = READ_ONCE(disk->spec.retries), fail_fast = READ_ONCE(disk->spec.fail_fast);
	u64 silent = READ_ONCE(cmd->silent);

	if (retries != CARD_RETRIES_ALWAYS && cmd->tries >= retries)
		return true;
	/* An exporter that is away is for attach.c. This one is there, and was asked in vain. */
	if (!fail_fast || !silent || READ_ONCE(disk->state) != CARD_STATE_LIVE)
		return false;
	silent = max(silent, READ_ONCE(disk->live_since));
	return ktime_get_ns() - silent > (u64)fail_fast * NSEC_PER_SEC;
}

/*
 * Who is slow is not helped by being asked often. But who shall be known to be silent after
 * some time is asked twice in that time: what it does not say unasked is no sign of silence.
 */
static bool card_request_is_due(const struct card_disk *disk, const struct card_flight *cmd)
{
	u64 half = (u64)READ_ONCE(disk->spec.fail_fast) * (NSEC_PER_SEC / 2);

	if (is_power_of_2(cmd->tries) || !(cmd->tries % CARD_ASK_EVERY))
		return true;
	return half && ktime_get_ns() - READ_ONCE(cmd->asked) >= half;
}

/* A time-out is over: ask again, or end it. */
static void card_request_again(struct card_disk *disk, struct request *rq, u32 use)
{
	struct card_flight *cmd = blk_mq_rq_to_pdu(rq);

	if (card_request_is_over(disk, cmd)) {
		if (card_cmd_move(cmd, use, CARD_CMD_SENT, CARD_CMD_OVER))
			card_cmd_end(rq, BLK_STS_TIMEOUT);
		return;
	}
	cmd->tries++;
	if (card_request_is_due(disk, cmd))
		card_request_resend(disk, rq, use);
}

/*
 * The sum of what came, here or at the exporter, is not that of what was sent. The first
 * time its pages may have been changed meanwhile, which is no error, and no attempt either.
 */
static void card_request_doubt(struct card_disk *disk, struct request *rq,
			       const struct card_wire_block *head)
{
	struct card_flight *cmd = blk_mq_rq_to_pdu(rq);
	u32 use = be32_to_cpu(head->gen);

	card_flight_heard(cmd, false);
	if (head->flags & cpu_to_be16(CARD_REQ_STABLE)) {
		card_count(disk->cn, CARD_STAT_BAD_CRC);
		pr_warn_ratelimited("card%d: data to or from %s is damaged\n", disk->index,
				    disk->spec.node);
		/* Who is patient waits for an answer, not for a better one. */
		if (cmd->damaged++ < min(READ_ONCE(disk->spec.retries), CARD_DAMAGED_MAX))
			card_request_resend(disk, rq, use);
		else if (card_cmd_move(cmd, use, CARD_CMD_SENT, CARD_CMD_OVER))
			card_cmd_end(rq, BLK_STS_IOERR);
		return;
	}
	card_count(disk->cn, CARD_STAT_RACED);
	/* Of several attempts that were under way one is repeated. */
	if (!xchg(&cmd->stable, true))
		card_request_resend(disk, rq, use);
}

/* The timer of a request: one attempt is over. */
static enum blk_eh_timer_return card_timeout(struct request *rq)
{
	struct card_flight *cmd = blk_mq_rq_to_pdu(rq);
	struct card_disk *disk = rq->q->queuedata;
	u32 life = atomic_read(&cmd->life);
	u32 use = life & ~CARD_CMD_STATE;

	if ((life & CARD_CMD_STATE) == CARD_CMD_SENT) {
		card_count(disk->cn, CARD_STAT_TIMEOUTS);
		card_request_again(disk, rq, use);
		life = atomic_read(&cmd->life);
	}
	/* FILLING ends when the data is there, or the link has noticed that it is dead. */
	return (life & CARD_CMD_STATE) == CARD_CMD_OVER ? BLK_EH_DONE : BLK_EH_RESET_TIMER;
}

const struct blk_mq_ops card_mq_ops = {
	.queue_rq = card_queue_rq,
	.commit_rqs = card_commit_rqs,
	.complete = card_complete_rq,
	.timeout = card_timeout,
};

/*
 * The request that an answer is for, if it is still that one; in state SENT at this moment.
 *
 * A tag may still lead to the last request that had it, which is memory of the scheduler's, freed
 * when another one is chosen, or of the queue's, for flushes. Both are freed only while nothing
 * uses the queue; and where nothing does, nothing is in flight that could be answered.
 */
struct request *card_request_find(struct card_disk *disk, const struct card_wire_block *head)
{
	u32 tag = be32_to_cpu(head->tag), use = be32_to_cpu(head->gen);
	struct request_queue *q = READ_ONCE(disk->queue);
	struct card_flight *cmd;
	struct request *rq;

	if (tag >= disk->set.queue_depth || !q || !percpu_ref_tryget(&q->q_usage_counter))
		return NULL;
	rq = blk_mq_tag_to_rq(disk->set.tags[0], tag);
	cmd = rq ? blk_mq_rq_to_pdu(rq) : NULL;
	if (cmd && atomic_read(&cmd->life) == (int)(use | CARD_CMD_SENT))
		return rq;
	card_request_put(disk);
	return NULL;
}

void card_request_put(struct card_disk *disk)
{
	percpu_ref_put(&disk->queue->q_usage_counter);
}

/* The parts of a request as an iterator over its pages. */
static int card_request_iter(struct request *rq, struct card_flight *cmd, struct iov_iter *iter)
{
	struct bio *bio = rq->bio;
	struct req_iterator each;
	unsigned int nr = 0;
	struct bio_vec bv;

	if (READ_ONCE(cmd->stable)) {
		cmd->bounce = card_bounce_new(blk_rq_bytes(rq));
		if (!cmd->bounce)
			return -ENOMEM;
		iov_iter_bvec(iter, ITER_DEST, cmd->bounce->bvec, cmd->bounce->nr,
			      blk_rq_bytes(rq));
		return 0;
	}
	rq_for_each_bvec(bv, rq, each)
		nr++;
	if (bio == rq->biotail) {
		iov_iter_bvec(iter, ITER_DEST, __bvec_iter_bvec(bio->bi_io_vec, bio->bi_iter), nr,
			      blk_rq_bytes(rq));
		iter->iov_offset = bio->bi_iter.flt_bvec_done;
		return 0;
	}
	cmd->bvec = kmalloc_array(nr, sizeof(*cmd->bvec), GFP_NOIO | __GFP_NOWARN);
	if (!cmd->bvec)
		return -ENOMEM;
	nr = 0;
	rq_for_each_bvec(bv, rq, each)
		cmd->bvec[nr++] = bv;
	iov_iter_bvec(iter, ITER_DEST, cmd->bvec, nr, blk_rq_bytes(rq));
	return 0;
}

/**
 * struct card_fill - an answer's data on its way into a request
 * @disk: referenced
 * @rq:   FILLING; to be put
 * @node: who answers; referenced
 * @head: of the answer
 */
struct card_fill {
	struct card_disk *disk;
	struct flt_node *node;
	struct request *rq;
	struct card_wire_block head;
};

int card_request_sink(struct card_net *cn, struct flt_node *node, const struct flt_msg *msg,
		      struct flt_sink *sink)
{
	const struct card_wire_block *head = msg->body;
	u32 use = be32_to_cpu(head->gen);
	struct card_disk *disk;
	struct card_fill *fill;
	struct card_flight *cmd;
	struct request *rq;

	sink->priv = NULL;
	if (use & CARD_CMD_STATE)
		return -EBADMSG;
	disk = card_disk_find(cn, be32_to_cpu(head->disk));
	rq = disk && card_ask_answers(disk, node) ? card_request_find(disk, head) : NULL;
	fill = rq ? kmalloc(sizeof(*fill), GFP_NOIO | __GFP_NOWARN) : NULL;
	if (!fill)
		goto late;
	cmd = blk_mq_rq_to_pdu(rq);
	if (!card_cmd_move(cmd, use, CARD_CMD_SENT, CARD_CMD_FILLING))
		goto late;
	/* From here on it cannot end without us, and is what it was when it was sent. */
	if (req_op(rq) != REQ_OP_READ || blk_rq_bytes(rq) != msg->len - sizeof(*head) ||
	    blk_rq_pos(rq) != be64_to_cpu(head->sector) ||
	    card_request_iter(rq, cmd, &sink->iter)) {
		card_count(cn, CARD_STAT_BAD_REPLY);
		card_cmd_release(disk, rq, use);
		goto drop;
	}
	cmd->filled = ktime_get_ns();
	fill->disk = disk;
	fill->rq = rq;
	fill->node = flt_node_get(node);
	fill->head = *head;
	sink->priv = fill;
	return 0;

late:
	card_count(cn, CARD_STAT_LATE);
drop:
	kfree(fill);
	if (rq)
		card_request_put(disk);
	if (disk)
		card_disk_put(disk);
	return 0;	/* the data is thrown away */
}

static u32 card_request_crc(struct request *rq, struct card_bounce *bounce)
{
	struct req_iterator iter;
	struct bio_vec bv;
	u32 crc = ~0;

	if (bounce)
		return card_crc(bounce->bvec, bounce->nr);

	rq_for_each_segment(bv, rq, iter) {
		void *data = bvec_kmap_local(&bv);

		crc = crc32c(crc, data, bv.bv_len);
		kunmap_local(data);
	}
	return ~crc;
}

static void card_request_account(struct card_net *cn, const struct card_fill *fill,
				 const struct card_flight *cmd)
{
	static const enum card_stat from[] = {
		[CARD_SOURCE_DISK]	= CARD_STAT_FROM_DISK,
		[CARD_SOURCE_CACHE]	= CARD_STAT_FROM_CACHE,
		[CARD_SOURCE_PEER]	= CARD_STAT_FROM_PEER,
	};
	u32 service_ns = be32_to_cpu(fill->head.service_ns);
	u32 disk_us = be32_to_cpu(fill->head.disk_us);
	u64 now = ktime_get_ns();

	if (fill->head.source < ARRAY_SIZE(from))
		card_count(cn, from[fill->head.source]);
	card_count_add(cn, CARD_STAT_COPY_NS, now - cmd->filled);
	card_count_add(cn, CARD_STAT_SERVICE_NS, service_ns);
	card_count_add(cn, CARD_STAT_REMOTE_DISK_US, disk_us);
	trace_card_data(fill->disk, &fill->head, now - cmd->begun, now - cmd->filled, service_ns,
			disk_us);
}

int card_request_sunk(struct flt_sink *sink, int err)
{
	struct card_fill *fill = sink->priv;
	struct card_bounce *bounce;
	struct card_disk *disk;
	struct card_flight *cmd;
	u32 use;

	if (!fill)
		return 0;
	disk = fill->disk;
	cmd = blk_mq_rq_to_pdu(fill->rq);
	use = be32_to_cpu(fill->head.gen);
	kfree(cmd->bvec);
	cmd->bvec = NULL;
	bounce = cmd->bounce;
	cmd->bounce = NULL;
	if (err) {
		/* The link broke in the middle; it will be sent again. */
		card_cmd_release(disk, fill->rq, use);
	} else if (card_request_crc(fill->rq, bounce) != be32_to_cpu(fill->head.crc)) {
		card_cmd_release(disk, fill->rq, use);
		card_request_doubt(disk, fill->rq, &fill->head);
	} else {
		if (bounce)
			card_bounce_empty(bounce, fill->rq);
		card_request_account(disk->cn, fill, cmd);
		card_ask_arrived(disk, fill->rq, fill->node, &fill->head);
		card_cmd_move(cmd, use, CARD_CMD_FILLING, CARD_CMD_OVER);
		card_cmd_end(fill->rq, BLK_STS_OK);
	}
	card_request_put(disk);
	card_bounce_free(bounce);
	flt_node_put(fill->node);
	kfree(fill);
	card_disk_put(disk);
	return 0;
}

static u64 card_covers_of(struct request *rq)
{
	const struct card_flight *cmd = blk_mq_rq_to_pdu(rq);

	return cmd->covers;
}

/* DONE: written, flushed, or an error. */
int card_request_done(struct card_net *cn, struct flt_node *node, const struct flt_msg *msg)
{
	const struct card_wire_block *head = msg->body;
	u32 use = be32_to_cpu(head->gen);
	u32 status = be32_to_cpu(head->status);
	struct card_disk *disk;
	struct request *rq;

	if (msg->len != sizeof(*head) || use & CARD_CMD_STATE || status >= MAX_ERRNO)
		return -EBADMSG;
	disk = card_disk_find(cn, be32_to_cpu(head->disk));
	rq = disk && card_ask_answers(disk, node) ? card_request_find(disk, head) : NULL;
	if (!rq) {
		card_count(cn, CARD_STAT_LATE);
	} else if (!card_disk_answers(disk, node)) {
		/* A participant that has it not and can pass nothing on. The exporter has it. */
		card_count(cn, CARD_STAT_PEER_REFUSED);
		card_request_resend(disk, rq, use);
	} else if (status == ESTALE) {
		/* The exporter was restarted: the request waits until it knows us again. */
		card_attach_stale(disk, head);
	} else if (status == EINPROGRESS || status == EBUSY) {
		/* It is there, and slow, or has enough to do for us. The timer asks again. */
		card_flight_heard(blk_mq_rq_to_pdu(rq), status == EINPROGRESS);
	} else if (status == EILSEQ) {
		card_request_doubt(disk, rq, head);
	} else if (status == ENOMEM || (!status && req_op(rq) == REQ_OP_READ)) {
		/* The timer asks again. */
		if (status)
			card_flight_heard(blk_mq_rq_to_pdu(rq), false);
		else
			card_count(cn, CARD_STAT_BAD_REPLY);
	} else if (card_cmd_move(blk_mq_rq_to_pdu(rq), use, CARD_CMD_SENT, CARD_CMD_OVER)) {
		card_cmd_end(rq, status ? errno_to_blk_status(-(int)status) :
					  card_unflushed_done(disk, rq, card_covers_of(rq)));
	}
	if (rq)
		card_request_put(disk);
	if (disk)
		card_disk_put(disk);
	return 0;
}

static bool card_request_fail_one(struct request *rq, void *arg)
{
	struct card_flight *cmd = blk_mq_rq_to_pdu(rq);
	u32 life = atomic_read(&cmd->life);

	if ((life & CARD_CMD_STATE) == CARD_CMD_SENT)
		card_cmd_settle(arg, rq, life & ~CARD_CMD_STATE);
	return true;
}

void card_request_fail_all(struct card_disk *disk)
{
	blk_mq_tagset_busy_iter(&disk->set, card_request_fail_one, disk);
}
