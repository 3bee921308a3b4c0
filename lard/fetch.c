// SPDX-License-Identifier: GPL-2.0
#include "fetch.h"
#include <pthread.h>
#include <stdlib.h>

#define BUCKETS		1024
#define NOTES		4096

/**
 * struct fetches - see fetch.h
 * @lock:  guards @buckets; a leaf
 * @notes: by hash, without a lock: what is not to be kept, and until when
 */
struct fetches {
	pthread_mutex_t lock;
	struct fetch *buckets[BUCKETS];
	struct {
		_Atomic uint64_t hash, until_us;
		_Atomic unsigned int why;
	} notes[NOTES];
};

struct fetches *fetches_new(void)
{
	struct fetches *fetches = calloc(1, sizeof(*fetches));

	if (fetches)
		pthread_mutex_init(&fetches->lock, NULL);
	return fetches;
}

/* Nobody asks or waits any more. */
void fetches_free(struct fetches *fetches)
{
	if (!fetches)
		return;
	pthread_mutex_destroy(&fetches->lock);
	free(fetches);
}

static struct fetch **find(struct fetches *fetches, uint64_t hash)
{
	struct fetch **at = &fetches->buckets[hash % BUCKETS];

	while (*at && (*at)->hash != hash)
		at = &(*at)->next;
	return at;
}

bool fetch_join(struct fetches *fetches, uint64_t hash, unsigned int worker, struct fetch **out)
{
	struct fetch **at, *fetch;
	bool first;

	pthread_mutex_lock(&fetches->lock);
	at = find(fetches, hash);
	first = !*at;
	if (first) {
		*at = calloc(1, sizeof(**at));
		if (*at)
			(*at)->hash = hash;
	}
	fetch = *at;
	if (fetch) {
		fetch->users++;
		if (!first)
			fetch->waiting |= 1ULL << worker;
	}
	pthread_mutex_unlock(&fetches->lock);
	*out = fetch;
	return first && fetch;
}

static void put(struct fetch *fetch)
{
	if (!--fetch->users)
		free(fetch);
}

uint64_t fetch_end(struct fetches *fetches, struct fetch *fetch)
{
	uint64_t waiting;

	pthread_mutex_lock(&fetches->lock);
	*find(fetches, fetch->hash) = fetch->next;
	fetch->over = true;
	waiting = fetch->waiting;
	put(fetch);
	pthread_mutex_unlock(&fetches->lock);
	return waiting;
}

void fetch_leave(struct fetches *fetches, struct fetch *fetch)
{
	pthread_mutex_lock(&fetches->lock);
	put(fetch);
	pthread_mutex_unlock(&fetches->lock);
}

void fetch_note(struct fetches *fetches, uint64_t hash, uint64_t until_us, unsigned int why)
{
	unsigned int i = hash % NOTES;

	if (!until_us && fetches->notes[i].hash != hash)
		return;
	fetches->notes[i].until_us = until_us;
	fetches->notes[i].why = why;
	fetches->notes[i].hash = hash;
}

bool fetch_is_futile(struct fetches *fetches, uint64_t hash, uint64_t now_us)
{
	unsigned int i = hash % NOTES;

	return fetches->notes[i].hash == hash && fetches->notes[i].until_us > now_us;
}

bool fetch_noted(struct fetches *fetches, uint64_t hash, uint64_t *until_us, unsigned int *why)
{
	unsigned int i = hash % NOTES;

	*until_us = fetches->notes[i].until_us;
	*why = fetches->notes[i].why;
	return fetches->notes[i].hash == hash && *until_us;
}
