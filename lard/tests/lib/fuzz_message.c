// SPDX-License-Identifier: GPL-2.0
/*
 * libFuzzer target: requests, answers and chunked bodies, whole and in pieces.
 * "make fuzz FUZZ=fuzz_lard_message"
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lard/message.h"
#include "lard/request.h"
#include "lard/response.h"

#define MUST(what) do { if (!(what)) { fprintf(stderr, "not so: %s\n", #what); abort(); } } while (0)

static void sound_fields(const struct fields *f, const char *text, size_t len)
{
	unsigned int i;

	for (i = 0; i < f->count; i++) {
		const struct field *field = &f->at[i];

		MUST(field->name.len && field->name.at >= text &&
		     field->name.at + field->name.len <= text + len);
		MUST(!field->value.len || (field->value.at >= text &&
					   field->value.at + field->value.len <= text + len));
		MUST(!memchr(field->value.at ? field->value.at : "", '\n', field->value.len));
		MUST(!memchr(field->value.at ? field->value.at : "", '\0', field->value.len));
	}
}

/* Accepted in one piece and byte by byte alike; what is said of it lies within it. */
static void try_request(const char *text, size_t len)
{
	static struct request r;
	size_t searched = 0, n;
	int whole = request_parse(&r, text, len, NULL), verdict = 0;

	if (whole > 0) {
		MUST(r.length <= len && r.target.len && r.method.len);
		sound_fields(&r.fields, text, r.length);
		MUST(!memchr(r.target.at, ' ', r.target.len) && !memchr(r.target.at, '\n', r.target.len));
		MUST(!(r.framing == FRAMING_CHUNKED && r.has_length));
	}
	for (n = 1; n <= len && !verdict; n++)
		verdict = request_parse(&r, text, n, &searched);
	if (whole > 0)
		MUST(verdict > 0 && r.length == n - 1);
}

static void try_response(const char *text, size_t len, bool head)
{
	static struct response r;

	if (response_parse(&r, text, len, head) > 0) {
		MUST(r.length <= len && r.status >= 100);
		sound_fields(&r.fields, text, r.length);
		MUST(!head || r.framing == FRAMING_NONE);
	}
}

/* The same data and the same end, however it comes; and again, framed anew, the same. */
static void try_chunks(const char *text, size_t len, size_t step)
{
	static char copy[4096], data[2][8192], framed[65536];
	size_t got[2] = { 0, 0 }, used[2] = { 0, 0 }, out = 0, at;
	bool bad[2] = { false, false }, done[2] = { false, false };
	int way;

	if (len > sizeof(copy) || !step)
		return;
	for (way = 0; way < 2; way++) {
		struct chunks c;

		chunks_init(&c);
		for (at = 0; at < len && !c.done && !bad[way]; ) {
			size_t n = way && step < len - at ? step : len - at;
			char piece[CHUNK_HEAD + sizeof(copy) + CHUNK_TAIL];
			long took;

			memcpy(piece + CHUNK_HEAD, text + at, n);
			took = chunks_decode(&c, piece + CHUNK_HEAD, n);
			bad[way] = took < 0;
			if (bad[way])
				break;
			memcpy(data[way] + got[way], piece + CHUNK_HEAD, c.got);
			got[way] += c.got;
			at += took;
			if (way) {
				size_t more = chunks_encode(&c, piece);

				memcpy(framed + out, piece, more);
				out += more;
			}
		}
		used[way] = at;
		done[way] = c.done;
	}
	/* In pieces it may fail later, never otherwise. */
	MUST(bad[0] || bad[1] || (got[0] == got[1] && used[0] == used[1] && done[0] == done[1] &&
				  !memcmp(data[0], data[1], got[0])));
	if (done[1] && !bad[1]) {
		struct chunks c;

		chunks_init(&c);
		MUST(chunks_decode(&c, framed, out) == (long)out && c.done && c.got == got[1]);
		MUST(!memcmp(framed, data[1], got[1]));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	char *text;
	uint8_t kind;

	if (len < 2)
		return 0;
	kind = *bytes++;
	len--;
	text = malloc(len);	/* so that a step beyond is seen */
	memcpy(text, bytes, len);
	if (kind % 4 == 0)
		try_request(text, len);
	else if (kind % 4 == 1)
		try_response(text, len, kind & 4);
	else
		try_chunks(text, len, kind / 4 % 16);
	free(text);
	return 0;
}
