// SPDX-License-Identifier: GPL-2.0
#include "token.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int sorry(const char *path, const char *why, char *error, size_t size)
{
	snprintf(error, size, "%s: %s", path, why);
	return -EINVAL;
}

static int judge(const char *path, int fd, uid_t owner, char *error, size_t size)
{
	struct stat st;

	if (fstat(fd, &st))
		return sorry(path, strerror(errno), error, size);
	if (!S_ISREG(st.st_mode))
		return sorry(path, "it is not a regular file", error, size);
	if (st.st_uid && st.st_uid != owner)
		return sorry(path, "it belongs neither to root nor to the user that afpad runs as", error, size);
	if (st.st_mode & 077)
		return sorry(path, "others may read or write it (chmod 600)", error, size);
	return 0;
}

int secret_read(const char *path, uid_t owner, char **text, size_t most, char *error, size_t size)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), err;
	size_t len = 0;
	ssize_t n = 1;

	*text = NULL;
	if (fd < 0) {
		err = -errno;
		snprintf(error, size, "%s: %s", path, errno == ELOOP ? "it is a link" : strerror(errno));
		return err;
	}
	err = judge(path, fd, owner, error, size);
	if (!err) {
		*text = malloc(most + 2);
		if (!*text)
			err = sorry(path, strerror(ENOMEM), error, size);
	}
	while (!err && n > 0 && len <= most) {
		n = read(fd, *text + len, most + 1 - len);
		if (n < 0)
			err = sorry(path, strerror(errno), error, size);
		else
			len += n;
	}
	close(fd);
	if (!err && len > most)
		err = sorry(path, "it is too long", error, size);
	if (!err && memchr(*text, '\0', len))
		err = sorry(path, "it has a NUL byte", error, size);
	if (err) {
		if (*text)
			explicit_bzero(*text, len);
		free(*text);
		*text = NULL;
		return err;
	}
	(*text)[len] = '\0';
	return 0;
}

/* What may stand behind "Bearer" (RFC 6750). */
static bool is_token(const char *text)
{
	size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/");

	return !text[len + strspn(text + len, "=")];
}

static const char *take(struct tokens *tokens, const char *line)
{
	size_t len = strlen(line);

	if (!len || *line == '#')
		return NULL;
	if (!is_token(line))
		return "a token has other characters than A-Z a-z 0-9 - . _ ~ + / =";
	if (len < TOKEN_LEAST)
		return "a token is shorter than 16 characters (openssl rand -hex 32)";
	if (len > TOKEN_MOST)
		return "a token is longer than 255 characters";
	if (tokens->nr == TOKENS_MAX)
		return "there are more than 16 tokens";
	memcpy(tokens->text[tokens->nr++], line, len);
	return NULL;
}

int tokens_read(struct tokens *tokens, const char *path, uid_t owner, char *error, size_t size)
{
	const char *why = NULL;
	char *text, *at, *line;
	size_t len;
	int err;

	memset(tokens, 0, sizeof(*tokens));
	err = secret_read(path, owner, &text, 16384, error, size);
	if (err)
		return err;
	len = strlen(text);
	at = text;
	while (!why && (line = strsep(&at, "\n")))
		why = take(tokens, line);
	if (!why && !tokens->nr)
		why = "it has no token";
	explicit_bzero(text, len);
	free(text);
	if (!why)
		return 0;
	explicit_bzero(tokens, sizeof(*tokens));
	return sorry(path, why, error, size);
}

bool tokens_have(const struct tokens *tokens, const char *shown)
{
	char padded[TOKEN_MOST + 1] = { 0 };
	unsigned char found = 0;
	size_t len = strlen(shown), j;
	unsigned int i;

	if (!len || len > TOKEN_MOST)
		return false;
	memcpy(padded, shown, len);
	for (i = 0; i < tokens->nr; i++) {
		volatile unsigned char differs = 0;

		for (j = 0; j < sizeof(padded); j++)
			differs |= padded[j] ^ tokens->text[i][j];
		found |= !differs;
	}
	explicit_bzero(padded, sizeof(padded));
	return found;
}
