/* SPDX-License-Identifier: GPL-2.0 */
/* Requests that nodes serve each other from memory, and pass on. */
#ifndef CARD_PEER_H
#define CARD_PEER_H

#include "cache.h"
#include "kmod/link.h"

/* PEER: a request to one who is not the exporter. A negative return closes the link. */
int card_peer_read(struct card_net *cn, struct flt_node *node, const struct flt_msg *msg);

/* At the exporter: True: another participant has been asked to serve it. */
bool card_peer_divert(struct card_cache *cache, const struct card_wire_block *ask);

/* Is the request one for exactly one block. */
static inline bool card_peer_whole(const struct card_wire_block *ask)
{
	return ask->op == CARD_OP_READ && be32_to_cpu(ask->bytes) == CARD_BLOCK &&
	       !(be64_to_cpu(ask->sector) % CARD_BLOCK_SECTORS);
}

static inline u64 card_peer_block(const struct card_wire_block *ask)
{
	return be64_to_cpu(ask->sector) / CARD_BLOCK_SECTORS;
}

#endif
