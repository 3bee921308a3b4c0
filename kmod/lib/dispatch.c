// SPDX-License-Identifier: MIT
/* The dispatch device: policy and tunables as sysfs attributes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "internal.h"

const char *flt_dispatch_dir = "/sys/class/flotilla/dispatch";

/* Negative errno, or a descriptor. A name is one plain path component. */
static int open_attribute(const char *name, int flags)
{
	char path[256];
	int fd;

	if (!*name || *name == '.' || strchr(name, '/') ||
	    snprintf(path, sizeof(path), "%s/%s", flt_dispatch_dir, name) >= (int)sizeof(path))
		return -EINVAL;
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int flt_dispatch_read(int fd, char *text, size_t size)
{
	ssize_t len;

	if (!size)
		return -EINVAL;
	len = pread(fd, text, size, 0);
	if (len < 0)
		return -errno;
	if ((size_t)len == size && text[len - 1] != '\n')
		return -ENOSPC;
	while (len && text[len - 1] == '\n')
		len--;
	text[len] = '\0';
	return 0;
}

int flt_dispatch_get(const char *name, char *text, size_t size)
{
	int fd, err;

	fd = open_attribute(name, O_RDONLY);
	if (fd < 0)
		return fd;
	err = flt_dispatch_read(fd, text, size);
	close(fd);
	return err;
}

/* One write: an attribute takes its value whole or not at all. */
int flt_dispatch_set(const char *name, const char *text)
{
	size_t len = strlen(text);
	int fd, err = 0;
	ssize_t done;

	fd = open_attribute(name, O_WRONLY);
	if (fd < 0)
		return fd;
	done = write(fd, text, len);
	if (done < 0)
		err = -errno;
	else if ((size_t)done != len)
		err = -EIO;
	close(fd);
	return err;
}

/* sysfs wakes only whoever has read the attribute through this descriptor before. */
int flt_dispatch_watch(const char *name)
{
	char text[256];
	int fd, err;

	fd = open_attribute(name, O_RDONLY);
	if (fd < 0)
		return fd;
	err = flt_dispatch_read(fd, text, sizeof(text));
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}
