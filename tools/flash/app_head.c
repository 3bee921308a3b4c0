// SPDX-License-Identifier: GPL-2.0
/* The header of a program's answer: read in one way only, and put into ours. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "app.h"
#include "https.h"
#include "response.h"

#define HEAD_MAX 16384
#define REASON_MAX 128

/* One line of the program's header. */
struct field {
	const char *name, *value;
	size_t name_len, value_len;
};

static bool is(const struct field *f, const char *name)
{
	return f->name_len == strlen(name) && !strncasecmp(f->name, name, f->name_len);
}

/*
 * The line at *@p, which moves to the next. 1: a field; 0: the empty line; -1: a line that two
 * readers could understand in two ways, or that is no field at all.
 */
static int field_next(char **p, char *end, struct field *f)
{
	char *line = *p, *lf = memchr(line, '\n', end - line), *stop = lf, *c;

	*p = lf + 1;
	if (stop > line && stop[-1] == '\r')
		stop--;
	if (stop == line)
		return 0;
	for (c = line; c < stop; c++)
		if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f)
			return -1;
	for (c = line; c < stop && *c != ':'; c++)
		if (*c == ' ' || *c == '\t' || strchr("\"(),/;<=>?@[\\]{}", *c) || (unsigned char)*c >= 0x80)
			return -1;
	if (c == line || c == stop)
		return -1;
	f->name = line;
	f->name_len = c - line;
	for (c++; c < stop && (*c == ' ' || *c == '\t'); c++)
		;
	while (stop > c && (stop[-1] == ' ' || stop[-1] == '\t'))
		stop--;
	f->value = c;
	f->value_len = stop - c;
	return 1;
}

/* "404 Not Found": the number, and what is behind it. */
static int parse_status(const struct field *f, struct slice *reason)
{
	const char *p = f->value, *end = p + f->value_len;
	int i, status = 0;

	for (i = 0; i < 3 && p < end && *p >= '0' && *p <= '9'; i++)
		status = 10 * status + *p++ - '0';
	if (i < 3 || (p < end && *p != ' '))
		return -1;
	while (p < end && *p == ' ')
		p++;
	reason->p = p;
	reason->len = end - p < REASON_MAX ? end - p : REASON_MAX;
	return status;
}

/* What is between us and the client is ours to say. */
static bool is_ours(const struct field *f)
{
	static const char *const names[] = {
		"Status", "Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "TE",
		"Trailer", "Upgrade", "Date", "Server",
	};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (is(f, names[i]))
			return true;
	return false;
}

/* First what decides over the rest. -1: not an answer that can be passed on. */
static int scan_head(struct app_run *run, char *end, struct slice *reason)
{
	bool location = false, said = false;
	struct field f;
	char *p = run->head;
	int n, fields = 0;

	run->status = 200;
	while (p < end && (n = field_next(&p, end, &f))) {
		if (n < 0)
			return -1;
		if (is(&f, "Status")) {
			if (said)
				return -1;
			said = true;
			run->status = parse_status(&f, reason);
			continue;
		}
		if (is(&f, "Content-Length")) {
			const struct slice value = { f.value, f.value_len };

			if (run->has_length || !slice_length(&value, &run->left))
				return -1;
			run->has_length = true;
		}
		location |= is(&f, "Location");
		fields += !is_ours(&f);
	}
	if (!said && location)
		run->status = 302;
	return fields && run->status >= 200 && run->status <= 599 ? 0 : -1;
}

/* The program's header as a response header. @end: behind its empty line. 0, or minus a status. */
static int answer_head(struct app_run *run, char *end)
{
	struct conn *c = run->c;
	struct request req = { .flags = run->close ? REQ_CLOSE : 0 };
	struct slice reason = { NULL, 0 };
	char out[2 * HEAD_MAX], *p = run->head;
	struct field f;
	size_t n;

	if (scan_head(run, end, &reason))
		return -502;
	if (run->http10)
		req.flags |= REQ_HTTP10;
	if (run->status == 204 || run->status == 304)
		run->no_body = true;
	else if (!run->has_length && !run->http10)
		run->chunked = true;
	else if (!run->has_length)
		run->close = true;
	if (run->close)
		req.flags |= REQ_CLOSE;
	if (!reason.len) {
		reason.p = status_text(run->status);
		reason.len = strlen(reason.p);
	}
	n = snprintf(out, sizeof(out), "HTTP/1.1 %d %.*s\r\nDate: %s\r\nServer: flash\r\n%s%s%s",
		     run->status, (int)reason.len, reason.p, c->w->loop.date, connection_header(&req),
		     https_hsts(c),
		     run->chunked ? "Transfer-Encoding: chunked\r\n" : "");
	while (p < end && field_next(&p, end, &f) > 0) {
		if (is_ours(&f) || (*https_hsts(c) && is(&f, "Strict-Transport-Security")) ||
		    (run->status == 204 && is(&f, "Content-Length")))
			continue;
		/* A field is at most two bytes longer than what it was, and is at least two long. */
		if (n + f.name_len + f.value_len + 8 > sizeof(out))
			return -502;
		n += sprintf(out + n, "%.*s: %.*s\r\n", (int)f.name_len, f.name, (int)f.value_len,
			     f.value);
	}
	memcpy(out + n, "\r\n", 2);
	if (app_put(run, out, n + 2))
		return -503;
	run->head_done = true;
	return 0;
}

/* End of the header in what has come, behind the empty line; NULL when it has not. */
static char *head_end(char *p, size_t len)
{
	char *end = p + len, *lf;

	while ((lf = memchr(p, '\n', end - p))) {
		p = lf + 1;
		if (p < end && *p == '\n')
			return p + 1;
		if (p + 1 < end && p[0] == '\r' && p[1] == '\n')
			return p + 2;
	}
	return NULL;
}

ssize_t app_head_take(struct app_run *run, const char *p, size_t len)
{
	size_t before = run->head_len, take;
	char *end;
	int err;

	if (!run->head)
		run->head = malloc(HEAD_MAX);
	if (!run->head)
		return app_finish(run, 503);
	take = len < HEAD_MAX - before ? len : HEAD_MAX - before;
	memcpy(run->head + before, p, take);
	run->head_len += take;
	end = head_end(run->head, run->head_len);
	if (!end)
		return run->head_len == HEAD_MAX ? app_finish(run, 502) : (ssize_t)take;
	err = answer_head(run, end);
	if (err)
		return app_finish(run, -err);
	take = end - run->head - before;
	free(run->head);
	run->head = NULL;
	return take;
}
