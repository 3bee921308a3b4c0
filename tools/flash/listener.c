// SPDX-License-Identifier: GPL-2.0
#include "listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#define INHERIT_MAX 1024

/* Sockets this process was started with; -1 once used. */
static int inherited[INHERIT_MAX];
static unsigned int nr_inherited;

static int resolve(const char *host, const char *port, struct listen_address *a)
{
	struct addrinfo hints = {
		.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV,
	}, *res;

	if (getaddrinfo(host, port, &hints, &res))
		return -1;
	memcpy(&a->addr, res->ai_addr, res->ai_addrlen);
	a->len = res->ai_addrlen;
	freeaddrinfo(res);
	return 0;
}

int listen_address_add(struct conf *conf, const char *text)
{
	struct listen_address *a, *grown;
	char host[256] = "0.0.0.0";
	const char *port = text, *colon = strrchr(text, ':');

	if (colon) {
		size_t len = colon - text;

		port = colon + 1;
		if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
			text++;
			len -= 2;
		}
		if (len >= sizeof(host))
			return -1;
		if (len && !(len == 1 && *text == '*')) {
			memcpy(host, text, len);
			host[len] = '\0';
		}
		text = port;
	}
	if (!*port || strspn(port, "0123456789") != strlen(port) || atoi(port) > 65535)
		return -1;
	grown = realloc(conf->listens, (conf->nr_listens + 1) * sizeof(*a));
	if (!grown)
		return -1;
	conf->listens = grown;
	a = &grown[conf->nr_listens];
	memset(a, 0, sizeof(*a));
	if (resolve(host, port, a))
		return -1;
	if (asprintf(&a->text, a->addr.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port) < 0)
		return -1;
	conf->nr_listens++;
	return 0;
}

void listeners_inherit(void)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	char *own = getenv("FLASH_LISTEN"), *save, *p;
	int i, n;

	if (own) {
		for (p = strtok_r(own, ",", &save); p; p = strtok_r(NULL, ",", &save))
			if (nr_inherited < INHERIT_MAX)
				inherited[nr_inherited++] = atoi(p);
	} else if (pid && fds && atoi(pid) == getpid()) {
		n = atoi(fds);
		for (i = 0; i < n && nr_inherited < INHERIT_MAX; i++)
			inherited[nr_inherited++] = 3 + i;
	}
	for (i = 0; i < (int)nr_inherited; i++)
		fcntl(inherited[i], F_SETFD, FD_CLOEXEC);
	unsetenv("FLASH_LISTEN");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDNAMES");
}

static int take_inherited(const struct listen_address *a)
{
	struct sockaddr_storage addr;
	unsigned int i;
	socklen_t len;

	for (i = 0; i < nr_inherited; i++) {
		len = sizeof(addr);
		memset(&addr, 0, sizeof(addr));
		if (inherited[i] >= 0 &&
		    !getsockname(inherited[i], (struct sockaddr *)&addr, &len) &&
		    len == a->len && !memcmp(&addr, &a->addr, len)) {
			int fd = inherited[i];

			inherited[i] = -1;
			return fd;
		}
	}
	return -1;
}

static int take_old(struct listeners *old, const struct listen_address *a)
{
	unsigned int i, j;

	for (i = 0; old && i < old->n; i++) {
		struct listener *l = &old->l[i];

		if (l->address->len != a->len || memcmp(&l->address->addr, &a->addr, a->len))
			continue;
		for (j = 0; j < l->nr_fds; j++) {
			int fd = l->fds[j];

			if (fd < 0)
				continue;
			l->fds[j] = -1;
			return fd;
		}
	}
	return -1;
}

/* Options that connections inherit are set here once instead of on each of them. */
static void tune(int fd, const struct conf *conf)
{
	bool blocks = conf->architecture == ARCH_MP || conf->architecture == ARCH_MT;
	struct timeval second = { .tv_sec = 1 }, never = { 0 };
	int one = 1, defer = conf->defer_accept ? (int)conf->header_timeout : 0;
	int size = conf->send_buffer, off = 0;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	/* The answer follows at once and carries the acknowledgement of the request. */
	setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof(off));
	setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer, sizeof(defer));
	if (size)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, blocks ? &second : &never, sizeof(second));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, blocks ? &second : &never, sizeof(second));
	fcntl(fd, F_SETFL, blocks ? 0 : O_NONBLOCK);
}

static int open_one(const struct listen_address *a, const struct conf *conf, bool reuseport)
{
	int fd, one = 1;

	fd = socket(a->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
	if (fd < 0)
		goto failed;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (reuseport)
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	if (a->addr.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(fd, (const struct sockaddr *)&a->addr, a->len) || listen(fd, conf->backlog))
		goto failed;
	return fd;

failed:
	fprintf(stderr, "flash: cannot listen on %s: %s\n", a->text, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

int listeners_open(struct listeners *ls, const struct conf *conf, struct listeners *old)
{
	bool loops = conf->architecture == ARCH_AMPED || conf->architecture == ARCH_SPED;
	unsigned int i, j, per = loops && conf->reuseport && conf->workers > 1 ? conf->workers : 1;

	ls->n = 0;
	ls->l = calloc(conf->nr_listens, sizeof(*ls->l));
	if (!ls->l)
		return -1;
	for (i = 0; i < conf->nr_listens; i++) {
		struct listen_address *a = &conf->listens[i];
		struct listener *l = &ls->l[i];
		int first;

		l->address = a;
		l->fds = malloc(per * sizeof(*l->fds));
		if (!l->fds)
			return -1;
		ls->n++;
		for (j = 0; j < per; j++) {
			first = take_old(old, a);
			if (first < 0)
				first = take_inherited(a);
			/* One socket handed in by systemd cannot be joined by others. */
			if (first < 0 && j && l->fds[0] >= 0) {
				int one = 0;
				socklen_t len = sizeof(one);

				getsockopt(l->fds[0], SOL_SOCKET, SO_REUSEPORT, &one, &len);
				if (!one)
					break;
			}
			if (first < 0)
				first = open_one(a, conf, per > 1);
			if (first < 0)
				return -1;
			tune(first, conf);
			l->fds[j] = first;
			l->nr_fds = j + 1;
		}
	}
	return 0;
}

void listeners_close(struct listeners *ls)
{
	unsigned int i, j;

	for (i = 0; i < ls->n; i++) {
		for (j = 0; j < ls->l[i].nr_fds; j++)
			if (ls->l[i].fds[j] >= 0)
				close(ls->l[i].fds[j]);
		free(ls->l[i].fds);
	}
	free(ls->l);
	ls->l = NULL;
	ls->n = 0;
}

int listeners_export(const struct listeners *ls)
{
	char list[INHERIT_MAX * 8], *p = list;
	unsigned int i, j;

	for (i = 0; i < ls->n; i++) {
		for (j = 0; j < ls->l[i].nr_fds; j++) {
			if (p - list > (long)sizeof(list) - 16)
				return -1;
			fcntl(ls->l[i].fds[j], F_SETFD, 0);
			p += sprintf(p, "%d,", ls->l[i].fds[j]);
		}
	}
	return setenv("FLASH_LISTEN", list, 1);
}

int listener_fd(const struct listener *l, unsigned int index)
{
	return l->fds[index % l->nr_fds];
}
