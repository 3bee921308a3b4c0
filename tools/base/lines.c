// SPDX-License-Identifier: GPL-2.0
#include "tools/base/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define FLAGS (O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

int lines_make(const char *path, mode_t mode, uid_t uid, gid_t gid)
{
	int fd, err;

	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return errno == EEXIST ? 0 : -errno;
	err = uid && fchown(fd, uid, gid) ? -errno : 0;
	close(fd);
	return err;
}

static int know(struct lines *lines, int fd)
{
	struct stat st;

	*lines = (struct lines){ .fd = fd };
	if (fd < 0)
		return -errno;
	lines->stream = !fstat(fd, &st) && !S_ISREG(st.st_mode);
	lines->socket = lines->stream && S_ISSOCK(st.st_mode);
	return 0;
}

int lines_open(struct lines *lines, const char *path, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | FLAGS, mode);

	/* A FIFO that nobody reads yet. */
	if (fd < 0 && errno == ENXIO)
		fd = open(path, O_RDWR | FLAGS);
	return know(lines, fd);
}

int lines_open_fd(struct lines *lines, int fd)
{
	char path[32];
	struct stat st;

	if (fstat(fd, &st) || S_ISREG(st.st_mode) || S_ISSOCK(st.st_mode))
		return know(lines, fcntl(fd, F_DUPFD_CLOEXEC, 3));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return know(lines, open(path, O_WRONLY | FLAGS));
}

static size_t piece(const char *text, size_t len)
{
	size_t most = len < PIPE_BUF ? len : PIPE_BUF, n = most;

	while (n && text[n - 1] != '\n')
		n--;
	return n ? n : most;
}

ssize_t lines_put(const struct lines *lines, const char *text, size_t len)
{
	if (lines->socket)
		return send(lines->fd, text, piece(text, len), MSG_DONTWAIT | MSG_NOSIGNAL);
	return write(lines->fd, text, lines->stream ? piece(text, len) : len);
}
