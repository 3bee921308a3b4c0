/* SPDX-License-Identifier: GPL-2.0 */
/*
 * memcached's "get" that may be answered out of the cache, told from everything else that its
 * clients say. The kernel and the tests in user space build the same file, as request.h.
 */
#ifndef AFPA_GET_H
#define AFPA_GET_H

#include <linux/types.h>
#ifndef __KERNEL__
#include <stdbool.h>
#include <stddef.h>
#endif

#define AFPA_GET_KEYS		16	/* of one get; memcached takes more */
#define AFPA_GET_KEY_MAX	250	/* bytes of a key, as memcached has it */
/* Bytes of the longest one, "get ", keys each with a space or a CR behind it, and LF. */
#define AFPA_GET_MAX		(4 + AFPA_GET_KEYS * (AFPA_GET_KEY_MAX + 1) + 1)

/**
 * struct afpa_get - a get, as far as it has come; all zero before its first byte
 * @at:      where each key begins; a space is before it
 * @len:     bytes of each
 * @keys:    complete ones
 * @ending:  CR has come
 * @refused: it was not for us, and stays so
 * @scanned: bytes seen
 */
struct afpa_get {
	__u16 at[AFPA_GET_KEYS];
	__u8 len[AFPA_GET_KEYS];
	__u8 keys;
	bool ending, refused;
	__u16 scanned;
};

/**
 * afpa_get_parse() - is this a get for the cache?
 * @buf: all that has come of it; may lie elsewhere than last time
 * @len: of @buf; more than the get may follow, and is not looked at
 * @get: as the last call left it
 *
 * Each byte is looked at once, in however many pieces they come. What could be read in two ways
 * (bare LF, two spaces, one at the end) is refused.
 *
 * Return: bytes of the get, when it is complete; 0: more are needed; -EOPNOTSUPP: it is the
 * server's, whatever follows.
 */
int afpa_get_parse(const char *buf, size_t len, struct afpa_get *get);

/* Could a get ask for it? */
bool afpa_get_key_is_sound(const char *key, size_t len);

#endif
