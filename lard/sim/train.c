// SPDX-License-Identifier: GPL-2.0
#include "train.h"

/* Loads of a node; each for an equal part of the second half of the trace. */
static const uint32_t ladder[] = { 1, 2, 3, 4, 6, 8, 11, 16, 22, 32, 45, 64 };

#define STEPS		(sizeof(ladder) / sizeof(ladder[0]))
#define SEEN		1e-3	/* share of all time that says something about a load */

uint32_t train_limit(uint64_t done, uint64_t all, unsigned int nodes, int *step)
{
	uint64_t warm = all / 2, at;

	*step = -1;
	if (done < warm)
		return 0;
	at = (done - warm) * STEPS / (all - warm);
	*step = at < STEPS ? at : STEPS - 1;
	return ladder[*step] * nodes;
}

static uint64_t sum(const uint64_t *values)
{
	uint64_t all = 0;

	for (uint32_t i = 1; i < TRAIN_LOADS; i++)
		all += values[i];
	return all;
}

/* A quarter to either side: single loads are seen too briefly. */
double train_busy(const struct training *t, uint32_t load, bool cpu)
{
	const uint64_t *busy = cpu ? t->cpu : t->disk;
	uint32_t from = load - load / 4, to = load + load / 4;
	uint64_t all = 0, n = 0;

	for (uint32_t i = from; i <= to && i < TRAIN_LOADS; i++) {
		all += t->time[i];
		n += busy[i];
	}
	if (!all || all < SEEN * sum(t->time))
		return -1;
	return (double)n / all;
}

uint32_t train_propose(const struct training *t, double busy, bool *cpu)
{
	uint32_t proposed = 0;

	/* The busiest resource at high loads is the one that must not be idle. */
	*cpu = sum(t->cpu) >= sum(t->disk);
	for (uint32_t load = TRAIN_LOADS - 1; load; load--) {
		double share = train_busy(t, load, *cpu);

		if (share < 0)
			continue;
		if (share < busy)
			break;
		proposed = load;
	}
	return proposed;
}
