// SPDX-License-Identifier: GPL-2.0
/*
 * Which connections were given: a table of fixed size, since anybody with an address may have one
 * begun. What does not fit into it is not given, and so nothing is forgotten before its time.
 */

#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/siphash.h>
#include <net/tcp.h>

#include "kmod/compat/cookie.h"
#include "kmod/opening.h"

#include "given.h"

/* One cache line; a connection may be in one of two. */
#define HOF_GIVEN_WAYS	16U
#define HOF_GIVEN_MIN	(2 * HOF_GIVEN_WAYS)

/* The low bits of a slot: in which minute it was written. The rest is of the hash; 0: never. */
#define HOF_GIVEN_CLOCK	31U

/**
 * struct hof_given - connections that were given
 * @key:     of the hash; nobody outside can fill a line
 * @mask:    lines less one
 * @slots:   HOF_GIVEN_WAYS to a line; READ_ONCE, changed by cmpxchg()
 */
struct hof_given {
	siphash_key_t key;
	u32 mask;
	u32 slots[] ____cacheline_aligned;
};

struct hof_given *hof_given_alloc(unsigned int entries)
{
	u32 slots = roundup_pow_of_two(max(2 * entries, HOF_GIVEN_MIN));
	struct hof_given *given = kvzalloc(struct_size(given, slots, slots), GFP_KERNEL_ACCOUNT);

	if (!given)
		return NULL;
	given->mask = slots / HOF_GIVEN_WAYS - 1;
	get_random_bytes(&given->key, sizeof(given->key));
	return given;
}

void hof_given_free(struct hof_given *given)
{
	kvfree(given);
}

/* A new connection of the same addresses has other numbers. */
static u64 hof_given_hash(const struct hof_given *given, const struct flt_opening *o)
{
	u64 addresses, ports;
	u32 client, server;

	memcpy(&client, o->tuple.client, sizeof(client));
	memcpy(&server, o->tuple.server, sizeof(server));
	addresses = (u64)client << 32 | server;
	ports = (__force u32)o->tuple.client_port << 16 | (__force u32)o->tuple.server_port;
	return siphash_3u64(addresses, ports << 32 | o->seq, o->ack, &given->key);
}

static u32 hof_given_value(u64 hash, u32 now)
{
	u32 value = (hash >> 32 & ~HOF_GIVEN_CLOCK) | (now & HOF_GIVEN_CLOCK);

	return value > HOF_GIVEN_CLOCK ? value : value | (HOF_GIVEN_CLOCK + 1);
}

/* @value is not 0. It may have been written by who sees a later minute. */
static bool hof_given_counts(u32 value, u32 now)
{
	return ((now + 1 - value) & HOF_GIVEN_CLOCK) <= FLT_COOKIE_AGE;
}

/* The value has the upper half; most tables leave some of the lower for both. */
static const u32 *hof_given_line(const struct hof_given *given, u64 hash, unsigned int which)
{
	return &given->slots[((u32)hash >> (11 * which) & given->mask) * HOF_GIVEN_WAYS];
}

/*
 * @free and what is in it, if not NULL: the first slot that nobody needs. Most slots of most tables
 * are empty, and all are looked at for each connection.
 */
static bool hof_given_look(const struct hof_given *given, u64 hash, u32 now, const u32 **free,
			   u32 *old)
{
	u32 value = hof_given_value(hash, now), seen;
	const u32 *line, *slot, *unused = NULL;
	unsigned int which;

	for (which = 0; which < 2; which++) {
		line = hof_given_line(given, hash, which);
		for (slot = line; slot < line + HOF_GIVEN_WAYS; slot++) {
			seen = READ_ONCE(*slot);
			if (seen && hof_given_counts(seen, now)) {
				if ((seen ^ value) <= HOF_GIVEN_CLOCK)
					return true;
			} else if (!unused) {
				unused = slot;
				if (free)
					*old = seen;
			}
		}
	}
	if (free)
		*free = unused;
	return false;
}

bool hof_given_has(const struct hof_given *given, const struct flt_opening *o)
{
	return hof_given_look(given, hof_given_hash(given, o), flt_compat_cookie_clock(), NULL,
			      NULL);
}

int hof_given_add(struct hof_given *given, const struct flt_opening *o,
		  struct hof_given_mark *mark)
{
	u64 hash = hof_given_hash(given, o);
	u32 now = flt_compat_cookie_clock();
	unsigned int tries = 4;
	const u32 *free;
	u32 old;

	mark->value = hof_given_value(hash, now);
	while (tries--) {
		free = NULL;
		if (hof_given_look(given, hash, now, &free, &old))
			return -EEXIST;
		if (!free)
			break;
		mark->slot = (u32 *)free;
		if (cmpxchg(mark->slot, old, mark->value) == old)
			return 0;
	}
	return -ENOSPC;
}

void hof_given_forget(const struct hof_given_mark *mark)
{
	cmpxchg(mark->slot, mark->value, 0);
}
