// SPDX-License-Identifier: GPL-2.0
/* Participants: finding the cache that a message is about, and news about copies. */

#include "counter.h"
#include "disk.h"
#include "export.h"
#include "part.h"
#include "trace.h"

static struct card_disk *card_part_disk(struct card_net *cn, u32 export, u64 epoch)
{
	struct card_disk *disk, *found = NULL;
	unsigned long id;

	if (!export)
		return NULL;	/* the number of none: a cache whose export has ended */

	rcu_read_lock();
	xa_for_each(&cn->disks, id, disk) {
		struct card_cache *cache = READ_ONCE(disk->cache);

		if (cache && READ_ONCE(cache->epoch) == epoch &&
		    READ_ONCE(cache->export) == export && kref_get_unless_zero(&disk->ref)) {
			found = disk;
			break;
		}
	}
	rcu_read_unlock();
	return found;
}

int card_part_find(struct card_part *part, struct card_net *cn, const struct flt_node *node,
		   u32 export, u64 epoch)
{
	memset(part, 0, sizeof(*part));
	part->export = card_export_find(cn, export, epoch);
	if (part->export) {
		part->cache = part->export->cache;
	} else {
		part->disk = card_part_disk(cn, export, epoch);
		if (part->disk)
			part->cache = part->disk->cache;
	}
	if (!part->cache) {
		card_part_put(part);
		return -ESTALE;
	}
	part->from = card_cache_place(part->cache, node);
	if (part->from == CARD_NOBODY) {
		card_count(cn, CARD_STAT_DENIED);
		card_part_put(part);
		return -EACCES;
	}
	return 0;
}

void card_part_put(struct card_part *part)
{
	if (part->export)
		card_export_put(part->export);
	if (part->disk)
		card_disk_put(part->disk);
	memset(part, 0, sizeof(*part));
}

static void card_note_send(struct card_cache *cache, u16 to, const struct card_wire_index *said)
{
	struct kvec vec = { .iov_base = (void *)said, .iov_len = sizeof(*said) };
	struct flt_node *node = card_cache_node(cache, to);

	if (!node)
		return;
	if (!flt_link_send(node, CARD_MSG_INDEX, &vec, 1, GFP_ATOMIC))
		card_count(cache->cn, CARD_STAT_INDEX_SENT);
	flt_node_put(node);
}

void card_notes_send(struct card_cache *cache, struct card_notes *notes)
{
	struct card_wire_index said = {
		.epoch = cpu_to_be64(READ_ONCE(cache->epoch)),
		.export = cpu_to_be32(READ_ONCE(cache->export)),
	};
	unsigned int i;

	for (i = 0; i < notes->nr; i++) {
		said.block = cpu_to_be64(notes->note[i].block);
		said.said = notes->note[i].said;
		said.next = cpu_to_be16(notes->note[i].next);
		said.evictor = cpu_to_be16(notes->note[i].evictor);
		if (notes->note[i].to != cache->self) {
			card_note_send(cache, notes->note[i].to, &said);
			continue;
		}
		/* This may add more, of which there are at most CARD_NOTES in all. */
		spin_lock_irq(&cache->lock);
		cache->policy->keep_consistency(cache, cache->self, &said, notes);
		spin_unlock_irq(&cache->lock);
	}
}

int card_part_index(struct card_net *cn, struct flt_node *node, const struct flt_msg *msg)
{
	const struct card_wire_index *said = msg->body;
	struct card_notes notes = {};
	struct card_part part;

	if (msg->len != sizeof(*said) || said->said > CARD_SAID_NEW_PREV ||
	    memchr_inv(said->zero, 0, sizeof(said->zero)))
		return -EBADMSG;
	if (card_part_find(&part, cn, node, be32_to_cpu(said->export), be64_to_cpu(said->epoch)))
		return 0;
	card_count(cn, CARD_STAT_INDEX_RECEIVED);
	spin_lock_irq(&part.cache->lock);
	part.cache->policy->keep_consistency(part.cache, part.from, said, &notes);
	spin_unlock_irq(&part.cache->lock);
	card_notes_send(part.cache, &notes);
	card_part_put(&part);
	return 0;
}
