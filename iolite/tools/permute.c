// SPDX-License-Identifier: GPL-2.0
/* iol-permute [WORDS]: every order of WORDS (10) words of four characters, one after the other. */
#include <stdbool.h>

#include "iolite/tools/program.h"

#define WORD	4
#define MOST	12

struct output {
	IOL_Agg *agg;
	IOL_Context *context;
	char *at;
	size_t left, size;
};

/* A buffer that holds whole permutations. */
static void open_buffer(struct output *out, size_t each)
{
	out->size = 65536 / each * each;
	program_check(IOL_create(IOL_DEF_ALLOC, &out->agg, out->size), "permute");
	program_check(IOL_gen_start(out->agg, &out->context), "permute");
	program_check(IOL_gen_nextWr(out->context, &out->at, &out->left), "permute");
}

static void flush(struct output *out)
{
	size_t full = out->size - out->left;
	IOL_Agg *part;

	IOL_gen_end(out->context);
	if (full) {
		program_check(IOL_select(&part, out->agg, 0, full), "permute");
		program_write(part);
		IOL_destroy(part);
	}
	IOL_destroy(out->agg);
}

static void put(struct output *out, const char *text, size_t len)
{
	if (!out->left) {
		flush(out);
		open_buffer(out, len);
	}
	memcpy(out->at, text, len);
	out->at += len;
	out->left -= len;
}

/* Heap's algorithm. */
static void permute(struct output *out, char *text, unsigned int words)
{
	unsigned int turn[MOST] = { 0 }, i = 1;
	char keep[WORD];

	put(out, text, words * WORD);
	while (i < words) {
		unsigned int j = i & 1 ? turn[i] : 0;

		if (turn[i] == i) {
			turn[i++] = 0;
			continue;
		}
		memcpy(keep, text + j * WORD, WORD);
		memcpy(text + j * WORD, text + i * WORD, WORD);
		memcpy(text + i * WORD, keep, WORD);
		put(out, text, words * WORD);
		turn[i]++;
		i = 1;
	}
}

int main(int argc, char **argv)
{
	unsigned int words = argc > 1 ? atoi(argv[1]) : 10, i;
	struct output out;
	char text[MOST * WORD];

	program_version(argc, argv, "iol-permute");
	if (!words || words > MOST) {
		fprintf(stderr, "usage: iol-permute [1 to %d words]\n", MOST);
		return 2;
	}
	for (i = 0; i < words; i++)
		memcpy(text + i * WORD, (char[]){ 'a' + i, 'b' + i, 'c' + i, ' ' }, WORD);
	open_buffer(&out, words * WORD);
	permute(&out, text, words);
	flush(&out);
	return 0;
}
