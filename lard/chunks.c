// SPDX-License-Identifier: GPL-2.0
/*
 * Chunked bodies: taken apart by the library and framed anew, so that what goes on was made here:
 * extensions, trailers and odd ways to write a size stay behind.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "llhttp/llhttp.h"
#include "message.h"

#define OVERHEAD_MAX	16384	/* framing without data: extensions and trailers have no other bound */

static_assert(sizeof(llhttp_t) <= sizeof(((struct chunks *)0)->parser), "parser too large");

static int on_body(llhttp_t *p, const char *at, size_t len)
{
	struct chunks *c = p->data;

	memmove(c->into + c->got, at, len);
	c->got += len;
	return 0;
}

static int on_complete(llhttp_t *p)
{
	((struct chunks *)p->data)->done = true;
	return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
	.on_body = on_body,
	.on_message_complete = on_complete,
};

void chunks_init(struct chunks *c)
{
	static const char header[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
	llhttp_t *p = (void *)c->parser;

	memset(c, 0, sizeof(*c));
	llhttp_init(p, HTTP_RESPONSE, &settings);
	p->data = c;
	llhttp_execute(p, header, sizeof(header) - 1);
}

long chunks_decode(struct chunks *c, char *data, size_t len)
{
	llhttp_t *p = (void *)c->parser;
	llhttp_errno_t err;
	size_t used = len;

	c->got = 0;
	if (!len || c->done)
		return 0;
	c->into = data;
	p->data = c;
	err = llhttp_execute(p, data, len);
	if (c->done)
		used = llhttp_get_error_pos(p) - data;
	else if (err != HPE_OK)
		return -1;
	/* A chunk of one byte costs five; what costs much more than that is no way to send data. */
	c->overhead += used - c->got;
	if (c->overhead > OVERHEAD_MAX + 16 * (c->data += c->got))
		return -1;
	return used;
}

size_t chunks_encode(const struct chunks *c, char *at)
{
	char head[CHUNK_HEAD + 1];
	size_t len = 0;

	if (c->got) {
		len = snprintf(head, sizeof(head), "%zx\r\n", c->got);
		memmove(at + len, at + CHUNK_HEAD, c->got);
		memcpy(at, head, len);
		len += c->got;
		memcpy(at + len, "\r\n", 2);
		len += 2;
	}
	if (c->done) {
		memcpy(at + len, "0\r\n\r\n", 5);
		len += 5;
	}
	return len;
}
