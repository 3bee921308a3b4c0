/* SPDX-License-Identifier: GPL-2.0 */
/* The exporter's part in a disk: asked for, answering, lost, asked for again. */
#ifndef CARD_ATTACH_H
#define CARD_ATTACH_H

#include <linux/types.h>

struct card_disk;
struct card_net;
struct card_wire_attached;
struct card_wire_block;
struct card_wire_detach;
struct flt_node;

int card_attach_init(void);
/* No disk is left. */
void card_attach_exit(void);

/* For a disk that is being made: nothing runs yet. */
void card_attach_prepare(struct card_disk *disk);
/* Ask, until there is an answer; the first completes @disk->answered. */
void card_attach_begin(struct card_disk *disk);
/* Stop asking, for good, and say so to the exporter. May sleep. */
void card_attach_end(struct card_disk *disk);

/* Runs @publish of a disk that has been answered. */
void card_attach_publish(struct card_disk *disk);

/* All that is in flight again, or never, by card_disk_fate(). Any context. */
void card_attach_settle(struct card_disk *disk);

/* The exporter's answer to ATTACH. */
void card_attach_answered(struct card_disk *disk, const struct card_wire_attached *answer);
/* The exporter does not know the address @head names: ask again. Any context. */
void card_attach_stale(struct card_disk *disk, const struct card_wire_block *head);
/* The exporter says that the export has ended. Process context. */
void card_attach_ended(struct card_net *cn, const struct flt_node *node,
		       const struct card_wire_detach *bye);
/* Link events of a node. Process context. */
void card_attach_node_up(struct card_net *cn, struct flt_node *node);
void card_attach_node_down(struct card_net *cn, struct flt_node *node);

/* A sentence on why a disk is not LIVE. */
const char *card_attach_reason(const struct card_disk *disk, u8 state, int why);

#endif
