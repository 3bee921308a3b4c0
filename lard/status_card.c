// SPDX-License-Identifier: GPL-2.0
/* Counters of card.ko, among those of all rooms. */
#include <string.h>
#include "floor.h"
#include "status_card.h"

const char *const card_counter_names[CARD_COUNTERS] = {
#define X(id, name, about) [CARD_##id] = name,
	CARD_TABLE(X)
#undef X
};

const char *const card_counter_abouts[CARD_COUNTERS] = {
#define X(id, name, about) [CARD_##id] = about,
	CARD_TABLE(X)
#undef X
};

static int take(const char *room, const char *name, uint64_t value, void *arg)
{
	struct status_card *card = arg;
	unsigned int i;

	if (strcmp(room, "card"))
		return 0;
	card->there = true;
	for (i = 0; i < CARD_COUNTERS; i++)
		if (!strcmp(card_counter_names[i], name))
			card->counts[i] = value;
	return 0;
}

/* What was told by half is not shown. */
void status_card_get(struct status_card *card, const struct floor *floor)
{
	memset(card, 0, sizeof(*card));
	if (floor_stats_each(floor, take, card))
		memset(card, 0, sizeof(*card));
}
