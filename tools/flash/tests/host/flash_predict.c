// SPDX-License-Identifier: GPL-2.0
/* The feedback heuristic against a cache that really evicts: LRU, of a size it is not told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/flash/predict.h"

#define CHUNKS 4096
#define LEN 16384ull
#define ROUND 20000
#define SEED 1999

/* A kernel: the @size chunks used last are in memory. */
struct kernel {
	uint64_t used[CHUNKS], now;
	unsigned int size;
};

static uint64_t state = SEED;

static unsigned int draw(void)
{
	double u;

	state = state * 6364136223846793005ull + 1442695040888963407ull;
	u = (double)(state >> 33) / (1ull << 31);
	return (unsigned int)(CHUNKS * u * u * u);	/* the popular ones first */
}

/* Uses @chunk; was it in memory? */
static bool kernel_use(struct kernel *k, unsigned int chunk)
{
	unsigned int newer = 0, i;
	uint64_t last = k->used[chunk];

	if (last)
		for (i = 0; i < CHUNKS; i++)
			newer += k->used[i] > last;
	k->used[chunk] = ++k->now;
	return last && newer < k->size;
}

struct wrong {
	double faults;		/* said to be in memory, and was not: the loop waits */
	double reads;		/* was in memory, and a helper was asked */
};

/* Shares of @n requests for which the guess was wrong. */
static struct wrong errors(struct predict *p, struct kernel *k, unsigned int n)
{
	struct wrong w = { 0, 0 };
	unsigned int i;

	for (i = 0; i < n; i++) {
		unsigned int chunk = draw();
		uint64_t key = predict_key(1, chunk, 7, 0);
		bool said = predict_resident(p, key), was = kernel_use(k, chunk);

		if (!said)
			predict_read(p, key, LEN, !was);
		else if (!was)
			predict_fault(p);
		w.faults += said && !was;
		w.reads += !said && was;
	}
	w.faults /= n;
	w.reads /= n;
	return w;
}

static void the_error_shrinks_and_follows_a_cache_that_is_halved(void **unused)
{
	static struct kernel k = { .size = CHUNKS / 2 };
	struct predict *p = predict_new(CHUNKS * LEN, 16 * LEN, CHUNKS * LEN);
	struct wrong settled, first, later;
	uint64_t before;

	(void)unused;
	errors(p, &k, ROUND);
	settled = errors(p, &k, ROUND);
	before = predict_budget(p);
	k.size /= 2;
	first = errors(p, &k, 200);
	errors(p, &k, ROUND);
	later = errors(p, &k, ROUND);
	print_message("seed %d: faults %.3f, needless reads %.3f; just halved %.3f, %.3f; later %.3f, "
		      "%.3f; budget %llu, then %llu chunks of %u\n", SEED, settled.faults,
		      settled.reads, first.faults, first.reads, later.faults, later.reads,
		      (unsigned long long)(before / LEN),
		      (unsigned long long)(predict_budget(p) / LEN), k.size);
	assert_true(settled.faults < 0.03 && settled.reads < 0.12);
	assert_true(first.faults > 2 * later.faults);
	assert_true(later.faults < 0.03 && later.reads < 0.12);
	assert_in_range(before, CHUNKS / 2 * LEN / 2, CHUNKS / 2 * LEN);
	assert_in_range(predict_budget(p), k.size * LEN / 2, k.size * LEN);
	predict_free(p);
}

static void it_grows_when_reads_find_everything_there(void **unused)
{
	static struct kernel k = { .size = CHUNKS / 2 };
	struct predict *p = predict_new(16 * LEN, 16 * LEN, CHUNKS * LEN);

	(void)unused;
	errors(p, &k, ROUND);
	assert_true(predict_budget(p) > CHUNKS / 4 * LEN);
	predict_free(p);
}

static void what_is_remembered_stays_within_the_budget(void **unused)
{
	struct predict *p = predict_new(100 * LEN, 16 * LEN, 200 * LEN);
	unsigned int i;

	(void)unused;
	for (i = 0; i < 1000; i++) {
		predict_read(p, predict_key(1, i, 0, 0), LEN - 1, true);
		assert_true(predict_bytes(p) <= predict_budget(p));
	}
	assert_int_equal(predict_bytes(p), 100 * LEN);
	assert_true(predict_resident(p, predict_key(1, 999, 0, 0)));
	assert_false(predict_resident(p, predict_key(1, 0, 0, 0)));
	assert_false(predict_resident(p, predict_key(1, 999, 1, 0)));
	for (i = 0; i < 1000; i++)
		predict_fault(p);
	assert_int_equal(predict_budget(p), 16 * LEN);
	assert_true(predict_bytes(p) <= 16 * LEN);
	for (i = 0; i < 1000; i++)
		predict_read(p, predict_key(2, i, 0, 0), LEN, false);
	assert_int_equal(predict_budget(p), 200 * LEN);
	predict_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_error_shrinks_and_follows_a_cache_that_is_halved),
		cmocka_unit_test(it_grows_when_reads_find_everything_there),
		cmocka_unit_test(what_is_remembered_stays_within_the_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
