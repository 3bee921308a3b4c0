// SPDX-License-Identifier: GPL-2.0
#include "listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#define INHERIT_MAX 1024

/* Sockets this process was started with; -1 once used. */
static int inherited[INHERIT_MAX];
static unsigned int nr_inherited;
static bool from_flash;		/* a former binary's, not systemd's */

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

bool listen_port_is_valid(const char *text)
{
	size_t n = strlen(text);

	return n && n <= 5 && strspn(text, "0123456789") == n && atoi(text) <= 65535;
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
	if (!listen_port_is_valid(port))
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

	from_flash = own;
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

static bool is_bound_to(int fd, const struct listen_address *a)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);

	memset(&addr, 0, sizeof(addr));
	return !getsockname(fd, (struct sockaddr *)&addr, &len) && len == a->len &&
	       !memcmp(&addr, &a->addr, len);
}

static bool holds(const struct listeners *ls, int fd)
{
	unsigned int i, j;

	for (i = 0; i < ls->n; i++)
		for (j = 0; j < ls->l[i].nr_fds; j++)
			if (ls->l[i].fds[j] == fd)
				return true;
	return false;
}

static int add(struct listener *l, int fd, bool own)
{
	int *fds = realloc(l->fds, (l->nr_fds + 1) * sizeof(*fds));
	bool *owns;

	if (!fds)
		return -1;
	l->fds = fds;
	owns = realloc(l->own, (l->nr_fds + 1) * sizeof(*owns));
	if (!owns)
		return -1;
	l->own = owns;
	fds[l->nr_fds] = fd;
	owns[l->nr_fds++] = own;
	return 0;
}

/* All there are: one that nobody accepts on would swallow its share of the connections. */
static int add_old(struct listener *l, const struct listeners *ls, const struct listeners *old)
{
	unsigned int i, j;

	for (i = 0; old && i < old->n; i++) {
		const struct listener *from = &old->l[i];

		if (from->address->len != l->address->len ||
		    memcmp(&from->address->addr, &l->address->addr, l->address->len))
			continue;
		for (j = 0; j < from->nr_fds; j++)
			if (!holds(ls, from->fds[j]) && add(l, from->fds[j], false))
				return -1;
	}
	return 0;
}

static int add_inherited(struct listener *l)
{
	unsigned int i;

	for (i = 0; i < nr_inherited; i++) {
		if (inherited[i] < 0 || !is_bound_to(inherited[i], l->address))
			continue;
		if (add(l, inherited[i], true))
			return -1;
		inherited[i] = -1;
	}
	return 0;
}

/* Options that connections inherit are set here once instead of on each of them. */
static void tune(int fd, const struct conf *conf, bool shared)
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
	/* While loops and those who block share it, no loop may wait here. */
	if (!blocks || !shared)
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

/* One socket that is there already, without SO_REUSEPORT, cannot be joined by others. */
static bool may_join(const struct listener *l)
{
	int yes = 1;
	socklen_t len = sizeof(yes);

	return !l->nr_fds ||
	       (!getsockopt(l->fds[0], SOL_SOCKET, SO_REUSEPORT, &yes, &len) && yes);
}

int listeners_open(struct listeners *ls, const struct conf *conf, struct listeners *old)
{
	bool loops = conf->architecture == ARCH_AMPED || conf->architecture == ARCH_SPED;
	unsigned int i, per = loops && conf->reuseport && conf->workers > 1 ? conf->workers : 1;

	ls->n = 0;
	ls->l = calloc(conf->nr_listens, sizeof(*ls->l));
	if (!ls->l)
		return -1;
	for (i = 0; i < conf->nr_listens; i++) {
		struct listener *l = &ls->l[i];
		int fd;

		l->address = &conf->listens[i];
		ls->n++;
		if (add_old(l, ls, old) || add_inherited(l))
			return -1;
		while (l->nr_fds < per && may_join(l)) {
			fd = open_one(l->address, conf, per > 1);
			if (fd < 0)
				return -1;
			if (add(l, fd, true)) {
				close(fd);
				return -1;
			}
		}
	}
	return 0;
}

void listeners_tune(const struct listeners *ls, const struct conf *conf, bool shared)
{
	unsigned int i, j;

	for (i = 0; i < ls->n; i++)
		for (j = 0; j < ls->l[i].nr_fds; j++)
			tune(ls->l[i].fds[j], conf, shared);
}

static void listener_free(struct listener *l)
{
	free(l->fds);
	free(l->own);
	l->fds = NULL;
	l->own = NULL;
	l->nr_fds = 0;
}

/* Workers of a former generation may hold it still: it is ended for all. */
static void shut(int fd)
{
	shutdown(fd, SHUT_RDWR);
	close(fd);
}

void listeners_commit(struct listeners *ls, struct listeners *old)
{
	unsigned int i, j;

	for (i = 0; i < ls->n; i++)
		for (j = 0; j < ls->l[i].nr_fds; j++)
			ls->l[i].own[j] = true;
	for (i = 0; old && i < old->n; i++) {
		for (j = 0; j < old->l[i].nr_fds; j++)
			if (old->l[i].own[j] && !holds(ls, old->l[i].fds[j]))
				shut(old->l[i].fds[j]);
		listener_free(&old->l[i]);
	}
	for (i = 0; i < nr_inherited; i++) {
		if (inherited[i] < 0)
			continue;
		fprintf(stderr, "flash: socket %d was handed in for an address that is not in the configuration\n",
			inherited[i]);
		if (from_flash)
			shut(inherited[i]);
		else
			close(inherited[i]);	/* systemd's own */
	}
	nr_inherited = 0;
}

void listeners_forget(const struct listeners *ls, struct listeners *old)
{
	unsigned int i, j;

	for (i = 0; i < old->n; i++) {
		for (j = 0; j < old->l[i].nr_fds; j++)
			if (!holds(ls, old->l[i].fds[j]))
				close(old->l[i].fds[j]);
		listener_free(&old->l[i]);
	}
}

void listeners_close(struct listeners *ls)
{
	unsigned int i, j;

	for (i = 0; i < ls->n; i++) {
		for (j = 0; j < ls->l[i].nr_fds; j++)
			if (ls->l[i].own[j])
				close(ls->l[i].fds[j]);
		listener_free(&ls->l[i]);
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

bool listener_is_mine(const struct listener *l, unsigned int j, unsigned int index,
		      unsigned int workers)
{
	return l->nr_fds <= workers ? j == index % l->nr_fds : j % workers == index;
}
