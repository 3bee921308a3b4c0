/* SPDX-License-Identifier: GPL-2.0 */
/* Where an access log goes: a file, or a pipe, terminal or socket that nobody waits for. */
#ifndef BASE_LINES_H
#define BASE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/**
 * struct lines - an open log
 * @fd:     -1: none
 * @stream: a pipe, terminal or socket: its reader may stop, writes do not wait for it
 * @socket: a socket
 */
struct lines {
	int fd;
	bool stream, socket;
};

/*
 * As root, for the user that will write to it (0: root): makes the file, new or not at all, since
 * its directory may be that user's, who could put a link there. 0, also if something is there
 * already, or -errno.
 */
int lines_make(const char *path, mode_t mode, uid_t uid, gid_t gid);
/* Without waiting for the reader of a FIFO. 0 or -errno. */
int lines_open(struct lines *lines, const char *path, mode_t mode);
/*
 * The same for a descriptor that others have too: a description of its own where there can be one,
 * which does not wait. 0 or -errno.
 */
int lines_open_fd(struct lines *lines, int fd);
/*
 * From the beginning of @text: everything, or of a stream so many whole lines as it takes whole or
 * not at all, so that those of several writers do not mix. As write(2).
 */
ssize_t lines_put(const struct lines *lines, const char *text, size_t len);

#endif
