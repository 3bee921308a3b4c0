// SPDX-License-Identifier: GPL-2.0
/* Traces in memory and in the compact format. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "trace.h"

static const char magic[8] = "FLTTRC1\n";

struct header {
	char magic[8];
	uint32_t targets;
	uint32_t flags;
	uint64_t requests;
};

int trace_alloc(struct trace *t, uint32_t targets, uint64_t requests)
{
	memset(t, 0, sizeof(*t));
	t->size = calloc(targets ? targets : 1, sizeof(*t->size));
	t->token = calloc(requests ? requests : 1, sizeof(*t->token));
	if (!t->size || !t->token) {
		trace_free(t);
		return -1;
	}
	t->targets = targets;
	t->requests = requests;
	return 0;
}

void trace_free(struct trace *t)
{
	free(t->size);
	free(t->token);
	memset(t, 0, sizeof(*t));
}

static bool read_words(FILE *f, uint32_t *words, uint64_t n)
{
	if (fread(words, sizeof(*words), n, f) != n)
		return false;
	for (uint64_t i = 0; i < n; i++)
		words[i] = le32toh(words[i]);
	return true;
}

static int trace_read(struct trace *t, FILE *f, const char **why)
{
	struct header h;
	struct stat st;
	uint64_t need;

	*why = "it is not a compact trace";
	if (fread(&h, sizeof(h), 1, f) != 1 || memcmp(h.magic, magic, sizeof(magic)))
		return -1;
	h.targets = le32toh(h.targets);
	h.flags = le32toh(h.flags);
	h.requests = le64toh(h.requests);
	*why = "its header promises more than the file holds";
	if (h.requests > UINT32_MAX || fstat(fileno(f), &st))
		return -1;
	need = sizeof(h) + 4 * (h.targets + h.requests);
	if (S_ISREG(st.st_mode) && (uint64_t)st.st_size < need)
		return -1;
	*why = "there is not enough memory";
	if (trace_alloc(t, h.targets, h.requests))
		return -1;
	t->flags = h.flags;
	*why = "it is cut short";
	if (!read_words(f, t->size, t->targets) || !read_words(f, t->token, t->requests))
		goto bad;
	*why = "a request names a target that does not exist, or a target is empty";
	for (uint64_t i = 0; i < t->requests; i++)
		if (t->token[i] >= t->targets)
			goto bad;
	for (uint32_t i = 0; i < t->targets; i++)
		if (!t->size[i])
			goto bad;
	return 0;

bad:
	trace_free(t);
	return -1;
}

int trace_load(struct trace *t, const char *path, const char **why)
{
	FILE *f = fopen(path, "rb");
	int err;

	if (!f) {
		*why = "it cannot be opened";
		return -1;
	}
	err = trace_read(t, f, why);
	fclose(f);
	return err;
}

static bool write_words(FILE *f, const uint32_t *words, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		uint32_t le = htole32(words[i]);

		if (fwrite(&le, sizeof(le), 1, f) != 1)
			return false;
	}
	return true;
}

int trace_save(const struct trace *t, const char *path, const char **why)
{
	struct header h = {
		.targets = htole32(t->targets),
		.flags = htole32(t->flags),
		.requests = htole64(t->requests),
	};
	FILE *f = fopen(path, "wb");
	bool ok;

	*why = "it cannot be created";
	if (!f)
		return -1;
	memcpy(h.magic, magic, sizeof(magic));
	ok = fwrite(&h, sizeof(h), 1, f) == 1 && write_words(f, t->size, t->targets) &&
	     write_words(f, t->token, t->requests);
	*why = "it cannot be written";
	return fclose(f) || !ok ? -1 : 0;
}

struct rank {
	uint64_t count;
	uint32_t target;
};

/* The more requested first; among equals the lower number, so that the order is one. */
static int rank_order(const void *a, const void *b)
{
	const struct rank *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return x->target < y->target ? -1 : x->target > y->target;
}

static struct rank *ranks(const struct trace *t)
{
	struct rank *r = calloc(t->targets ? t->targets : 1, sizeof(*r));

	if (!r)
		return NULL;
	for (uint32_t i = 0; i < t->targets; i++)
		r[i].target = i;
	for (uint64_t i = 0; i < t->requests; i++)
		r[t->token[i]].count++;
	qsort(r, t->targets, sizeof(*r), rank_order);
	return r;
}

int trace_rank(struct trace *t)
{
	uint32_t *number = calloc(t->targets ? t->targets : 1, sizeof(*number));
	uint32_t *size = calloc(t->targets ? t->targets : 1, sizeof(*size));
	struct rank *r = ranks(t);
	int err = -1;

	if (!number || !size || !r)
		goto out;
	for (uint32_t i = 0; i < t->targets; i++) {
		number[r[i].target] = i;
		size[i] = t->size[r[i].target];
	}
	for (uint64_t i = 0; i < t->requests; i++)
		t->token[i] = number[t->token[i]];
	memcpy(t->size, size, t->targets * sizeof(*size));
	t->flags |= TRACE_RANKED;
	err = 0;
out:
	free(number);
	free(size);
	free(r);
	return err;
}

int trace_describe(const struct trace *t, struct trace_facts *facts)
{
	static const double shares[] = { 0.97, 0.98, 0.99 };
	struct rank *r = ranks(t);
	uint64_t requests = 0, bytes = 0;
	double sent = 0;
	uint32_t seen = 0;
	int share = 0;

	memset(facts, 0, sizeof(*facts));
	if (!r)
		return -1;
	for (uint32_t i = 0; i < t->targets; i++) {
		uint32_t size = t->size[r[i].target];

		facts->bytes += size;
		seen += r[i].count > 0;
		sent += (double)size * r[i].count;
		requests += r[i].count;
		bytes += size;
		while (share < 3 && requests >= shares[share] * t->requests)
			facts->coverage[share++] = bytes;
	}
	if (t->requests) {
		facts->mean = sent / t->requests;
		facts->top = (double)r[0].count / t->requests;
		facts->compulsory = (double)seen / t->requests;
	}
	free(r);
	return 0;
}
