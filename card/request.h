/* SPDX-License-Identifier: GPL-2.0 */
/* Requests of an attached disk, from the block layer to the wire and back. */
#ifndef CARD_REQUEST_H
#define CARD_REQUEST_H

#include "disk.h"
#include "kmod/link.h"

/**
 * enum card_cmd_state - low two bits of card_flight.life; the rest is the request's number
 * @CARD_CMD_IDLE:    not given to us
 * @CARD_CMD_SENT:    in flight, or waits for the exporter to come back
 * @CARD_CMD_FILLING: its data is being received; nobody else may end it
 * @CARD_CMD_OVER:    being completed
 */
enum card_cmd_state {
	CARD_CMD_IDLE,
	CARD_CMD_SENT,
	CARD_CMD_FILLING,
	CARD_CMD_OVER,
};

#define CARD_CMD_STATE	3
#define CARD_CMD_USE	4

/**
 * struct card_flight - our part of a request
 * @life:   number and state: a late answer finds another number
 * @tries:  time-outs that are over; only by queue_rq and the timer
 * @damaged: answers of which the sum was wrong, or that said so
 * @begun:  ktime_get_ns() of the first attempt
 * @asked:  the same of the last one; READ_ONCE
 * @silent: the same of the first one since the exporter last said something of it, if that
 *	    repeated what it @has; 0: none. READ_ONCE
 * @has:    the exporter was asked and has not refused: asked again it says so, if it is slow.
 *	    READ_ONCE
 * @covers: of a flush: writes that were acknowledged before it
 * @filled: the same when its data began to come
 * @status: how it ended
 * @stable: a sum was wrong: its data goes by way of pages of our own; READ_ONCE
 * @bvec:   parts of the request while data is received into it, when it has several bios
 * @bounce: pages that receive instead of the request's own, when it is @stable
 */
struct card_flight {
	atomic_t life;
	u32 tries;
	u32 damaged;
	u64 begun;
	u64 asked;
	u64 silent;
	bool has;
	u64 covers;
	u64 filled;
	blk_status_t status;
	bool stable;
	struct bio_vec *bvec;
	struct card_bounce *bounce;
};

/* The exporter has spoken of it, and works on it, or not. */
static inline void card_flight_heard(struct card_flight *cmd, bool has)
{
	WRITE_ONCE(cmd->has, has);
	WRITE_ONCE(cmd->silent, 0);
}

/* Messages; process context. A negative return closes the link. */
int card_request_sink(struct card_net *cn, struct flt_node *node, const struct flt_msg *msg,
		      struct flt_sink *sink);
int card_request_sunk(struct flt_sink *sink, int err);
int card_request_done(struct card_net *cn, struct flt_node *node, const struct flt_msg *msg);

/*
 * One in flight: which an answer is for, in state SENT at this moment. Until card_request_put()
 * its memory stays, whoever ends it. A further attempt.
 */
struct request *card_request_find(struct card_disk *disk, const struct card_wire_block *head);
void card_request_put(struct card_disk *disk);
void card_request_resend(struct card_disk *disk, struct request *rq, u32 use);

/* All that is in flight: again (LIVE), or never (card_disk_fate()). Process context. */
void card_request_resend_all(struct card_disk *disk);
void card_request_fail_all(struct card_disk *disk);

#endif
