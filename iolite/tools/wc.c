// SPDX-License-Identifier: GPL-2.0
/* iol-wc [FILE]: lines, words and bytes, counted where they are. */
#include <stdbool.h>

#include "iolite/tools/program.h"

struct count {
	unsigned long lines, words, bytes;
	bool inside;
};

static void count_piece(struct count *count, const char *at, size_t len)
{
	const char *end = at + len;

	count->bytes += len;
	for (; at < end; at++) {
		bool blank = *at == ' ' || (*at >= '\t' && *at <= '\r');

		count->lines += *at == '\n';
		count->words += !blank && !count->inside;
		count->inside = !blank;
	}
}

int main(int argc, char **argv)
{
	struct count count = { 0 };
	IOL_Context *context;
	const char *addr;
	IOL_Agg *agg;
	size_t n, len;
	int fd;

	program_version(argc, argv, "iol-wc");
	fd = program_open(argc > 1 ? argv[1] : NULL);
	do {
		program_check(IOL_read(fd, &agg, PROGRAM_READ, &n), "read");
		program_check(IOL_gen_start(agg, &context), "read");
		while (!IOL_gen_nextRd(context, &addr, &len) && len)
			count_piece(&count, addr, len);
		IOL_gen_end(context);
		IOL_destroy(agg);
	} while (n);
	printf("%lu %lu %lu\n", count.lines, count.words, count.bytes);
	return 0;
}
