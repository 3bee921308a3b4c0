// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hold.h"

/**
 * struct piece - what was not taken at once
 */
struct piece {
	struct piece *next;
	int fd;
	size_t len;
	char text[];
};

static struct {
	FILE *out, *err;
	struct sigaction pipe;
	struct piece *first, **last;
} held;

static void put_all(int fd, const char *text, size_t len)
{
	ssize_t n;

	while (len) {
		n = write(fd, text, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		text += n;
		len -= n;
	}
}

/* Whatever takes something takes so much without waiting. */
static bool is_taken(int fd, size_t len)
{
	struct pollfd ready = { .fd = fd, .events = POLLOUT };

	return len <= PIPE_BUF && poll(&ready, 1, 0) > 0;
}

static ssize_t keep(void *cookie, const char *text, size_t len)
{
	int fd = cookie ? STDERR_FILENO : STDOUT_FILENO;
	struct piece *piece;

	if (!held.first && is_taken(fd, len)) {
		put_all(fd, text, len);
		return len;
	}
	piece = malloc(sizeof(*piece) + len);
	/* Without memory for it, it is lost. */
	if (!piece)
		return len;
	*piece = (struct piece){ .fd = fd, .len = len };
	memcpy(piece->text, text, len);
	*held.last = piece;
	held.last = &piece->next;
	return len;
}

static FILE *take_place(FILE *of, bool error)
{
	cookie_io_functions_t functions = { .write = keep };
	FILE *stream = fopencookie(error ? &held : NULL, "w", functions);

	if (!stream)
		return of;
	setvbuf(stream, NULL, _IOLBF, 0);
	return stream;
}

void hold_begin(void)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };

	fflush(stdout);
	sigaction(SIGPIPE, &ignore, &held.pipe);
	held.first = NULL;
	held.last = &held.first;
	held.out = stdout;
	held.err = stderr;
	stdout = take_place(stdout, false);
	stderr = take_place(stderr, true);
}

void hold_end(void)
{
	struct piece *piece;

	if (stdout != held.out)
		fclose(stdout);
	if (stderr != held.err)
		fclose(stderr);
	stdout = held.out;
	stderr = held.err;
	while ((piece = held.first)) {
		held.first = piece->next;
		put_all(piece->fd, piece->text, piece->len);
		free(piece);
	}
	sigaction(SIGPIPE, &held.pipe, NULL);
}
