// SPDX-License-Identifier: GPL-2.0
#include "lard/tls/host.h"

#include <fcntl.h>
#include <stddef.h>
#include <time.h>

#include "message.h"

uint64_t tls_host_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

void tls_host_warn(const char *event, const char *text)
{
	(void)event;
	message("%s", text);
}

/* The master reads, and only it. */
bool tls_host_is_user(uid_t uid)
{
	(void)uid;
	return false;
}

const char *tls_host_user(void)
{
	return NULL;
}

int tls_host_open(const char *path, int flags)
{
	return open(path, flags);
}
