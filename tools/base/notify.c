// SPDX-License-Identifier: GPL-2.0
#include "tools/base/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_SECONDS 2	/* for a manager that does not read; workers that end are not seen meanwhile */

void notify(const char *fmt, ...)
{
	static const struct timeval patience = { .tv_sec = PATIENCE_SECONDS };
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	char text[256];
	va_list ap;
	size_t len;
	int fd, n;

	if (!path || !*path || strlen(path) >= sizeof(addr.sun_path))
		return;
	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	len = strlen(path);
	memcpy(addr.sun_path, path, len);
	if (*path == '@')
		addr.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	sendto(fd, text, n, MSG_NOSIGNAL, (struct sockaddr *)&addr,
	       offsetof(struct sockaddr_un, sun_path) + len);
	close(fd);
}

void notify_reloading(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	notify("RELOADING=1\nMONOTONIC_USEC=%llu",
	       (unsigned long long)ts.tv_sec * 1000000 + ts.tv_nsec / 1000);
}
