/* SPDX-License-Identifier: GPL-2.0 */
/* What participants say to each other about a disk, and whom of this node it concerns. */
#ifndef CARD_PART_H
#define CARD_PART_H

#include "cache.h"
#include "kmod/link.h"

struct card_disk;
struct card_export;

/**
 * struct card_part - this node's part in the cooperative cache that a message names
 * @disk:   referenced, or NULL
 * @export: a user of it, or NULL
 * @cache:  of the one that is set
 * @from:   place of the sender
 */
struct card_part {
	struct card_disk *disk;
	struct card_export *export;
	struct card_cache *cache;
	u16 from;
};

/* -ESTALE: no such disk here; -EACCES: the sender does not take part. */
int card_part_find(struct card_part *part, struct card_net *cn, const struct flt_node *node,
		   u32 export, u64 epoch);
void card_part_put(struct card_part *part);

/* How many things one call of a policy may have to tell. */
#define CARD_NOTES	4

/**
 * struct card_notes - what a policy wants to tell others, sent when the lock is dropped
 * @nr:   how many
 * @note: each with the place it goes to, which may be our own
 */
struct card_notes {
	unsigned int nr;
	struct {
		u16 to;
		u8 said;
		u64 block;
		u16 next;
		u16 evictor;
	} note[CARD_NOTES];
};

/* For policies; any context. What does not fit is lost, which costs misses only. */
static inline void card_note(struct card_notes *notes, u16 to, enum card_said said, u64 block,
			     u16 next, u16 evictor)
{
	if (notes->nr == CARD_NOTES)
		return;
	notes->note[notes->nr].to = to;
	notes->note[notes->nr].said = said;
	notes->note[notes->nr].block = block;
	notes->note[notes->nr].next = next;
	notes->note[notes->nr].evictor = evictor;
	notes->nr++;
}

/* Sends them, and applies those to ourselves. Without the cache's lock. */
void card_notes_send(struct card_cache *cache, struct card_notes *notes);

/* INDEX. Process context. A negative return closes the link. */
int card_part_index(struct card_net *cn, struct flt_node *node, const struct flt_msg *msg);

#endif
