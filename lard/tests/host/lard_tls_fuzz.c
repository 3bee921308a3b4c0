// SPDX-License-Identifier: GPL-2.0
/* timeout: 300 */
/*
 * The fuzz target without a fuzzer: a corpus, and a fixed number of mutations of it from a fixed seed, in every test
 * run. LARD_FUZZ_ROUNDS and LARD_FUZZ_SEED choose others; with a directory as argument the corpus is written there.
 */
#include "lard/tests/lib/fuzz_tls.h"

#define INPUT	48

/* Records by four bytes each: see fuzz_records(); hellos by three. */
static const uint8_t corpus[][INPUT] = {
	{ 0, 0, 200, 0, 128 },
	{ 0, 0, 28, 0, 0, 0, 28, 9, 1, 0, 28, 0, 255 },
	{ 0, 0, 28, 0, 7, 7, 2, 0, 7, 0, 28, 0, 7 },
	{ 0, 0, 28, 0, 7, 6, 0, 200, 7 },
	{ 0, 0, 28, 0, 7, 5, 30, 0, 2 },
	{ 0, 64, 255, 0, 128, 192, 255, 255, 3, 64, 255, 0, 128 },
	{ 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1 },
	{ 1 },
	{ 1, 0, 40, 9, 0, 120, 3 },
};

static unsigned long long state;

static unsigned int rnd(unsigned int n)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (state >> 33) % n;
}

static void write_corpus(const char *directory)
{
	char path[300];
	size_t i;

	for (i = 0; i < sizeof(corpus) / sizeof(corpus[0]); i++) {
		snprintf(path, sizeof(path), "%s/%zu", directory, i);
		FILE *file = fopen(path, "w");

		assert(file && fwrite(corpus[i], INPUT, 1, file) == 1 && !fclose(file));
	}
}

int main(int argc, char **argv)
{
	const char *rounds = getenv("LARD_FUZZ_ROUNDS"), *seed = getenv("LARD_FUZZ_SEED");
	long i, n = rounds ? atol(rounds) : 3000;
	uint8_t input[INPUT];
	size_t j;

	if (argc > 1) {
		write_corpus(argv[1]);
		return 0;
	}
	state = seed ? strtoull(seed, NULL, 10) : 1;
	printf("TAP version 13\n# %ld rounds, seed %llu\n1..1\n", n, state);
	fflush(stdout);
	fuzz_begin();
	for (i = 0; i < n; i++) {
		memcpy(input, corpus[i % (sizeof(corpus) / sizeof(corpus[0]))], INPUT);
		for (j = i < 9 ? 0 : rnd(12); j; j--)
			input[1 + rnd(INPUT - 1)] = rnd(3) ? rnd(256) : rnd(8);
		fuzz_one(input, *input & 1 || !rnd(2) ? INPUT : 1 + 4 * (1 + rnd(6)));
	}
	fuzz_end();
	printf("ok 1 - what is looked at is what OpenSSL reads, and a hello's name is the one that it has\n");
	return 0;
}
