// SPDX-License-Identifier: GPL-2.0
/*
 * HSCC with an eager index [Olaru 4.4.3, discussion]: whoever evicts a copy says so, and
 * the list of copies is closed around it at once. So entries do not outlive blocks, the
 * last copy is known to be the last, and a most recent copy need not be saved.
 *
 * An evicted copy with a newer one behind it: EVICTED goes to next, past others that
 * have evicted theirs, up to who has it; NEW_NEXT comes back along previous, past those
 * who forget, down to who has it; he is told to the first by NEW_PREV. The newest copy
 * has nobody behind it: NEW_NEXT, of nobody, goes back from it at once.
 */

#include "entry.h"
#include "hscc.h"

static bool eager_valid(const struct card_cache *cache, u16 place)
{
	return card_cache_other(cache, place);
}

/* Does a list go on to older copies there. */
static bool eager_older(const struct card_cache *cache, u16 place)
{
	return card_cache_other(cache, place) && place != CARD_DISK_PLACE;
}

static u16 eager_handle_eviction(struct card_cache *cache, u64 block, struct card_save *save)
{
	struct card_entry *e = card_entry_find(cache, block);
	u16 previous;

	if (e && eager_valid(cache, e->next)) {
		/* The entry stays until NEW_NEXT has passed it. */
		save->kind = CARD_SAVE_NOT;
		save->said = CARD_SAID_EVICTED;
		save->next = CARD_NOBODY;
		return e->next;
	}
	if (e && eager_older(cache, e->previous)) {
		previous = e->previous;
		save->kind = CARD_SAVE_NOT;
		save->said = CARD_SAID_NEW_NEXT;
		save->next = CARD_NOBODY;
		card_entry_forget(cache, e);
		return previous;
	}
	return hscc_evict_singlet(cache, save);
}

/* From the evictor, or past others: the first that has the block stops it. */
static void eager_evicted(struct card_cache *cache, u16 from, u64 block, u16 evictor,
			  struct card_notes *notes)
{
	struct card_entry *e = card_entry_find(cache, block);

	if (e && card_cache_holds(cache, block)) {
		e->previous = CARD_DISK_PLACE;	/* until NEW_PREV says otherwise */
		card_note(notes, from, CARD_SAID_NEW_NEXT, block, cache->self, evictor);
	} else if (e && eager_valid(cache, e->next) && e->next != from) {
		/* Once only: a list that is a circle ends here the second time. */
		card_note(notes, e->next, CARD_SAID_EVICTED, block, CARD_NOBODY, evictor);
		e->previous = from;
		e->next = CARD_NOBODY;
	} else {
		if (e)
			card_entry_forget(cache, e);
		card_note(notes, from, CARD_SAID_NEW_NEXT, block, CARD_NOBODY, evictor);
	}
}

/* On the way back: those who have it not forget, the first that has it is before @next. */
static void eager_new_next(struct card_cache *cache, u16 from, u64 block, u16 next, u16 evictor,
			   struct card_notes *notes)
{
	struct card_entry *e = card_entry_find(cache, block);
	bool holds = e && card_cache_holds(cache, block);
	u16 previous = e ? e->previous : CARD_DISK_PLACE;

	if (holds) {
		/* Who asked later than the sender is behind us: then the list is not broken. */
		if (e->next != from)
			return;
		e->next = eager_valid(cache, next) ? next : CARD_NOBODY;
		previous = cache->self;
	} else if (e) {
		e->previous = CARD_DISK_PLACE;
		/* The home forgets where its copy came from, not who asked it last. */
		if (card_cache_home(cache, block) != cache->self)
			card_entry_forget(cache, e);
		else if (!eager_valid(cache, e->next) && eager_valid(cache, next))
			e->next = next;
	}
	if (!holds && eager_older(cache, previous) && previous != from)
		card_note(notes, previous, CARD_SAID_NEW_NEXT, block, next, evictor);
	else if (next < cache->nr)
		card_note(notes, next, CARD_SAID_NEW_PREV, block,
			  holds ? cache->self : CARD_DISK_PLACE, evictor);
	else	/* the newest copy is gone: the home sends to the one before it, or to nobody */
		card_note(notes, card_cache_home(cache, block), CARD_SAID_UPDATE, block,
			  holds ? cache->self : CARD_NOBODY, evictor);
}

static void eager_new_prev(struct card_cache *cache, u64 block, u16 previous)
{
	struct card_entry *e = card_entry_find(cache, block);

	if (e && previous < cache->nr && previous != cache->self)
		e->previous = previous;
}

static void eager_keep_consistency(struct card_cache *cache, u16 from,
				   const struct card_wire_index *said, struct card_notes *notes)
{
	u16 next = be16_to_cpu(said->next), evictor = be16_to_cpu(said->evictor);
	u64 block = be64_to_cpu(said->block);

	switch (said->said) {
	case CARD_SAID_EVICTED:
		eager_evicted(cache, from, block, evictor, notes);
		break;
	case CARD_SAID_NEW_NEXT:
		eager_new_next(cache, from, block, next, evictor, notes);
		break;
	case CARD_SAID_NEW_PREV:
		eager_new_prev(cache, block, next);
		break;
	default:
		hscc_keep_consistency(cache, from, said, notes);
	}
}

struct card_policy hscc_eager = {
	.name = "hscc-eager",
	.owner = THIS_MODULE,
	.lookup = hscc_lookup,
	.handle_eviction = eager_handle_eviction,
	.keep_consistency = eager_keep_consistency,
	.handle_request = hscc_handle_request,
};
