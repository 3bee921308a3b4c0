// SPDX-License-Identifier: GPL-2.0
#include "crowd.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "mix.h"

#define BUCKETS	65536	/* a power of two; memory that nobody comes to is none */

/**
 * struct crowd_address - one client address, or network, that has connections
 * @key:  see key_of()
 * @here: connections; gone with the last
 */
struct crowd_address {
	struct crowd_address *same;
	uint64_t key;
	unsigned int here;
};

/**
 * struct crowd - see crowd.h
 * @lock: guards all of it; a leaf
 */
struct crowd {
	pthread_mutex_t lock;
	uint64_t seed;
	unsigned int size;
	struct crowd_address *buckets[BUCKETS];
};

struct crowd *crowd_new(uint64_t seed)
{
	struct crowd *crowd = calloc(1, sizeof(*crowd));

	if (!crowd)
		return NULL;
	pthread_mutex_init(&crowd->lock, NULL);
	crowd->seed = seed;
	return crowd;
}

void crowd_free(struct crowd *crowd)
{
	unsigned int i;

	if (!crowd)
		return;
	for (i = 0; i < BUCKETS; i++) {
		while (crowd->buckets[i]) {
			struct crowd_address *a = crowd->buckets[i];

			crowd->buckets[i] = a->same;
			free(a);
		}
	}
	pthread_mutex_destroy(&crowd->lock);
	free(crowd);
}

/* No host's IPv6 address begins with ff: those of IPv4 have their place there. */
static uint64_t key_of(const union address *peer)
{
	uint64_t key;

	if (peer->any.sa_family != AF_INET6)
		return 0xffffffff00000000 | ntohl(peer->in.sin_addr.s_addr);
	memcpy(&key, &peer->in6.sin6_addr, sizeof(key));
	return key;
}

/* Where @key is, or would be. */
static struct crowd_address **place(struct crowd *crowd, uint64_t key)
{
	struct crowd_address **at;

	at = &crowd->buckets[mix64(mix64(key ^ crowd->seed) + crowd->seed) % BUCKETS];
	while (*at && (*at)->key != key)
		at = &(*at)->same;
	return at;
}

/* Under the lock. */
static struct crowd_address *add(struct crowd *crowd, struct crowd_address **at, uint64_t key)
{
	struct crowd_address *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->key = key;
	*at = a;
	crowd->size++;
	return a;
}

struct crowd_address *crowd_enter(struct crowd *crowd, const union address *peer,
				  unsigned int most)
{
	uint64_t key = key_of(peer);
	struct crowd_address **at, *a;

	pthread_mutex_lock(&crowd->lock);
	at = place(crowd, key);
	a = *at ? *at : add(crowd, at, key);
	if (a && a->here >= most)
		a = NULL;
	if (a)
		a->here++;
	pthread_mutex_unlock(&crowd->lock);
	return a;
}

void crowd_leave(struct crowd *crowd, struct crowd_address *address)
{
	struct crowd_address **at;

	if (!address)
		return;
	pthread_mutex_lock(&crowd->lock);
	if (!--address->here) {
		at = place(crowd, address->key);
		*at = address->same;
		free(address);
		crowd->size--;
	}
	pthread_mutex_unlock(&crowd->lock);
}

unsigned int crowd_size(struct crowd *crowd)
{
	unsigned int size;

	pthread_mutex_lock(&crowd->lock);
	size = crowd->size;
	pthread_mutex_unlock(&crowd->lock);
	return size;
}
