/* SPDX-License-Identifier: GPL-2.0 */
/* Blocks that other nodes evict and this one may keep. */
#ifndef CARD_SAVE_H
#define CARD_SAVE_H

#include "kmod/link.h"
#include "net.h"

/* Messages; process context. A negative return closes the link. */
int card_save_sink(struct card_net *cn, struct flt_node *node, const struct flt_msg *msg,
		   struct flt_sink *sink);
int card_save_sunk(struct flt_sink *sink, int err);

#endif
