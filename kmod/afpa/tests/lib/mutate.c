// SPDX-License-Identifier: GPL-2.0
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "mutate.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

unsigned int draw(uint64_t *seed, unsigned int n)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (*seed >> 33) % n;
}

/* Of the lines the first @nr_lines, of the fields the first @nr_fields. */
static size_t compose(uint64_t *seed, char *text, unsigned int nr_lines, unsigned int nr_fields)
{
	static const char *const lines[] = {
		"GET / HTTP/1.1", "HEAD /x?y HTTP/1.1", "GET http://a/ HTTP/1.1",
		"GET /a/b HTTP/1.1", "HEAD /x?y HTTP/1.0", "GET /%2e HTTP/1.1", "GET /\xe9 HTTP/1.1", "POST / HTTP/1.1",
		"GET /b HTTP/1.1",
	};
	/* The first ones are sound, and come more often. */
	static const char *const fields[] = {
		"Connection: keep-alive, keep-alive",
		"Accept: */*", "X:", "X: \xff y", "Keep-Alive: 5", "Connection: close",
		"Host: a", "Host: A:80",
		"Cookie: a", "Host: b", "X : y", " x", "Content-Length: 3", "X", "If-Range: x",
		"Range: bytes=0-1",
	};
	unsigned int more = draw(seed, 5), kinds;
	size_t len;

	len = sprintf(text, "%s\r\n", lines[draw(seed, nr_lines ?: ARRAY_SIZE(lines))]);
	if (nr_fields || draw(seed, 4))
		len += sprintf(text + len, "Host: a\r\n");
	while (more--) {
		kinds = draw(seed, 3) ? 8 : ARRAY_SIZE(fields);
		len += sprintf(text + len, "%s\r\n", fields[draw(seed, nr_fields ?: kinds)]);
	}
	return len + sprintf(text + len, "\r\n");
}

/* Some bytes of it become others. */
static void spoil(uint64_t *seed, char *text, size_t len, const char *bytes, size_t nr)
{
	unsigned int times;

	for (times = draw(seed, 3); times; times--)
		text[draw(seed, len)] = bytes[draw(seed, nr)];
}

size_t mutate_request(uint64_t *seed, char *text)
{
	static const char special[] = "\r\n\0 \t:;,=-/%.\"*?09aAfF\x7f\x80\xff";
	/* Half of them are sound before. */
	bool nearly = draw(seed, 2);
	size_t len = compose(seed, text, nearly ? 4 : 0, nearly ? 5 : 0);

	spoil(seed, text, len, special, sizeof(special) - 1);
	return len;
}

size_t sound_request(uint64_t *seed, char *text)
{
	return compose(seed, text, 4, 5);
}

static size_t compose_get(uint64_t *seed, char *text, bool sound)
{
	unsigned int n = sound + draw(seed, sound ? 16 : 18), most = MUTATE_KEY_MAX;
	size_t len;

	if (sound)
		most = MUTATE_SOUND_MAX;
	len = sprintf(text, "get");
	while (n--)
		len += sprintf(text + len, " %.*s", sound + draw(seed, most), MUTATE_KEY);
	return len + sprintf(text + len, "\r\n");
}

size_t mutate_get(uint64_t *seed, char *text)
{
	static const char bytes[] = "get \r\n\0k \x80\x7f";
	size_t len = compose_get(seed, text, false);

	spoil(seed, text, len, bytes, sizeof(bytes) - 1);
	return len - draw(seed, 2);
}

size_t sound_get(uint64_t *seed, char *text)
{
	return compose_get(seed, text, true);
}
