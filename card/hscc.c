// SPDX-License-Identifier: GPL-2.0
/*
 * HSCC, home-based server-less cooperative caching [Olaru 4.4], lazy: each block has
 * a home that knows who asked for it last; copies are a list by who had it from whom,
 * kept by those who have them, and repaired only when one of them is evicted.
 */

#include <linux/module.h>

#include "entry.h"
#include "hscc.h"

u16 hscc_lookup(struct card_cache *cache, u64 block)
{
	struct card_entry *e = card_entry_find(cache, block);

	/* Who asked us last probably has it still. */
	if (e && card_cache_other(cache, e->next))
		return e->next;
	return card_cache_home(cache, block);
}

u16 hscc_evict_singlet(struct card_cache *cache, struct card_save *save)
{
	save->kind = CARD_SAVE_SINGLET;
	save->depth = 1;		/* to the home, if there is no room */
	return card_cache_least_loaded(cache);
}

static u16 hscc_handle_eviction(struct card_cache *cache, u64 block, struct card_save *save)
{
	struct card_entry *e = card_entry_find(cache, block);

	if (e && card_cache_other(cache, e->next))
		return CARD_NOBODY;	/* an older copy */
	if (e && card_cache_other(cache, e->previous) && e->previous != CARD_DISK_PLACE) {
		save->kind = CARD_SAVE_RECENT;
		save->depth = cache->rules.depth;
		return e->previous;
	}
	return hscc_evict_singlet(cache, save);
}

static u16 hscc_store(struct card_cache *cache, const struct card_ask *ask,
		      struct card_notes *notes)
{
	struct card_entry *e = card_entry_make(cache, ask->block);

	if (!e)
		return CARD_NOBODY;
	/* A singlet stays one: else it would look like a copy of what its evictor has. */
	if (ask->kind == CARD_SAVE_SINGLET)
		e->previous = CARD_DISK_PLACE;
	e->next = CARD_NOBODY;
	card_note(notes, card_cache_home(cache, ask->block), CARD_SAID_UPDATE, ask->block,
		  cache->self, ask->origin);
	return cache->self;
}

static u16 hscc_save_singlet(struct card_cache *cache, struct card_ask *ask,
			     struct card_notes *notes)
{
	u16 home = card_cache_home(cache, ask->block);

	if (card_cache_has_room(cache))
		return hscc_store(cache, ask, notes);
	if (home != cache->self && home != ask->origin && ask->depth)
		return home;
	card_note(notes, home, CARD_SAID_UPDATE, ask->block, CARD_NOBODY, ask->origin);
	return CARD_NOBODY;
}

static u16 hscc_save_recent(struct card_cache *cache, struct card_ask *ask,
			    struct card_notes *notes)
{
	struct card_entry *e = card_entry_find(cache, ask->block);

	ask->force = !ask->depth;
	if (ask->force || card_cache_has_room(cache))
		return hscc_store(cache, ask, notes);
	return e && e->previous != ask->origin ? e->previous : CARD_DISK_PLACE;
}

static u16 hscc_save(struct card_cache *cache, struct card_ask *ask, struct card_notes *notes)
{
	if (card_cache_holds(cache, ask->block)) {
		card_note(notes, card_cache_home(cache, ask->block), CARD_SAID_UPDATE, ask->block,
			  cache->self, ask->origin);
		return CARD_NOBODY;
	}
	if (ask->kind == CARD_SAVE_SINGLET)
		return hscc_save_singlet(cache, ask, notes);
	return hscc_save_recent(cache, ask, notes);
}

u16 hscc_handle_request(struct card_cache *cache, struct card_ask *ask, struct card_notes *notes)
{
	bool home = card_cache_home(cache, ask->block) == cache->self && !ask->forwarded;
	u16 place = CARD_DISK_PLACE;
	struct card_entry *e;

	if (ask->save)
		return hscc_save(cache, ask, notes);
	e = card_entry_find(cache, ask->block);
	if (card_cache_holds(cache, ask->block))
		place = cache->self;
	else if (!home)
		return CARD_DISK_PLACE;
	else if (e && card_cache_other(cache, e->next) && e->next != ask->origin)
		place = e->next;
	e = card_entry_make(cache, ask->block);
	if (e)
		e->next = ask->origin;
	return place;
}

/* At the home: a block has moved. Who asked since then has a newer copy. */
static void hscc_update(struct card_cache *cache, u64 block, u16 next, u16 evictor,
			struct card_notes *notes)
{
	struct card_entry *e = card_entry_make(cache, block);

	if (!e || (card_cache_other(cache, e->next) && e->next != evictor))
		return;
	e->next = card_cache_other(cache, next) ? next : CARD_NOBODY;
	if (evictor == next)
		return;
	if (evictor != cache->self) {
		card_note(notes, evictor, CARD_SAID_INVALIDATE, block, CARD_NOBODY, evictor);
	} else if (card_cache_other(cache, e->previous) && e->previous != CARD_DISK_PLACE &&
		   e->previous != next) {
		/* Ours was evicted: as the home we still have to know who has it. */
		card_note(notes, e->previous, CARD_SAID_INVALIDATE, block, CARD_NOBODY, evictor);
		e->previous = CARD_DISK_PLACE;
	}
}

void hscc_keep_consistency(struct card_cache *cache, u16 from, const struct card_wire_index *said,
			   struct card_notes *notes)
{
	u16 evictor = be16_to_cpu(said->evictor), previous;
	u64 block = be64_to_cpu(said->block);
	struct card_entry *e;

	if (said->said == CARD_SAID_UPDATE) {
		if (card_cache_home(cache, block) == cache->self)
			hscc_update(cache, block, be16_to_cpu(said->next), evictor, notes);
		return;
	}
	if (said->said != CARD_SAID_INVALIDATE)
		return;
	/* The list of copies is walked to who has one; each before him forgets, so it ends. */
	e = card_entry_find(cache, block);
	if (!e)
		return;
	previous = e->previous;
	if (!card_cache_holds(cache, block) && card_cache_other(cache, previous) &&
	    previous != CARD_DISK_PLACE && previous != from)
		card_note(notes, previous, CARD_SAID_INVALIDATE, block, CARD_NOBODY, evictor);
	card_entry_forget(cache, e);
}

static struct card_policy hscc = {
	.name = "hscc",
	.owner = THIS_MODULE,
	.lookup = hscc_lookup,
	.handle_eviction = hscc_handle_eviction,
	.keep_consistency = hscc_keep_consistency,
	.handle_request = hscc_handle_request,
};

static int __init hscc_init(void)
{
	int err = card_policy_register(&hscc);

	if (err)
		return err;
	err = card_policy_register(&hscc_eager);
	if (err)
		card_policy_unregister(&hscc);
	return err;
}

static void __exit hscc_exit(void)
{
	card_policy_unregister(&hscc_eager);
	card_policy_unregister(&hscc);
}

module_init(hscc_init);
module_exit(hscc_exit);

MODULE_DESCRIPTION("Flotilla: home-based server-less cooperative caching of remote disks");
MODULE_VERSION(FLT_VERSION);
MODULE_LICENSE("GPL");
MODULE_ALIAS("card-policy-hscc");
MODULE_ALIAS("card-policy-hscc-eager");
