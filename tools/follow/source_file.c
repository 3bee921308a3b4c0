// SPDX-License-Identifier: GPL-2.0
/*
 * file:PATH, the node lines of flotilla.conf(5) as text or JSON.
 *
 * The directory is watched and not the file: an editor renames another one over it, and what Kubernetes mounts is a link
 * to a link to a directory, of which the middle one is replaced.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "source.h"

#define EVENTS	(IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | \
		 IN_ATTRIB | IN_ONLYDIR)

/**
 * struct file - the file and who looks at it
 * @inotify: watches where its name stands and where it ends; -1: none, it is read again all the same
 */
struct file {
	char path[PATH_MAX];
	int inotify;
};

static int file_open(struct source *s, const char *rest)
{
	struct file *file = calloc(1, sizeof(*file));

	if (!file)
		return cli_fail(s->cli, "out of memory");
	s->data = file;
	file->inotify = -1;
	if (rest[0] != '/' || strlen(rest) >= sizeof(file->path))
		return cli_usage(s->cli, "file:%s: a path begins with /", rest);
	strcpy(file->path, rest);
	return CLI_OK;
}

/* Of @path, in its place. */
static void cut_to_directory(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash)
		slash[slash == path] = '\0';
}

static void watch_directory(int inotify, char *path)
{
	cut_to_directory(path);
	inotify_add_watch(inotify, path, EVENTS);
}

/* Unless it is mounted to be read only: Kubernetes gives everybody the directory of a ConfigMap. */
static bool stands_in_anybodys(const char *path)
{
	char directory[PATH_MAX];
	struct statvfs mount;
	struct stat st;

	strcpy(directory, path);
	cut_to_directory(directory);
	return !stat(directory, &st) && st.st_mode & 002 &&
	       (statvfs(directory, &mount) || !(mount.f_flag & ST_RDONLY));
}

/* Who may write the directory, where its name stands or where its links end, says what file it is. */
static bool is_anybodys(const char *path)
{
	char end[PATH_MAX];

	return stands_in_anybodys(path) || (realpath(path, end) && stands_in_anybodys(end));
}

/* Anew before each reading: links may lead elsewhere by now, and a directory may be another one of the same name. */
static void watch(struct file *file)
{
	char path[PATH_MAX];

	if (file->inotify >= 0)
		close(file->inotify);
	file->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (file->inotify < 0)
		return;
	strcpy(path, file->path);
	watch_directory(file->inotify, path);
	if (realpath(file->path, path))
		watch_directory(file->inotify, path);
}

/* Nothing that has no end or does not come: a pipe, a device, a directory. */
static char *read_regular(struct source *s, const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	char *text = NULL;
	ssize_t len = 0, n = 1;

	if (fd < 0) {
		cli_fail(s->cli, "%s", strerror(errno));
		return NULL;
	}
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		cli_fail(s->cli, "it is not a regular file");
	else if (st.st_mode & 002)
		cli_fail(s->cli, "everybody may write it");
	else if (is_anybodys(path))
		cli_fail(s->cli, "everybody may put another one in its place");
	else
		text = malloc(ANSWER_MAX + 1);
	while (text && n > 0 && len <= ANSWER_MAX) {
		n = read(fd, text + len, ANSWER_MAX + 1 - len);
		len += n > 0 ? n : 0;
	}
	close(fd);
	if (!text)
		return NULL;
	if (n >= 0 && len <= ANSWER_MAX && !memchr(text, 0, len)) {
		text[len] = '\0';
		return text;
	}
	if (n < 0)
		cli_fail(s->cli, "%s", strerror(errno));
	else
		cli_fail(s->cli, len > ANSWER_MAX ? "it is longer than %d bytes" : "a byte of it is zero", ANSWER_MAX);
	free(text);
	return NULL;
}

static int file_read(struct source *s, struct config *answer)
{
	struct file *file = s->data;
	char *text;
	int status;

	*answer = (struct config){ .file = file->path, .max_nodes = s->max };
	watch(file);
	cli_doing(s->cli, "read %s", file->path);
	text = read_regular(s, file->path);
	s->cli->doing[0] = '\0';
	if (!text)
		return CLI_FAILED;
	if (text[strspn(text, " \t\r\n")] == '{')
		status = config_json(s->cli, answer, text);
	else
		status = config_text(s->cli, answer, text);
	free(text);
	return status;
}

static void file_wait(struct source *s, int ms)
{
	struct file *file = s->data;
	struct pollfd fd = { .fd = file->inotify, .events = POLLIN };

	poll(&fd, 1, ms);
}

static void file_close(struct source *s)
{
	struct file *file = s->data;

	if (file && file->inotify >= 0)
		close(file->inotify);
	free(file);
}

const struct source_kind source_file = { "file", file_open, file_read, file_wait, file_close };
