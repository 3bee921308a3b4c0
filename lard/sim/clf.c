// SPDX-License-Identifier: GPL-2.0
/* Common and Combined Log Format into a trace. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "trace.h"

#define BUCKETS	(1U << 18)

struct url {
	struct url *next;
	uint32_t number;
	uint32_t size;		/* 0: no reply with status 200 yet */
	char text[];
};

struct reader {
	struct url *bucket[BUCKETS];
	struct url **url;
	uint32_t *token;
	uint64_t tokens, token_room;
	uint32_t urls, url_room;
};

/* FNV-1a: the table is sized for a log, not for an adversary. */
static uint32_t hash(const char *s)
{
	uint32_t h = 2166136261U;

	while (*s)
		h = (h ^ (unsigned char)*s++) * 16777619U;
	return h;
}

static bool grow(void *array, uint64_t used, uint64_t *room, size_t element)
{
	void **p = array;
	uint64_t more = *room ? 2 * *room : 4096;
	void *bigger;

	if (used < *room)
		return true;
	bigger = realloc(*p, more * element);
	if (!bigger)
		return false;
	*p = bigger;
	*room = more;
	return true;
}

static struct url *url_get(struct reader *r, const char *text)
{
	struct url **slot = &r->bucket[hash(text) % BUCKETS];
	uint64_t room = r->url_room;
	struct url *u;

	for (u = *slot; u; u = u->next)
		if (!strcmp(u->text, text))
			return u;
	if (!grow(&r->url, r->urls, &room, sizeof(*r->url)))
		return NULL;
	r->url_room = room;
	u = malloc(sizeof(*u) + strlen(text) + 1);
	if (!u)
		return NULL;
	strcpy(u->text, text);
	u->size = 0;
	u->number = r->urls;
	u->next = *slot;
	*slot = u;
	r->url[r->urls++] = u;
	return u;
}

/* host ident user [date] "GET /url HTTP/1.0" status size ... ; cuts @line up. */
static bool parse(char *line, char **method, char **url, int *status, char **size)
{
	char *quote = strchr(line, '"'), *end, *p;

	if (!quote || !memchr(line, '[', quote - line))
		return false;
	*method = quote + 1;
	for (end = *method; *end && *end != '"'; end++)
		if (*end == '\\' && end[1])
			end++;
	if (*end != '"')
		return false;
	*end = '\0';
	p = strchr(*method, ' ');
	if (!p)
		return false;
	*p = '\0';
	*url = p + 1 + strspn(p + 1, " ");
	(*url)[strcspn(*url, " ")] = '\0';
	*status = strtol(end + 1, &p, 10);
	if (p == end + 1 || *p != ' ' || *status < 100 || *status > 599)
		return false;
	*size = p + 1;
	return **url && (isdigit((unsigned char)**size) || **size == '-');
}

static int take(struct reader *r, char *line, struct clf_stats *stats)
{
	char *method, *text, *size;
	struct url *u;
	int status;

	if (!parse(line, &method, &text, &status, &size)) {
		stats->malformed++;
		return 0;
	}
	if (strcmp(method, "GET") || (status != 200 && status != 304) || !(u = url_get(r, text))) {
		stats->skipped++;
		return 0;
	}
	if (status == 200 && isdigit((unsigned char)*size)) {
		unsigned long long n = strtoull(size, NULL, 10);

		if (n > u->size)
			u->size = n > UINT32_MAX ? UINT32_MAX : n;
	}
	if (!grow(&r->token, r->tokens, &r->token_room, sizeof(*r->token)))
		return -1;
	r->token[r->tokens++] = u->number;
	return 0;
}

/* Keep what has a size, renumbered without gaps. */
static int finish(struct reader *r, struct trace *t, struct clf_stats *stats)
{
	uint32_t targets = 0;
	uint64_t n = 0;

	for (uint32_t i = 0; i < r->urls; i++)
		r->url[i]->number = r->url[i]->size ? targets++ : UINT32_MAX;
	for (uint64_t i = 0; i < r->tokens; i++)
		n += r->url[r->token[i]]->size > 0;
	if (trace_alloc(t, targets, n))
		return -1;
	for (uint32_t i = 0; i < r->urls; i++)
		if (r->url[i]->size)
			t->size[r->url[i]->number] = r->url[i]->size;
	n = 0;
	for (uint64_t i = 0; i < r->tokens; i++) {
		struct url *u = r->url[r->token[i]];

		if (u->size)
			t->token[n++] = u->number;
		else
			stats->skipped++;
	}
	stats->used = n;
	return trace_rank(t);
}

int clf_read(struct trace *t, FILE *log, struct clf_stats *stats, const char **why)
{
	struct reader *r = calloc(1, sizeof(*r));
	size_t room = 0;
	char *line = NULL;
	int err = -1;

	memset(stats, 0, sizeof(*stats));
	*why = "there is not enough memory";
	if (!r)
		return -1;
	while (getline(&line, &room, log) >= 0)
		if (take(r, line, stats))
			goto out;
	if (finish(r, t, stats))
		goto out;
	err = 0;
	if (!t->requests) {
		*why = "it has no line that counts as a request";
		trace_free(t);
		err = -1;
	}
out:
	free(line);
	for (uint32_t i = 0; i < r->urls; i++)
		free(r->url[i]);
	free(r->url);
	free(r->token);
	free(r);
	return err;
}
