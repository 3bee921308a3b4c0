// SPDX-License-Identifier: GPL-2.0
/* Answers: what the proxy has written for a client of HTTP/1.1, as fields. */
#include "stream.h"
#include <string.h>
#include "lard/response.h"

static nghttp2_nv pair(struct span name, struct span value)
{
	return (nghttp2_nv){
		.name = (uint8_t *)name.at, .namelen = name.len,
		.value = (uint8_t *)value.at, .valuelen = value.len,
	};
}

/* In a stream there is no such thing. */
static bool is_connections(const struct field *f, const struct fields *all)
{
	return field_is_hop_by_hop(f, all) || span_is(f->name, "transfer-encoding");
}

static size_t put_fields(const struct response *r, nghttp2_nv *out)
{
	size_t count = 0;
	unsigned int i;

	for (i = 0; i < r->fields.count; i++)
		if (!is_connections(&r->fields.at[i], &r->fields))
			out[count++] = pair(r->fields.at[i].name, r->fields.at[i].value);
	return count;
}

ssize_t reply_head(struct stream *s, const char *text, size_t len, const nghttp2_data_provider *body)
{
	nghttp2_nv fields[MESSAGE_FIELDS_MAX + MESSAGE_FIELDS_OWN + 1];
	struct response r;
	size_t count;
	int err;

	if (response_read(&r, text, len, s->is_head) != 1 || r.status == 101)
		return -1;
	/* "HTTP/1.1 200 OK" */
	fields[0] = pair((struct span){ ":status", 7 }, (struct span){ r.status_line.at + 9, 3 });
	count = 1 + put_fields(&r, fields + 1);
	if (r.status < 200) {
		err = nghttp2_submit_headers(s->http2->session, NGHTTP2_FLAG_NONE, s->id, NULL, fields,
					     count, NULL);
		return err ? -1 : (ssize_t)r.length;
	}
	s->answered = true;
	s->known = r.framing != FRAMING_EOF;
	s->left = r.framing == FRAMING_LENGTH ? r.content_length : 0;
	err = nghttp2_submit_response(s->http2->session, s->id, fields, count,
				      r.framing == FRAMING_NONE ? NULL : body);
	return err ? -1 : (ssize_t)r.length;
}
