// SPDX-License-Identifier: GPL-2.0
#include "mark.h"
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* FNV-1a: a URL is no name of a file. */
static void name_of(const char *url, char name[32])
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *url; url++)
		hash = (hash ^ (unsigned char)*url) * 0x100000001b3;
	snprintf(name, 32, "behind-%016llx", (unsigned long long)hash);
}

static int open_directory(const char *directory)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

bool mark_is_set(const char *directory, const char *url)
{
	int dir = *directory ? open_directory(directory) : -1;
	char name[32];
	bool set;

	if (dir < 0)
		return true;
	name_of(url, name);
	set = !faccessat(dir, name, F_OK, 0) || errno != ENOENT;
	close(dir);
	return set;
}

static int write_mark(int dir, const char *name, const char *url)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600), err = 0;

	if (fd < 0)
		return -errno;
	/* For who looks there; that the file exists is what counts. */
	if (write(fd, url, strlen(url)) < 0 || fsync(fd) || fsync(dir))
		err = -errno;
	close(fd);
	return err;
}

int mark_set(const char *directory, const char *url)
{
	int dir = *directory ? open_directory(directory) : 0, err;
	char name[32];

	if (!*directory || dir < 0)
		return dir;
	name_of(url, name);
	err = write_mark(dir, name, url);
	close(dir);
	return err;
}

void mark_clear(const char *directory, const char *url)
{
	int dir = *directory ? open_directory(directory) : -1;
	char name[32];

	if (dir < 0)
		return;
	name_of(url, name);
	unlinkat(dir, name, 0);
	close(dir);
}

int mark_try(const char *directory)
{
	int err = mark_set(directory, "try");

	mark_clear(directory, "try");
	return err;
}
