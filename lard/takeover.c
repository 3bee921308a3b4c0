// SPDX-License-Identifier: GPL-2.0
/* Graceful restart. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>
#include "takeover.h"

struct takeover {
	int peer;		/* the old lardd's control socket, connected */
	int fds[TAKEOVER_MAX];
	size_t count;
};

union rights {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(TAKEOVER_MAX * sizeof(int))];
};

int takeover_send(int fd, const char *answer, const int *fds, size_t count)
{
	struct iovec parts[] = { { (char *)answer, strlen(answer) }, { "\n", 1 } };
	union rights rights;
	struct msghdr message = {
		.msg_iov = parts, .msg_iovlen = 2,
		.msg_control = rights.bytes, .msg_controllen = CMSG_SPACE(count * sizeof(int)),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);
	ssize_t n;

	if (!count)
		return -ENOENT;
	memset(&rights, 0, sizeof(rights));
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(c), fds, count * sizeof(int));
	n = sendmsg(fd, &message, MSG_NOSIGNAL);
	if (n < 0)
		return -errno;
	/* An empty buffer takes a line whole: whoever has not read the last answer gets no sockets. */
	return (size_t)n == parts[0].iov_len + 1 ? 0 : -EMSGSIZE;
}

static int ask(struct takeover *t)
{
	static const char request[] = "{\"cmd\":\"handover\"}\n";
	char answer[16384];
	struct iovec part = { answer, sizeof(answer) };
	union rights rights;
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1,
		.msg_control = rights.bytes, .msg_controllen = sizeof(rights.bytes),
	};
	struct cmsghdr *c;
	ssize_t n;

	if (send(t->peer, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0)
		return -errno;
	n = recvmsg(t->peer, &message, MSG_CMSG_CLOEXEC);
	if (n <= 0)
		return n < 0 ? -errno : -ECONNRESET;
	for (c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		t->count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(t->fds, CMSG_DATA(c), t->count * sizeof(int));
	}
	return t->count ? 0 : memmem(answer, n, "\"error\"", 7) ? -EBUSY : -ENOENT;
}

struct takeover *takeover_ask(const char *path, char *error, size_t size)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = 5 };
	struct takeover *t = calloc(1, sizeof(*t));
	int err = -ENOMEM;

	if (t) {
		t->peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		err = t->peer < 0 ? -errno : 0;
	}
	if (!err) {
		snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
		setsockopt(t->peer, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		err = connect(t->peer, (struct sockaddr *)&addr, sizeof(addr)) ? -errno : ask(t);
	}
	if (!err)
		return t;
	snprintf(error, size, "cannot take over from the lardd on %s: %s", path, strerror(-err));
	takeover_free(t);
	return NULL;
}

int takeover_take(struct takeover *t, const union address *address)
{
	size_t i;

	for (i = 0; t && i < t->count; i++) {
		union address own = { 0 };
		socklen_t len = sizeof(own);
		int fd = t->fds[i];

		if (fd < 0 || getsockname(fd, &own.any, &len) ||
		    memcmp(&own, address, sizeof(own)))
			continue;
		t->fds[i] = -1;
		return fd;
	}
	return -1;
}

int takeover_done(struct takeover *t)
{
	static const char request[] = "{\"cmd\":\"taken\"}\n", stopping[] = "{\"stopping\":";
	char answer[256];
	ssize_t n;

	if (send(t->peer, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0)
		return -errno;
	n = recv(t->peer, answer, sizeof(answer), 0);
	if (n <= 0)
		return n < 0 ? -errno : -ECONNRESET;
	return n < (ssize_t)sizeof(stopping) || memcmp(answer, stopping, sizeof(stopping) - 1) ?
	       -EPROTO : 0;
}

void takeover_free(struct takeover *t)
{
	size_t i;

	if (!t)
		return;
	if (t->peer >= 0)
		close(t->peer);
	for (i = 0; i < t->count; i++)
		if (t->fds[i] >= 0)
			close(t->fds[i]);
	free(t);
}
