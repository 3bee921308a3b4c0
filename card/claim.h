/* SPDX-License-Identifier: GPL-2.0 */
/* An export's disk is its alone. */
#ifndef CARD_CLAIM_H
#define CARD_CLAIM_H

#include <linux/types.h>

struct card_export;
struct netlink_ext_ack;

/*
 * Opens the export's disk and claims it, and what else the command says is the same disk.
 * On error card_claim_release() is still to be called. Process context.
 */
int card_claim_take(struct card_export *export, struct netlink_ext_ack *extack);
void card_claim_release(struct card_export *export);

/* Nobody on this node writes to it behind our back. Any context. */
bool card_claim_good(const struct card_export *export);

#endif
