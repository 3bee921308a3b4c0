// SPDX-License-Identifier: GPL-2.0
/* Telling the service manager. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include "loop.h"
#include "notify.h"

#define PATIENCE_SECONDS 2	/* for a manager that does not read; meanwhile a worker's clients wait */

static void tell(const char *message)
{
	static const struct timeval patience = { .tv_sec = PATIENCE_SECONDS };
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (!len || len >= sizeof(addr.sun_path) || (*path != '/' && *path != '@'))
		return;
	memcpy(addr.sun_path, path, len);
	if (*path == '@')
		addr.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	sendto(fd, message, strlen(message), MSG_NOSIGNAL, (struct sockaddr *)&addr,
	       offsetof(struct sockaddr_un, sun_path) + len);
	close(fd);
}

void notify_ready(void)
{
	tell("READY=1");
}

void notify_reloading(void)
{
	char message[64];

	snprintf(message, sizeof(message), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, loop_clock());
	tell(message);
}

void notify_stopping(void)
{
	tell("STOPPING=1");
}
