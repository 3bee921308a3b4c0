// SPDX-License-Identifier: GPL-2.0
/* iol-grep STRING [FILE]: lines with a fixed string. Only what is split over buffers is copied. */
#include <stdbool.h>

#include "iolite/tools/program.h"

struct search {
	const char *what;
	size_t len;
	char *part;		/* the beginning of a line whose end is not here yet */
	size_t have, room;
	bool found;
};

static void line(struct search *search, const char *at, size_t len)
{
	if (!memmem(at, len, search->what, search->len))
		return;
	search->found = true;
	fwrite(at, 1, len, stdout);
	putchar('\n');
}

static void keep(struct search *search, const char *at, size_t len)
{
	if (search->have + len > search->room) {
		search->room = 2 * (search->have + len);
		search->part = realloc(search->part, search->room);
		if (!search->part) {
			perror("grep");
			exit(2);
		}
	}
	memcpy(search->part + search->have, at, len);
	search->have += len;
}

static void piece(struct search *search, const char *at, size_t len)
{
	const char *end = at + len, *newline;

	for (; at < end; at = newline + 1) {
		newline = memchr(at, '\n', end - at);
		if (!newline) {
			keep(search, at, end - at);
			return;
		}
		if (search->have) {
			keep(search, at, newline - at);
			line(search, search->part, search->have);
			search->have = 0;
		} else {
			line(search, at, newline - at);
		}
	}
}

int main(int argc, char **argv)
{
	struct search search = { .what = argc > 1 ? argv[1] : "" };
	IOL_Context *context;
	const char *addr;
	IOL_Agg *agg;
	size_t n, len;
	int fd;

	program_version(argc, argv, "iol-grep");
	if (argc < 2) {
		fprintf(stderr, "usage: iol-grep STRING [FILE]\n");
		return 2;
	}
	search.len = strlen(search.what);
	fd = program_open(argc > 2 ? argv[2] : NULL);
	do {
		program_check(IOL_read(fd, &agg, PROGRAM_READ, &n), "read");
		program_check(IOL_gen_start(agg, &context), "read");
		while (!IOL_gen_nextRd(context, &addr, &len) && len)
			piece(&search, addr, len);
		IOL_gen_end(context);
		IOL_destroy(agg);
	} while (n);
	if (search.have)
		line(&search, search.part, search.have);
	free(search.part);
	return !search.found;
}
