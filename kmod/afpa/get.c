// SPDX-License-Identifier: GPL-2.0
/* Gets for the cache. All other commands and the binary protocol differ by their first bytes. */
#ifdef __KERNEL__
#include <linux/errno.h>
#else
#include <errno.h>
#endif
#include "get.h"

static const char command[] = "get ";

#define BEFORE	(sizeof(command) - 1)

static bool is_key(char c)
{
	return (unsigned char)c > ' ' && c != 0x7f;
}

bool afpa_get_key_is_sound(const char *key, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (!is_key(key[i]))
			return false;
	return len && len <= AFPA_GET_KEY_MAX;
}

static int refuse(struct afpa_get *get)
{
	get->refused = true;
	return -EOPNOTSUPP;
}

/* A byte of a key, or the one behind it. */
static bool take(struct afpa_get *get, char c, size_t at)
{
	size_t len;

	len = at - get->at[get->keys];
	if (is_key(c))
		return len < AFPA_GET_KEY_MAX;
	if (!len || (c != ' ' && c != '\r'))
		return false;
	get->len[get->keys++] = len;
	get->ending = c == '\r';
	if (get->ending)
		return true;
	if (get->keys == AFPA_GET_KEYS)
		return false;
	get->at[get->keys] = at + 1;
	return true;
}

int afpa_get_parse(const char *buf, size_t len, struct afpa_get *get)
{
	size_t at;

	if (get->refused || get->scanned > len)
		return refuse(get);
	for (at = get->scanned; at < len; at++) {
		if (get->ending)
			return buf[at] == '\n' ? (int)at + 1 : refuse(get);
		if (at >= BEFORE ? !take(get, buf[at], at) : buf[at] != command[at])
			return refuse(get);
		if (at == BEFORE - 1)
			get->at[0] = BEFORE;
	}
	get->scanned = at;
	return 0;
}
