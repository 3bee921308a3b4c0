// SPDX-License-Identifier: GPL-2.0
#include "work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lard/sim/trace.h"

/* Names seen so far, open addressing; a slot holds target + 1. */
struct names {
	uint32_t *slot;
	uint32_t mask;
};

static uint32_t hash(const char *s)
{
	uint32_t h = 2166136261u;

	while (*s)
		h = (h ^ (unsigned char)*s++) * 16777619u;
	return h;
}

static bool names_grow(struct names *n, const struct work *w)
{
	uint32_t mask = n->mask ? 2 * n->mask + 1 : 1023, i, at;
	uint32_t *slot = calloc((size_t)mask + 1, sizeof(*slot));

	if (!slot)
		return false;
	for (i = 0; i < w->targets; i++) {
		for (at = hash(w->path[i]) & mask; slot[at]; at = (at + 1) & mask)
			;
		slot[at] = i + 1;
	}
	free(n->slot);
	n->slot = slot;
	n->mask = mask;
	return true;
}

/* Room for one more; arrays double at powers of two. */
static bool grow(void **array, uint64_t n, size_t size)
{
	void *grown;

	if (n & (n - 1))
		return true;
	grown = realloc(*array, (n ? 2 * n : 1) * size);
	if (grown)
		*array = grown;
	return grown;
}

static bool add(struct work *w, struct names *names, const char *path, uint64_t size)
{
	uint32_t at, target;

	if (w->targets >= names->mask / 2 && !names_grow(names, w))
		return false;
	for (at = hash(path) & names->mask; names->slot[at]; at = (at + 1) & names->mask)
		if (!strcmp(w->path[names->slot[at] - 1], path))
			break;
	if (!names->slot[at]) {
		if (!grow((void **)&w->path, w->targets, sizeof(*w->path)) ||
		    !grow((void **)&w->size, w->targets, sizeof(*w->size)))
			return false;
		w->path[w->targets] = strdup(path);
		if (!w->path[w->targets])
			return false;
		w->size[w->targets] = 0;
		names->slot[at] = ++w->targets;
	}
	target = names->slot[at] - 1;
	if (size > w->size[target])
		w->size[target] = size;
	if (!grow((void **)&w->order, w->requests, sizeof(*w->order)))
		return false;
	w->order[w->requests++] = target;
	return true;
}

/* One line of a log or of a list: its path, or NULL when it is not a request to be made. */
static char *parse(char *line, uint64_t *size)
{
	char *quote = strchr(line, '"'), *path = line, *end;
	unsigned int status;

	*size = 0;
	if (quote) {
		if (!strncmp(quote + 1, "GET ", 4))
			path = quote + 5;
		else if (!strncmp(quote + 1, "HEAD ", 5))
			path = quote + 6;
		else
			return NULL;
		quote = strchr(path, '"');
		if (!quote || sscanf(quote + 1, "%u", &status) != 1 ||
		    (status != 304 && status / 100 != 2))
			return NULL;
		end = strchr(quote + 2, ' ');
		if (end)
			*size = strtoull(end, NULL, 10);
	}
	end = path + strcspn(path, " \t\r\n\"");
	if (!quote && *end)
		*size = strtoull(end + 1, NULL, 10);
	*end = '\0';
	return *path == '/' ? path : NULL;
}

static int load_text(struct work *w, const char *file, const char **why)
{
	struct names names = { 0 };
	char *line = NULL, *path;
	uint64_t bytes;
	size_t room = 0;
	FILE *f = fopen(file, "r");
	bool ok = true;

	*why = "it cannot be opened";
	if (!f)
		return -1;
	while (ok && getline(&line, &room, f) >= 0) {
		path = parse(line, &bytes);
		ok = !path || add(w, &names, path, bytes);
	}
	fclose(f);
	free(line);
	free(names.slot);
	*why = ok ? "it holds no request" : "there is not enough memory";
	return ok && w->requests ? 0 : -1;
}

static int load_trace(struct work *w, const char *file, const char *prefix, const char **why)
{
	struct trace t;
	uint32_t i;

	if (trace_load(&t, file, why))
		return -1;
	*why = "there is not enough memory";
	w->path = calloc(t.targets, sizeof(*w->path));
	w->size = calloc(t.targets, sizeof(*w->size));
	for (i = 0; w->path && w->size && i < t.targets; i++) {
		w->size[i] = t.size[i];
		if (asprintf(&w->path[i], "%s%u", prefix, i) < 0)
			break;
		w->targets++;
	}
	w->order = t.token;
	w->requests = t.requests;
	t.token = NULL;
	i = t.targets;
	trace_free(&t);
	if (w->targets == i && !w->requests)
		*why = "it holds no request";
	return w->targets == i && w->requests ? 0 : -1;
}

int work_load(struct work *w, const char *file, const char *prefix, const char **why)
{
	char magic[8] = "";
	FILE *f = fopen(file, "rb");
	int err;

	memset(w, 0, sizeof(*w));
	if (f) {
		if (fread(magic, sizeof(magic), 1, f) != 1)
			*magic = '\0';
		fclose(f);
	}
	err = !memcmp(magic, "FLTTRC1\n", 8) ? load_trace(w, file, prefix, why)
					     : load_text(w, file, why);
	if (err)
		work_free(w);
	return err;
}

uint64_t work_truncate(struct work *w, uint64_t bytes)
{
	uint64_t i, sum = 0;
	bool *seen = calloc(w->targets, 1);

	for (i = 0; seen && i < w->requests; i++) {
		uint32_t t = w->order[i];

		if (seen[t])
			continue;
		if (i && bytes && sum + w->size[t] > bytes)
			break;
		seen[t] = true;
		sum += w->size[t];
	}
	free(seen);
	w->requests = i;
	return sum;
}

const char *work_next(struct work *w)
{
	uint64_t at;

	if (w->random) {	/* splitmix64 */
		uint64_t z = w->next += 0x9e3779b97f4a7c15u;

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
		at = (z ^ (z >> 31)) % w->requests;
	} else {
		at = w->next++ % w->requests;
	}
	return w->path[w->order[at]];
}

void work_free(struct work *w)
{
	uint32_t i;

	for (i = 0; i < w->targets; i++)
		free(w->path[i]);
	free(w->path);
	free(w->size);
	free(w->order);
	memset(w, 0, sizeof(*w));
}
