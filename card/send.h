/* SPDX-License-Identifier: GPL-2.0 */
/* A request as the message that asks for it. */
#ifndef CARD_SEND_H
#define CARD_SEND_H

#include "disk.h"
#include "wire.h"

/**
 * struct card_sending - a request's message, ready but for the data of a write
 * @node: to whom; referenced
 * @peer: that is not the exporter
 * @ask:   the message
 * @file:  follows it, if @files
 * @files: the request reads a file's pages
 */
struct card_sending {
	struct flt_node *node;
	bool peer;
	struct card_wire_block ask;
	struct card_wire_file file;
	bool files;
};

/*
 * Looks into the request, which therefore must not end meanwhile. @again: not the first attempt.
 * On success @to->node has to be given back.
 */
int card_send_prepare(struct card_disk *disk, struct request *rq, u32 use, bool again,
		      struct card_sending *to);
/* Queues it: flt_link_flush() sends it. Of a write it looks into the request, else not. */
int card_send_request(struct card_disk *disk, struct request *rq, struct card_sending *to,
		      gfp_t gfp);

#endif
