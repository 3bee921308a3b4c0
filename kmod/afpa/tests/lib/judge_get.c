// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kmod/afpa/get.h"
#include "judge_get.h"
#include "show.h"

#define MUST(what) do { if (!(what)) fail(#what, bytes, len); } while (0)

static void fail(const char *what, const char *bytes, size_t len)
{
	fprintf(stderr, "not so: %s\n", what);
	show("of", bytes, len);
	abort();
}

/* A second parser, which has the whole: a line of words with single spaces between them. */
static int simple(const char *bytes, size_t len)
{
	const char *end = memchr(bytes, '\n', len), *at, *word;
	unsigned int keys = 0;

	if (!end || end - bytes < 6 || end[-1] != '\r' || memcmp(bytes, "get ", 4))
		return 0;
	for (at = bytes + 4; at < end; at++) {
		for (word = at; (unsigned char)*at > ' ' && *at != 0x7f; at++)
			;
		if (at == word || at - word > AFPA_GET_KEY_MAX || ++keys > AFPA_GET_KEYS)
			return 0;
		if (at == end - 1)
			return end + 1 - bytes;
		if (*at != ' ')
			return 0;
	}
	return 0;
}

/* Of memory that ends with the bytes, so that a sanitizer sees who looks behind them. */
static int parse(const char *bytes, size_t len, struct afpa_get *get)
{
	char *own = malloc(len ? len : 1);
	int verdict;

	memcpy(own, bytes, len);
	verdict = afpa_get_parse(own, len, get);
	free(own);
	return verdict;
}

static void judge_keys(const char *bytes, size_t len, int verdict, const struct afpa_get *get)
{
	size_t at = 4;
	unsigned int i;

	MUST(get->keys && get->keys <= AFPA_GET_KEYS);
	for (i = 0; i < get->keys; i++) {
		MUST(get->at[i] == at && bytes[at - 1] == ' ');
		MUST(afpa_get_key_is_sound(bytes + at, get->len[i]));
		at += get->len[i] + 1;
	}
	MUST((int)at + 1 == verdict && bytes[at - 1] == '\r' && bytes[at] == '\n');
}

bool judge_get(const char *bytes, size_t len)
{
	struct afpa_get get = { .keys = 0 }, piece;
	int whole = parse(bytes, len, &get), verdict;
	size_t step, n;

	MUST(whole == -EOPNOTSUPP || (whole >= 0 && (size_t)whole <= len && whole <= AFPA_GET_MAX));
	MUST(whole > 0 ? whole == simple(bytes, len) : !simple(bytes, len));
	MUST(whole || get.scanned == len);
	if (whole > 0)
		judge_keys(bytes, len, whole, &get);
	/* In pieces: nothing, or what is said of the whole. */
	for (step = 1; step < 8; step += 3) {
		piece = (struct afpa_get){ .keys = 0 };
		n = 0;
		do {
			n = step < len - n ? n + step : len;
			verdict = parse(bytes, n, &piece);
		} while (!verdict && n < len);
		MUST(verdict == whole);
		MUST(whole <= 0 || !memcmp(&piece, &get, offsetof(struct afpa_get, refused)));
	}
	return whole > 0;
}
