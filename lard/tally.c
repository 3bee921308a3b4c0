// SPDX-License-Identifier: GPL-2.0
/* What became of requests, and how long they took. */
#include <string.h>
#include "tally.h"
#include "worker.h"

const char *const outcome_names[OUTCOMES] = { "handoff", "proxy", "cache", "refused" };

const uint64_t tally_bounds[TALLY_BUCKETS] = {
	100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000,
	2500000, 5000000, 10000000, UINT64_MAX,
};

/* One writer: no locked instruction. */
static void add(_Atomic uint64_t *to, uint64_t more)
{
	atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + more,
			      memory_order_relaxed);
}

void tally_code(const struct conn *conn, unsigned int status)
{
	if (status >= 100 && status < 600)
		add(&conn->worker->tally.codes[status / 100 - 1], 1);
}

void tally_request(const struct conn *conn, enum outcome outcome, unsigned int status)
{
	struct worker *w = conn->worker;
	unsigned int i = 0;
	uint64_t usec;

	tally_code(conn, status);
	/* Its header never was whole: the time says something of the client only. */
	if (!conn->asked_us)
		return;
	usec = w->loop.now - conn->asked_us;
	while (usec > tally_bounds[i])
		i++;
	add(&w->tally.took[outcome].buckets[i], 1);
	add(&w->tally.took[outcome].usec, usec);
}

void tally_read(const struct lardd *lardd, struct tally_sum *sum)
{
	unsigned int w, o, i;

	memset(sum, 0, sizeof(*sum));
	for (w = 0; w < lardd->workers; w++) {
		const struct tally *tally = &lardd->worker[w]->tally;

		for (i = 0; i < TALLY_CODES; i++)
			sum->codes[i] += atomic_load_explicit(&tally->codes[i],
							      memory_order_relaxed);
		for (o = 0; o < OUTCOMES; o++) {
			for (i = 0; i < TALLY_BUCKETS; i++)
				sum->took[o].buckets[i] += atomic_load_explicit(
					&tally->took[o].buckets[i], memory_order_relaxed);
			sum->took[o].usec += atomic_load_explicit(&tally->took[o].usec,
								  memory_order_relaxed);
		}
	}
}

uint64_t tally_count(const struct tally_sum *sum, enum outcome outcome)
{
	uint64_t count = 0;
	unsigned int i;

	for (i = 0; i < TALLY_BUCKETS; i++)
		count += sum->took[outcome].buckets[i];
	return count;
}
