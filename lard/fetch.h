/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who is asking a back-end for what: of many requests that miss the same, one asks, and the others wait for its
 * answer. Shared by all workers.
 */
#ifndef LARD_FETCH_H
#define LARD_FETCH_H

#include <stdbool.h>
#include <stdint.h>
#include "message.h"

struct fetches;

/**
 * struct fetch - one request that is under way
 * @users:   who asks and who waits; under the lock, as @next and @waiting are
 * @waiting: workers with somebody who waits, a bit for each
 * @over:    it is answered, or given up; may be read by who has it
 */
struct fetch {
	struct fetch *next;
	unsigned int users;
	uint64_t waiting;
	uint64_t hash;
	_Atomic bool over;
};

struct fetches *fetches_new(void);
void fetches_free(struct fetches *fetches);

/*
 * True: the caller asks, and says fetch_end() in the end; false: it waits until @fetch is over, and gives it back by
 * fetch_leave(); or there is no memory, and no @fetch. Keys of the same hash are taken for one.
 */
bool fetch_join(struct fetches *fetches, uint64_t hash, unsigned int worker, struct fetch **fetch);
/* Workers that are to look, a bit for each. */
uint64_t fetch_end(struct fetches *fetches, struct fetch *fetch);
void fetch_leave(struct fetches *fetches, struct fetch *fetch);

/*
 * What turned out not to be kept is remembered until then (0: it is kept now): nobody waits for it, and it may be handed off. It is a
 * hint: others may take its place. @why: a number of the caller's.
 */
void fetch_note(struct fetches *fetches, uint64_t hash, uint64_t until_us, unsigned int why);
bool fetch_is_futile(struct fetches *fetches, uint64_t hash, uint64_t now_us);
/* What was last noted of it, also when that is over; false: nothing, or it has been kept since. */
bool fetch_noted(struct fetches *fetches, uint64_t hash, uint64_t *until_us, unsigned int *why);

#endif
