/* SPDX-License-Identifier: GPL-2.0 */
/* A caching proxy, its clients ("robots") and an origin that thinks: what they have in common. */
#ifndef MIX_H
#define MIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIX_MAGIC	0x4d49584d
#define MIX_SIZE_MAX	(128 << 10)
#define MIX_HIT		1	/* the proxy has it; an origin that is asked does not think */
#define MIX_CACHE	2	/* a miss that the proxy keeps a copy of */
#define MIX_LAST	4	/* of an answer: the connection is closed after it */

/**
 * struct mix_head - a request, and what an answer begins with, in place of HTTP's
 * @size:   of the body that follows in the answer
 * @object: says which bytes
 * @think:  microseconds that the origin takes; the robot draws it, so that it can be subtracted
 */
struct mix_head {
	uint32_t magic;
	uint32_t size;
	uint32_t object;
	uint32_t think;
	uint32_t flags;
	uint8_t fill[44];
};

/**
 * struct mix_shown - memory of all three, a file
 * @calls:    of the proxy, for readiness
 * @accepted: connections of robots that the proxy took
 * @closed:   and that are over
 * @opened:   connections to the origin that it made
 * @pooled:   of them, waiting for a request
 * @spliced:  answers of which the kernel passed on a part
 * @in_call:  of them, over when the call returned
 * @blocked:  times that a robot's connection took no more
 * @copied:   bytes of misses in the proxy's cache
 */
struct mix_shown {
	int32_t proxy, origin;
	uint64_t calls;
	uint64_t accepted;
	uint64_t closed;
	uint64_t opened;
	uint64_t pooled;
	uint64_t spliced;
	uint64_t in_call;
	uint64_t blocked;
	uint64_t copied;
};

struct mix_shown *mix_shown_map(const char *path);

/* The body of an object, MIX_SIZE_MAX bytes of it. */
const unsigned char *mix_body(uint32_t object);

uint64_t mix_now(void);
int mix_listen(int port, int flags);
/* The load takes the CPU at once, as machines of its own would. */
void mix_outrank(void);

/* Prints and exits. */
void broken(const char *what) __attribute__((noreturn));

/* --- chance: the same for the same seed --- */

uint64_t mix_draw(uint64_t *seed);
/* Above 0, up to 1. */
double mix_uniform(uint64_t *seed);
/* 1 to @most, k with a chance in proportion to 1 / k. */
unsigned int mix_zipf(uint64_t *seed, unsigned int most);

#endif
