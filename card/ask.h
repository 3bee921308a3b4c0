/* SPDX-License-Identifier: GPL-2.0 */
/* What an attached disk asks its cache: before a request is sent, and when data has come. */
#ifndef CARD_ASK_H
#define CARD_ASK_H

#include <linux/blk-mq.h>

#include "disk.h"

/* A hosted block is there: the request is filled with it. */
bool card_ask_hosted(struct card_disk *disk, struct request *rq);

/*
 * Whom to ask instead of the exporter: a referenced node, or NULL. Sets what @ask needs.
 * The request must not end meanwhile.
 */
struct flt_node *card_ask_whom(struct card_disk *disk, struct request *rq,
			       struct card_wire_block *ask, bool again);

/* The data of @head has come from @node and is right; the request's pages are locked yet. */
void card_ask_arrived(struct card_disk *disk, struct request *rq, const struct flt_node *node,
		      const struct card_wire_block *head);

/* May this node answer for the disk. */
bool card_ask_answers(const struct card_disk *disk, const struct flt_node *node);

#endif
