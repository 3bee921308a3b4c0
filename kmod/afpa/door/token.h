/* SPDX-License-Identifier: GPL-2.0 */
/* Bearer tokens: a file of them, and what somebody shows. */
#ifndef DOOR_TOKEN_H
#define DOOR_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define TOKENS_MAX	16
#define TOKEN_LEAST	16	/* characters: shorter ones are guessed */
#define TOKEN_MOST	255

/**
 * struct tokens - those of one file
 * @text: each filled up with zero bytes, so that comparing takes the same time
 */
struct tokens {
	unsigned int nr;
	char text[TOKENS_MAX][TOKEN_MOST + 1];
};

/**
 * secret_read() - a file that only its owner may read
 * @path:  of it; not a link, a regular file, mode 0600 or less
 * @owner: who may own it, besides root
 * @text:  out: malloc(), with a zero byte
 * @most:  bytes
 * @error: out: a sentence
 * @size:  of @error
 *
 * Return: 0 or a negative errno.
 */
int secret_read(const char *path, uid_t owner, char **text, size_t most, char *error, size_t size);

/* One token a line; blank lines and those that begin with # do not count. As secret_read(). */
int tokens_read(struct tokens *tokens, const char *path, uid_t owner, char *error, size_t size);

/* Whether @shown is one of them; takes as long for each that is not. */
bool tokens_have(const struct tokens *tokens, const char *shown);

#endif
