// SPDX-License-Identifier: GPL-2.0
/*
 * The fuzz target without a fuzzer: the corpus, and a fixed number of mutations of it from a fixed
 * seed, in every test run. FLASH_FUZZ_ROUNDS and FLASH_FUZZ_SEED choose others.
 */
#include <stdio.h>

#include "tools/flash/tests/lib/fuzz_input.h"

static const char *const corpus[] = {
	"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"HEAD /a/../%2e%2e/b%00?q=1 HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n",
	"POST http://[::1]:80/x HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 18\r\n"
	"Expect: 100-continue\r\n\r\n",
	"GET /x HTTP/1.1\nHost: a\nRange: bytes=0-1,5-,-7\nIf-Range: \"a-b\"\n\n",
	"GET /x HTTP/1.1\r\nHost: a\r\nIf-None-Match: W/\"a-b\", *\r\nIf-Match: \"c\r\n"
	"If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
	"If-Unmodified-Since: Sunday, 06-Nov-94 08:49:37 GMT\r\n\r\n",
	"PUT /y HTTP/1.1\r\nHost: a.b\r\nTransfer-Encoding: chunked\r\n"
	"Accept-Encoding: gzip;q=0.1, br;q=0, *\r\n\r\n",
	"5;a=b\r\nhello\r\n0A\r\n0123456789\r\n0\r\nT: x\r\n\r\n",
	"OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n",
	"Sun Nov  6 08:49:37 1994",
};

static unsigned long long state;

static unsigned int rnd(unsigned int n)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (state >> 33) % n;
}

static size_t mutate(uint8_t *buf, size_t len, size_t max)
{
	static const char special[] = "\r\n\0 \t:;,=-/%.\"*?09aAfF\x7f\x80\xff";
	size_t at = rnd(len + 1), n, from;
	const char *other;

	switch (rnd(6)) {
	case 0:
		if (at < len)
			buf[at] = special[rnd(sizeof(special) - 1)];
		return len;
	case 1:
		if (at < len)
			buf[at] ^= 1 << rnd(8);
		return len;
	case 2:						/* drop a piece */
		n = rnd(8) < len - at ? rnd(8) : len - at;
		if (n > len - at)
			n = len - at;
		memmove(buf + at, buf + at + n, len - at - n);
		return len - n;
	case 3:						/* insert one byte, often */
		n = 1 + rnd(4);
		if (len + n > max)
			return len;
		memmove(buf + at + n, buf + at, len - at);
		memset(buf + at, special[rnd(sizeof(special) - 1)], n);
		return len + n;
	case 4:						/* repeat a piece */
		from = rnd(len + 1);
		n = rnd(40);
		if (from + n > len || len + n > max)
			return len;
		memmove(buf + from + n, buf + from, len - from);
		return len + n;
	default:					/* go on with another */
		other = corpus[rnd(sizeof(corpus) / sizeof(corpus[0]))];
		n = strlen(other);
		from = rnd(n);
		if (at + n - from > max)
			return len;
		memcpy(buf + at, other + from, n - from);
		return at + n - from;
	}
}

int main(void)
{
	const char *rounds = getenv("FLASH_FUZZ_ROUNDS"), *seed = getenv("FLASH_FUZZ_SEED");
	long i, n = rounds ? atol(rounds) : 300000;
	uint8_t buf[1024];
	size_t len, j;

	state = seed ? strtoull(seed, NULL, 10) : 1;
	printf("TAP version 13\n# %ld rounds, seed %llu\n1..1\n", n, state);
	fflush(stdout);
	for (i = 0; i < n; i++) {
		const char *start = corpus[i % (sizeof(corpus) / sizeof(corpus[0]))];

		len = strlen(start);
		memcpy(buf, start, len);
		for (j = rnd(12); j; j--)
			len = mutate(buf, len, sizeof(buf));
		fuzz_one(buf, len);
	}
	printf("ok 1 - no input breaks what must hold for any input\n");
	return 0;
}
