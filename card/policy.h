/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Policies of cooperative caching: modules with four operations [Olaru 4.3] that say
 * where a block is asked for and where it goes when memory takes it away.
 *
 * A policy only chooses places, out of an index that may be wrong in every entry: what
 * is served is checked against the block's CRC, what is not there comes from the disk.
 */
#ifndef CARD_POLICY_H
#define CARD_POLICY_H

#include <linux/module.h>
#include "wire.h"

struct card_cache;
struct card_notes;

/* The exporter's place among the participants. Others are from 1 in the order of its list. */
#define CARD_DISK_PLACE	0

/* card_save.kind: the block is not sent, but something is said about it. */
#define CARD_SAVE_NOT	0xff

/**
 * struct card_save - what becomes of an evicted block
 * @kind:  enum card_save_kind, or CARD_SAVE_NOT
 * @depth: forwardings left
 * @said, @next: with CARD_SAVE_NOT: enum card_said, and a place
 */
struct card_save {
	u8 kind;
	u8 depth;
	u8 said;
	u16 next;
};

/**
 * struct card_ask - a request, or an evicted block, that has arrived
 * @block:     it
 * @origin:    place of who wants it, or evicted it
 * @forwarded: someone else was asked before
 * @save:      it is a block to be kept, else one to be served
 * @kind:      of a save
 * @depth:     how often it may still be passed on
 * @force:     set by the policy: store it even for another hosted one
 */
struct card_ask {
	u64 block;
	u16 origin;
	bool forwarded;
	bool save;
	u8 kind;
	u8 depth;
	bool force;
};

/**
 * struct card_policy - one policy
 * @name:  in ATTACHED; the module's alias is "card-policy-" and this
 * @owner: module; stays while a disk or an export uses the policy
 * @keep:  the exporter caches what it reads for others
 * @lookup: place to ask for @block after a local miss
 * @handle_eviction: place to which the block that memory takes away is sent, or what
 *	there is to say about it; CARD_NOBODY: dropped. May forget the block's entry
 * @keep_consistency: what another participant says of its copy
 * @handle_request: own place: serve or store here; another: pass it on; CARD_NOBODY: a
 *	block to be kept is dropped, one to be served comes from the disk
 *
 * All are called with the cache's lock held and interrupts off: they neither sleep
 * nor send; what is to be told to others they note. A place that is no participant's
 * counts as the disk's.
 */
struct card_policy {
	const char *name;
	struct module *owner;
	bool keep;
	u16 (*lookup)(struct card_cache *cache, u64 block);
	u16 (*handle_eviction)(struct card_cache *cache, u64 block, struct card_save *save);
	void (*keep_consistency)(struct card_cache *cache, u16 from,
				 const struct card_wire_index *said, struct card_notes *notes);
	u16 (*handle_request)(struct card_cache *cache, struct card_ask *ask,
			      struct card_notes *notes);
	struct list_head list;
};

int card_policy_register(struct card_policy *policy);
void card_policy_unregister(struct card_policy *policy);

/* Loads it if need be. NULL: "none"; ERR_PTR(-ENOENT). Process context. */
const struct card_policy *card_policy_get(const char *name);
void card_policy_put(const struct card_policy *policy);

#endif
