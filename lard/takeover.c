// SPDX-License-Identifier: GPL-2.0
/* Graceful restart. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>
#include "control.h"
#include "takeover.h"
#include "tools/base/log.h"

struct takeover {
	int peer;		/* the old lardd's control socket, connected */
	int fds[TAKEOVER_MAX];
	size_t count;
	char sites[2048];	/* of the kernel's cache that are the old one's */
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

/* "sites":"...": names without a quote in them. */
static void keep_sites(struct takeover *t, const char *answer, size_t len)
{
	static const char key[] = "\"sites\":\"";
	const char *at = memmem(answer, len, key, sizeof(key) - 1), *end;

	if (!at)
		return;
	at += sizeof(key) - 1;
	end = memchr(at, '"', answer + len - at);
	if (end && (size_t)(end - at) < sizeof(t->sites))
		memcpy(t->sites, at, end - at);
}

const char *takeover_sites(const struct takeover *t)
{
	return t->sites;
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
	keep_sites(t, answer, n);
	for (c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		t->count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(t->fds, CMSG_DATA(c), t->count * sizeof(int));
	}
	return t->count ? 0 : memmem(answer, n, "\"error\"", 7) ? -EBUSY : -ENOENT;
}

/* Whoever else is behind the path could send us any sockets, and be served with our clients. */
static int check_peer(const struct takeover *t)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(t->peer, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		return -errno;
	return !peer.uid || (peer.uid == getuid() && peer.uid != control_unknown_uid()) ? 0 : -EPERM;
}

static bool option_is(int fd, int option, int value)
{
	int is = -1;
	socklen_t len = sizeof(is);

	return !getsockopt(fd, SOL_SOCKET, option, &is, &len) && is == value;
}

/* 0: this kernel does not say. */
static uint64_t network_of(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) ? 0 : cookie;
}

/* TCP that listens, where our clients come to: the same address of another network says nothing. */
static bool is_listener(int fd, uint64_t network)
{
	return option_is(fd, SO_TYPE, SOCK_STREAM) && option_is(fd, SO_PROTOCOL, IPPROTO_TCP) &&
	       option_is(fd, SO_ACCEPTCONN, 1) && network_of(fd) == network;
}

static void drop_others(struct takeover *t)
{
	int own = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t network = own < 0 ? 0 : network_of(own);
	size_t i;

	if (own >= 0)
		close(own);
	for (i = 0; i < t->count; i++) {
		if (is_listener(t->fds[i], network))
			continue;
		log_warn("takeover", "text=\"a socket that does not listen for TCP in this network is left\"");
		close(t->fds[i]);
		t->fds[i] = -1;
	}
}

struct takeover *takeover_ask(const char *path, char *error, size_t size)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = 5 };
	struct takeover *t = calloc(1, sizeof(*t));
	int err = -ENOMEM;

	/* An empty path would be an abstract name, which anybody can have. */
	if (!*path) {
		snprintf(error, size, "cannot take over: the configuration has no control socket");
		free(t);
		return NULL;
	}
	if (t) {
		t->peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		err = t->peer < 0 ? -errno : 0;
	}
	if (!err) {
		snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
		setsockopt(t->peer, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		/* Also of connect(), which waits for room in the queue of one that does not accept. */
		setsockopt(t->peer, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
		err = connect(t->peer, (struct sockaddr *)&addr, sizeof(addr)) ? -errno : check_peer(t);
	}
	err = err ? err : ask(t);
	if (!err) {
		drop_others(t);
		return t;
	}
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
