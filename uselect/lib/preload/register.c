// SPDX-License-Identifier: GPL-2.0
/* When a process registers: at its first epoll, or when it has called poll() or select() often. */

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>

#include "uselect/lib/internal.h"
#include "preload.h"

#define USL_AFTER	32

/* @usl_try_lock: @usl_tried. */
static pthread_mutex_t usl_try_lock = PTHREAD_MUTEX_INITIALIZER;
/* usl_epoch of the process that has tried, and one. */
static _Atomic unsigned int usl_tried;
static _Atomic unsigned int usl_waits;

/* Sockets that were there before, listening ones above all: their connections follow. */
static void usl_track_old(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	char *end;
	long fd;

	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		fd = strtol(entry->d_name, &end, 10);
		if (!*end && fd != dirfd(dir))
			uselect_track(fd);
	}
	closedir(dir);
}

static unsigned int usl_after(void)
{
	static _Atomic long after = -1;
	const char *value;

	if (after < 0) {
		value = getenv("USELECT_PRELOAD_AFTER");
		after = value ? labs(strtol(value, NULL, 0)) : USL_AFTER;
	}
	return after;
}

static void usl_try(void)
{
	int err = errno;

	pthread_mutex_lock(&usl_try_lock);
	if (usl_tried != usl_epoch + 1) {
		if (!uselect_init())
			usl_track_old();
		usl_tried = usl_epoch + 1;
	}
	pthread_mutex_unlock(&usl_try_lock);
	errno = err;
}

bool usl_preload_register(bool now)
{
	if (usl_tried == usl_epoch + 1)
		return usl_region.nfds;
	if (!now && usl_waits++ < usl_after())
		return false;
	usl_try();
	return usl_region.nfds;
}
