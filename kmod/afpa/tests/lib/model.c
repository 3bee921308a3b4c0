// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "kmod/afpa/get.h"
#include "kmod/afpa/request.h"
#include "model.h"
#include "mutate.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define PORT	80	/* a request that names another one is the server's */
#define LARGE	70000	/* more than is sent at once */

static char large[LARGE];

static const struct model_object pages[] = {
	{ "a", "/", "text/plain", "of the kernel", 13 },
	{ "a", "/a/b", "", large, 1000 },
	{ "*", "/large", "text/plain", large, sizeof(large) },
	{ "b", "/", "text/x-b", "another host's", 14 },
	{ "*", "/x?y", "text/html", "of any host", 11 },
	{ "*", "/", "", "", 0 },
};

static const struct model_object *page_of(const char *host, size_t host_len, const char *path,
					  size_t path_len)
{
	const struct model_object *any = NULL;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(pages); i++) {
		if (strlen(pages[i].path) != path_len || memcmp(pages[i].path, path, path_len))
			continue;
		if (!strcmp(pages[i].host, "*"))
			any = &pages[i];
		else if (strlen(pages[i].host) == host_len &&
			 !strncasecmp(pages[i].host, host, host_len))
			return &pages[i];
	}
	return any;
}

/* Some of them ask for what goes in pieces. */
static size_t sound_page(uint64_t *seed, char *text)
{
	if (draw(seed, 64))
		return sound_request(seed, text);
	return sprintf(text, "GET /large HTTP/1.1\r\nHost: c\r\n\r\n");
}

static size_t sound_value(uint64_t *seed, char *text)
{
	if (draw(seed, 64))
		return sound_get(seed, text);
	return sprintf(text, "get k large\r\n");
}

static long next_page(const char *text, size_t len, struct model_answer *answer)
{
	struct afpa_request req;
	int used;

	afpa_request_init(&req);
	used = afpa_request_parse(text, len, &req);
	if (used <= 0)
		return used ? -1 : 0;
	if (req.port && req.port != PORT)
		return -1;
	answer->of[0] = page_of(text + req.host_at, req.host_len, text + req.path_at, req.path_len);
	if (!answer->of[0])
		return -1;
	answer->nr = 1;
	answer->head = req.method == AFPA_METHOD_HEAD;
	answer->closes = !req.keep_alive;
	answer->says = answer->closes ? "Connection: close\r\n" :
		       req.minor ? "" : "Connection: keep-alive\r\n";
	return used;
}

/* What is at @got against what should be: bytes of it, 0 where it is cut off, -1 */
static long check_text(const char *got, size_t len, const char *text, size_t text_len)
{
	size_t n = len < text_len ? len : text_len;

	if (memcmp(got, text, n))
		return -1;
	return len < text_len ? 0 : (long)text_len;
}

static long check_page(const struct model_answer *answer, const char *got, size_t len)
{
	static const char begin[] = "HTTP/1.1 200 OK\r\nDate: ";
	static const char date[] = "Thu, 01 Jan 1970 00:00:00";
	const struct model_object *of = answer->of[0];
	size_t at = sizeof(begin) - 1;
	char rest[300];
	long n;

	n = check_text(got, len, begin, at);
	if (n <= 0)
		return n;
	at += sizeof(date) - 1;
	if (at > len)
		return 0;
	n = sprintf(rest, " GMT\r\n%sContent-Length: %zu\r\n", answer->says, of->len);
	if (*of->type)
		n += sprintf(rest + n, "Content-Type: %s\r\n", of->type);
	n += sprintf(rest + n, "\r\n");
	n = check_text(got + at, len - at, rest, n);
	if (n <= 0)
		return n;
	at += n;
	if (answer->head || !of->len)
		return at;
	n = check_text(got + at, len - at, of->body, of->len);
	return n <= 0 ? n : (long)at + n;
}

/* All but some lengths of keys are there. */
static struct model_object values[MUTATE_KEY_MAX + 2];
static char names[MUTATE_KEY_MAX + 1][MUTATE_KEY_MAX + 2];

static unsigned int make_values(void)
{
	unsigned int len, nr = 0;

	for (len = 1; len <= MUTATE_KEY_MAX; len++) {
		if (len == 23 || len == 27)
			continue;
		snprintf(names[len], sizeof(names[len]), "/%.*s", (int)len, MUTATE_KEY);
		values[nr++] = (struct model_object){ "*", names[len], "9", large, len * len * 4 };
	}
	values[nr++] = (struct model_object){ "*", "/k", "0", "short", 5 };
	values[nr++] = (struct model_object){ "*", "/large", "0", large, sizeof(large) };
	return nr;
}

static long next_get(const char *text, size_t len, struct model_answer *answer)
{
	struct afpa_get get = { .keys = 0 };
	int used = afpa_get_parse(text, len, &get);
	unsigned int i, k;

	if (used <= 0)
		return used ? -1 : 0;
	for (i = 0; i < get.keys; i++) {
		for (k = 0; values[k].path; k++)
			if (strlen(values[k].path) == get.len[i] + 1u &&
			    !memcmp(values[k].path + 1, text + get.at[i], get.len[i]))
				break;
		if (!values[k].path)
			return -1;
		answer->of[i] = &values[k];
	}
	answer->nr = get.keys;
	answer->says = "";
	return used;
}

static long check_values(const struct model_answer *answer, const char *got, size_t len)
{
	unsigned int i;
	size_t at = 0;
	char text[100];
	long n;

	for (i = 0; i < answer->nr; i++) {
		const struct model_object *of = answer->of[i];

		n = sprintf(text, "VALUE %s %s %zu\r\n", of->path + 1, of->type, of->len);
		n = check_text(got + at, len - at, text, n);
		if (n <= 0)
			return n;
		at += n;
		n = check_text(got + at, len - at, of->body, of->len);
		if (n <= 0)
			return n;
		at += n;
		n = check_text(got + at, len - at, "\r\nEND\r\n", i + 1 < answer->nr ? 2 : 7);
		if (n <= 0)
			return n;
		at += n;
	}
	return at;
}

const struct model *model_of(const char *name)
{
	static struct model models[] = {
		{ "http", mutate_request, sound_page, next_page, check_page, pages,
		  ARRAY_SIZE(pages) },
		{ "memcached", mutate_get, sound_value, next_get, check_values, values, 0 },
	};
	unsigned int i;

	for (i = 0; i < sizeof(large); i++)
		large[i] = 'a' + (i * 7 + i / 300) % 26;
	models[1].nr = make_values();
	for (i = 0; i < ARRAY_SIZE(models); i++)
		if (!strcmp(models[i].name, name))
			return &models[i];
	return NULL;
}
