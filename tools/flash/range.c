// SPDX-License-Identifier: GPL-2.0
/* Ranges and preconditions (RFC 9110 sections 13 and 14). */
#include "range.h"

#include <string.h>

#include "httpdate.h"

static const char *digits(const char *p, const char *end, uint64_t *out)
{
	const char *start = p;
	uint64_t n = 0;

	for (; p < end && *p >= '0' && *p <= '9'; p++) {
		if (p - start >= 18)
			return NULL;
		n = n * 10 + (*p - '0');
	}
	*out = n;
	return p;
}

int range_parse(const struct slice *v, uint64_t size, struct range *out)
{
	const char *p = v->p, *end = v->p + v->len, *q;
	int n = 0, specs = 0, i;
	uint64_t sum = 0;

	if (v->len < 6 || strncasecmp(p, "bytes=", 6))
		return 0;
	p += 6;
	for (;;) {
		uint64_t a = 0, b = 0;
		bool has_a, has_b;

		while (p < end && (*p == ' ' || *p == '\t' || *p == ','))
			p++;
		if (p == end)
			break;
		q = digits(p, end, &a);
		if (!q || q == end || *q != '-')
			return 0;
		has_a = q > p;
		p = q + 1;
		q = digits(p, end, &b);
		if (!q)
			return 0;
		has_b = q > p;
		p = q;
		while (p < end && (*p == ' ' || *p == '\t'))
			p++;
		if ((p < end && *p != ',') || (!has_a && !has_b) || (has_a && has_b && b < a))
			return 0;
		if (++specs > RANGE_MAX)
			return 0;
		if (!has_a) {			/* the last @b bytes */
			if (!b || !size)
				continue;
			a = b < size ? size - b : 0;
			b = size - 1;
		} else {
			if (a >= size)
				continue;
			if (!has_b || b >= size)
				b = size - 1;
		}
		if (n && a <= out[n - 1].end + 1 && a >= out[n - 1].start) {
			if (b > out[n - 1].end)
				out[n - 1].end = b;
			continue;
		}
		out[n].start = a;
		out[n].end = b;
		n++;
	}
	if (!specs)
		return 0;
	/* Overlaps would make the answer a multiple of the file (RFC 9110 14.2). */
	for (i = 0; i < n; i++)
		sum += out[i].end - out[i].start + 1;
	if (sum > size)
		return 0;
	return n ? n : -416;
}

/* Is @etag in the list @v? "*" matches all. Weak comparison ignores a leading W/. */
static bool etag_in_list(struct slice v, const struct slice *etag, bool weak)
{
	const char *p = v.p, *end = v.p + v.len, *q;
	struct slice mine = *etag;
	bool mine_weak = false;

	if (mine.len > 2 && mine.p[0] == 'W') {
		mine.p += 2;
		mine.len -= 2;
		mine_weak = true;
	}
	while (p < end) {
		bool item_weak = false;

		if (*p == ' ' || *p == '\t' || *p == ',') {
			p++;
			continue;
		}
		if (*p == '*')
			return true;
		if (end - p > 2 && p[0] == 'W' && p[1] == '/') {
			item_weak = true;
			p += 2;
		}
		if (*p != '"')
			return false;
		q = memchr(p + 1, '"', end - p - 1);
		if (!q)
			return false;
		q++;
		if ((size_t)(q - p) == mine.len && !memcmp(p, mine.p, mine.len) &&
		    (weak || (!item_weak && !mine_weak)))
			return true;
		p = q;
	}
	return false;
}

int cond_evaluate(const struct request *req, const struct slice *etag, int64_t mtime)
{
	time_t t;

	if (req->if_match.p) {
		if (!etag_in_list(req->if_match, etag, false))
			return 412;
	} else if (req->if_unmodified_since.p) {
		t = httpdate_parse(req->if_unmodified_since.p, req->if_unmodified_since.len);
		if (t >= 0 && mtime > t)
			return 412;
	}
	if (req->if_none_match.p) {
		if (etag_in_list(req->if_none_match, etag, true))
			return 304;
	} else if (req->if_modified_since.p) {
		t = httpdate_parse(req->if_modified_since.p, req->if_modified_since.len);
		if (t >= 0 && mtime <= t)
			return 304;
	}
	return 0;
}

bool cond_if_range(const struct request *req, const struct slice *etag, int64_t mtime)
{
	const struct slice *v = &req->if_range;

	if (!v->p)
		return true;
	/* "W/" begins a weak tag, "Wed, " a date. */
	if (v->len && (v->p[0] == '"' || (v->len > 1 && v->p[0] == 'W' && v->p[1] == '/')))
		return etag_in_list(*v, etag, false);
	return httpdate_parse(v->p, v->len) == mtime;
}
