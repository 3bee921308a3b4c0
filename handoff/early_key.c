// SPDX-License-Identifier: GPL-2.0
/*
 * The key of a request's target. lard/url.c knows how a URL is brought to its normal form, here it
 * must have it already: then the key is the hash of the bytes as they stand.
 */

#ifdef __KERNEL__
#include <linux/string.h>
#endif

#include "early_choose.h"
#include "target_hash.h"

/* Fields of a header that every dispatcher takes. */
#define HOF_FIELDS_MAX	100

struct hof_text {
	const char *at;
	size_t len;
};

/* "/path?query", printable; nothing is encoded, empty, hidden or to be resolved. */
static bool hof_early_path_is_plain(struct hof_text path)
{
	bool query = false;
	size_t i;

	if (!path.len || path.at[0] != '/')
		return false;
	for (i = 0; i < path.len; i++) {
		char c = path.at[i], before = i ? path.at[i - 1] : 0;

		if (c <= ' ' || c > '~' || c == '%' || c == '#')
			return false;
		if (!query && before == '/' && (c == '/' || c == '.'))
			return false;
		query |= c == '?';
	}
	return true;
}

/* In lower case, without what is left out of names: a dot, an empty port or 80 at the end. */
static bool hof_early_host_is_plain(struct hof_text host)
{
	size_t i;

	for (i = 0; i < host.len; i++) {
		char c = host.at[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '_' &&
		    c != '.' && c != ':' && c != '[' && c != ']')
			return false;
	}
	if (!host.len || host.at[host.len - 1] == '.' || host.at[host.len - 1] == ':')
		return false;
	return host.len < 3 || memcmp(host.at + host.len - 3, ":80", 3);
}

/* "METHOD target HTTP/1.x\r" up to @end. */
static bool hof_early_target_of(const char *line, const char *end, struct hof_text *target)
{
	static const char version[] = " HTTP/1.x\r";
	const size_t tail = sizeof(version) - 1;
	const char *space = memchr(line, ' ', end - line);

	if (!space || end - space <= (ptrdiff_t)tail || memcmp(end - tail, version, tail - 2) ||
	    (end[-2] != '0' && end[-2] != '1'))
		return false;
	target->at = space + 1;
	target->len = end - tail - target->at;
	return true;
}

/* A blank or a tab on either side is not part of it. */
static struct hof_text hof_early_trim(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	return (struct hof_text){ at, end - at };
}

bool hof_early_key(const char *text, size_t len, bool any_host, __u64 *key)
{
	static const char name[] = "host:";
	const char *line = text, *end = text + len, *next;
	struct hof_text target = { NULL, 0 }, host = { NULL, 0 };
	unsigned int fields = 0, hosts = 0;
	__u64 h = HASH_BEGIN;

	for (; (next = memchr(line, '\n', end - line)); line = next + 1) {
		if (line == text) {
			if (!hof_early_target_of(line, next, &target))
				return false;
			continue;
		}
		if (next <= line + 1)
			break;	/* the header's end */
		fields++;
		if (next - line >= (ptrdiff_t)sizeof(name) &&
		    !strncasecmp(line, name, sizeof(name) - 1)) {
			host = hof_early_trim(line + sizeof(name) - 1, next - 1);
			hosts++;
		}
	}
	if (!next || hosts != 1 || fields > HOF_FIELDS_MAX || !hof_early_path_is_plain(target) ||
	    !hof_early_host_is_plain(host))
		return false;
	if (!any_host)
		h = hash_more(h, host.at, host.len);
	*key = mix64(hash_more(h, target.at, target.len));
	return true;
}
