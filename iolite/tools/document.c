// SPDX-License-Identifier: GPL-2.0
#include "document.h"

#include <errno.h>

#include "program.h"

#define LINE		16
#define RECORD_HEAD	8
/* Whole pages. */
#define RECORD_BODY	(60u << 10)
#define STDOUT_RECORD	6
#define END_RECORD	3

static struct document *documents;

/* The line that begins at @at. */
static void line_put(char *to, size_t at)
{
	char line[32];

	snprintf(line, sizeof(line), "%015zu\n", at / LINE);
	memcpy(to, line, LINE);
}

static IOL_Agg *body_make(struct document *doc)
{
	IOL_Context *context;
	char line[LINE], *to;
	size_t len, i, at = 0;
	IOL_Agg *body;

	program_check(IOL_create(IOL_DEF_ALLOC, &body, doc->size), "document");
	program_check(IOL_gen_start(body, &context), "document");
	for (;;) {
		program_check(IOL_gen_nextWr(context, &to, &len), "document");
		if (!len)
			break;
		if (!doc->fill)
			doc->fill = to;
		for (i = 0; i < len; i++, at++) {
			if (!i || at % LINE == 0)
				line_put(line, at);
			to[i] = line[at % LINE];
		}
	}
	IOL_gen_end(context);
	return body;
}

/* @agg and @more, of which nothing else is needed any more. */
static IOL_Agg *joined(IOL_Agg *agg, IOL_Agg *more)
{
	IOL_Agg *both;

	program_check(IOL_concat(&both, agg, more), "document");
	IOL_destroy(agg);
	IOL_destroy(more);
	return both;
}

static IOL_Agg *memory(const void *p, size_t len)
{
	IOL_Agg *agg;

	program_check(IOL_from_memory(IOL_DEF_ALLOC, &agg, p, len), "document");
	return agg;
}

static IOL_Agg *record(unsigned int type, size_t len)
{
	unsigned char head[RECORD_HEAD] = { 1, type, 0, 1, len >> 8, len, 0, 0 };

	return memory(head, sizeof(head));
}

/* The plain answer in records: its header in one, its body in others. */
static IOL_Agg *framed_make(IOL_Agg *plain, size_t head)
{
	IOL_Agg *all = record(STDOUT_RECORD, head), *part;
	size_t at = 0, len = head;

	while (len) {
		if (at)
			all = joined(all, record(STDOUT_RECORD, len));
		program_check(IOL_select(&part, plain, at, len), "document");
		all = joined(all, part);
		at += len;
		len = IOL_length(plain) - at < RECORD_BODY ? IOL_length(plain) - at : RECORD_BODY;
	}
	all = joined(all, record(STDOUT_RECORD, 0));
	all = joined(all, record(END_RECORD, 8));
	return joined(all, memory("\0\0\0\0\0\0\0\0", 8));
}

struct document *document_get(size_t size)
{
	struct document *doc;
	char head[128];
	int len;

	for (doc = documents; doc; doc = doc->next)
		if (doc->size == size)
			return doc;
	doc = calloc(1, sizeof(*doc));
	if (!doc)
		program_check(-ENOMEM, "document");
	doc->size = size;
	len = snprintf(head, sizeof(head), "Content-Type: text/plain\r\nContent-Length: %zu\r\n\r\n",
		       size);
	doc->plain = joined(memory(head, len), body_make(doc));
	doc->framed = framed_make(doc->plain, len);
	doc->next = documents;
	documents = doc;
	return doc;
}
