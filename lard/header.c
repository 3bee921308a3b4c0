// SPDX-License-Identifier: GPL-2.0
#include "header.h"
#include <string.h>
#include "llhttp/llhttp.h"

static int on_url(llhttp_t *p, const char *at, size_t len)
{
	struct header *h = p->data;

	if (!h->target.len)
		h->target.at = at;
	h->target.len += len;
	return 0;
}

static int on_name(llhttp_t *p, const char *at, size_t len)
{
	fields_name(((struct header *)p->data)->fields, at, len);
	return 0;
}

static int on_value(llhttp_t *p, const char *at, size_t len)
{
	fields_value(((struct header *)p->data)->fields, at, len);
	return 0;
}

static int on_complete(llhttp_t *p)
{
	struct header *h = p->data;

	h->complete = true;
	h->content_length = p->content_length;
	return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
	.on_url = on_url,
	.on_header_field = on_name,
	.on_header_value = on_value,
	.on_headers_complete = on_complete,
};

void header_parse(struct header *h, struct fields *fields, const char *text, size_t len,
		  bool response)
{
	llhttp_errno_t err;
	llhttp_t p;

	memset(h, 0, sizeof(*h));
	h->fields = fields;
	fields->count = 0;
	fields->in_value = false;
	fields->folded = false;
	fields->excess = false;
	llhttp_init(&p, response ? HTTP_RESPONSE : HTTP_REQUEST, &settings);
	p.data = h;
	err = llhttp_execute(&p, text, len);
	if (err != HPE_OK && err != HPE_PAUSED)
		h->error = llhttp_get_error_reason(&p);
	/* Its end and the one that was looked for before are the same, or somebody is being fooled. */
	else if (h->complete && llhttp_get_error_pos(&p) != text + len)
		h->error = "the header ends in two places";
	if (h->error)
		h->complete = false;
	h->major = p.http_major;
	h->minor = p.http_minor ? 1 : 0;
	h->status = response ? p.status_code : 0;
}

bool header_framing_field(struct header_framing *h, const struct field *field, bool *keep_alive)
{
	if (span_is(field->name, "content-length")) {
		h->lengths++;
	} else if (span_is(field->name, "transfer-encoding")) {
		h->codings++;
		h->unknown_coding |= !span_is(field->value, "chunked");
	} else if (span_is(field->name, "connection")) {
		/* Of several the one that ends it counts, in whichever order they come. */
		h->close |= span_lists(field->value, "close", 5);
		if (span_lists(field->value, "keep-alive", 10))
			*keep_alive = true;
		if (h->close)
			*keep_alive = false;
	} else {
		return false;
	}
	return true;
}
