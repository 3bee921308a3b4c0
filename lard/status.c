// SPDX-License-Identifier: GPL-2.0
/* The status page: who asks for what, and who is told each second. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "page.h"
#include "status.h"
#include "status_now.h"
#include "worker.h"

#define VISITORS_MAX	64
#define MISSED_MAX	5	/* seconds that somebody has not read before he must go */
#define SEND_BUFFER	32768	/* of such a one: what he does not read shall be seen soon */
#define AGE_SECONDS	600

/**
 * struct status - see above
 * @now: the last snapshot that was made; too large for a stack
 */
struct status {
	struct pages pages;
	struct status_history history;
	struct status_now now;
};

/* Nothing from elsewhere, nothing inline, in nobody's frame; what is shown is gone with the next look. */
#define FIELDS "Cache-Control: no-store\r\n" \
	"Content-Security-Policy: default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; " \
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n" \
	"Cross-Origin-Resource-Policy: same-origin\r\n" \
	"Referrer-Policy: no-referrer\r\n" \
	"X-Content-Type-Options: nosniff\r\n"

static unsigned int watchers(const struct status *status)
{
	const struct list *all = &status->pages.service.visitors, *at;
	unsigned int n = 0;

	for (at = all->next; at != all; at = at->next)
		n += container_of(container_of(at, struct visitor, link), struct page_visitor,
				  visitor)->stream;
	return n;
}

static void look(struct status *status)
{
	status_now_get(&status->now, &status->history, status->pages.lardd);
	status->now.watchers = watchers(status);
}

/* The page's file has a mark where what changes goes. */
static char *page_text(struct status *status, size_t *len)
{
	static const char mark[] = "<!-- status -->";
	const char *at = strstr(status_page_html, mark);
	char *text = NULL;
	FILE *out = open_memstream(&text, len);

	if (!out)
		return NULL;
	look(status);
	fwrite(status_page_html, 1, at - status_page_html, out);
	status_html_write(out, &status->now);
	fputs(at + strlen(mark), out);
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}

/* What changes, as an event: each of its lines is one of data. */
static char *event_text(struct status *status, size_t *len)
{
	char *html = NULL, *text = NULL, *line, *next;
	FILE *out = open_memstream(&html, len);

	if (!out)
		return NULL;
	look(status);
	status_html_write(out, &status->now);
	if (fclose(out) || !html)
		goto out;
	out = open_memstream(&text, len);
	if (!out)
		goto out;
	fputs("retry: 3000\n", out);
	for (line = html; (next = strchr(line, '\n')); line = next + 1)
		fprintf(out, "data: %.*s\n", (int)(next - line), line);
	fprintf(out, "data: %s\n\n", line);
	if (fclose(out)) {
		free(text);
		text = NULL;
	}
out:
	free(html);
	return text;
}

static void begin_stream(struct page_visitor *v, const struct request *r, const char *event, size_t len)
{
	static const int size = SEND_BUFFER;

	v->stream = !r->head;
	setsockopt(v->visitor.source.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	page_answer(v, r, "200 OK", "text/event-stream", FIELDS, event, len);
}

static void answer_text(struct page_visitor *v, const struct request *r, const char *type, char *text,
			size_t len)
{
	if (text)
		page_answer(v, r, "200 OK", type, FIELDS, text, len);
	free(text);
}

static void answer_file(struct page_visitor *v, const struct request *r, const char *type,
			const char *text)
{
	page_answer(v, r, "200 OK", type, FIELDS, text, strlen(text));
}

static void answer(struct pages *pages, struct page_visitor *v, const struct request *r)
{
	struct status *status = container_of(pages, struct status, pages);
	size_t len = 0;
	char *text;

	if (!span_is(r->method, "GET") && !r->head) {
		page_answer(v, r, "405 Method Not Allowed", "text/plain", "Allow: GET, HEAD\r\n", NULL, 0);
	} else if (page_is(r, "/")) {
		text = page_text(status, &len);
		answer_text(v, r, "text/html; charset=utf-8", text, len);
	} else if (page_is(r, "/status.json")) {
		look(status);
		text = status_json_text(&status->now);
		answer_text(v, r, "application/json", text, text ? strlen(text) : 0);
	} else if (page_is(r, "/page.css")) {
		answer_file(v, r, "text/css; charset=utf-8", status_page_css);
	} else if (page_is(r, "/page.js")) {
		answer_file(v, r, "text/javascript; charset=utf-8", status_page_js);
	} else if (page_is(r, "/events")) {
		text = event_text(status, &len);
		if (text)
			begin_stream(v, r, text, len);
		free(text);
	} else {
		page_answer(v, r, "404 Not Found", "text/plain", FIELDS, NULL, 0);
	}
}

/* A copy each, so that nobody's pace is anybody else's. Who has not taken the last one gets none. */
static void tell(struct page_visitor *v, const char *event, size_t len)
{
	struct visitor *visitor = &v->visitor;

	if (visitor->out) {
		if (++v->missed >= MISSED_MAX)
			visitor_close(visitor);
		return;
	}
	v->missed = 0;
	visitor->out = malloc(len);
	if (!visitor->out)
		return;
	memcpy(visitor->out, event, len);
	visitor->out_len = len;
	visitor_write(visitor);
}

void status_tick(struct status *status)
{
	struct page_visitor *all[VISITORS_MAX], *v;
	struct lardd *lardd;
	unsigned int nr = 0, i;
	struct list *at;
	size_t len = 0;
	char *event;

	if (!status)
		return;
	lardd = status->pages.lardd;
	status_history_add(&status->history, lardd);
	if (!(status->history.nr % AGE_SECONDS))
		for (i = 0; i < lardd->workers; i++)
			if (lardd->worker[i]->hot)
				hot_age(lardd->worker[i]->hot);
	/* First the list: writing changes its order. */
	for (at = status->pages.service.visitors.next; at != &status->pages.service.visitors;
	     at = at->next) {
		v = container_of(container_of(at, struct visitor, link), struct page_visitor, visitor);
		if (v->stream && nr < VISITORS_MAX)
			all[nr++] = v;
	}
	event = nr ? event_text(status, &len) : NULL;
	for (i = 0; event && i < nr; i++)
		tell(all[i], event, len);
	free(event);
}

struct pages *status_pages(struct status *status)
{
	return status ? &status->pages : NULL;
}

struct status *status_open(struct lardd *lardd, const union address *address, char *error,
			   size_t size)
{
	struct status *status = calloc(1, sizeof(*status));
	unsigned int i;

	if (!status) {
		snprintf(error, size, "no memory");
		return NULL;
	}
	status->pages.what = "status page";
	status->pages.of_ours = true;
	status->pages.answer = answer;
	status->pages.service.max = VISITORS_MAX;
	if (pages_open(&status->pages, lardd, address, error, size)) {
		free(status);
		return NULL;
	}
	/* Nobody is served yet. Without memory for it a worker's targets are not told. */
	for (i = 0; i < lardd->workers; i++)
		lardd->worker[i]->hot = hot_new();
	return status;
}

void status_close(struct status *status)
{
	if (status)
		pages_close(&status->pages);
	free(status);
}
