// SPDX-License-Identifier: GPL-2.0
/* Where a chunked body ends: the library's parser, shown a header that announces one. */
#include <assert.h>
#include <string.h>
#include "httplib.h"
#include "message.h"

static_assert(sizeof(http_parser) <= sizeof(((struct chunks *)0)->parser), "parser too large");

static int on_complete(http_parser *p)
{
	((struct chunks *)p->data)->done = true;
	return http_pause(p);
}

static http_settings settings = { .on_message_complete = on_complete };

void chunks_init(struct chunks *c)
{
	static const char header[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
	http_parser *p = (void *)c->parser;
	const char *error;

	memset(c, 0, sizeof(*c));
	http_init(p, &settings, 1);
	p->data = c;
	http_feed(p, &settings, header, sizeof(header) - 1, &error);
}

long chunks_feed(struct chunks *c, const char *data, size_t len)
{
	http_parser *p = (void *)c->parser;
	const char *error;
	size_t used;

	if (!len)
		return 0;	/* nothing would be the end of the stream to the parser */
	p->data = c;
	used = http_feed(p, &settings, data, len, &error);
	return error ? -1 : (long)used;
}
