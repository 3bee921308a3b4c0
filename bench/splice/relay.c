// SPDX-License-Identifier: MIT
/*
 * relay KIND PORT ORIGIN-ADDRESS ORIGIN-PORT: the proxy that bench/splice measures. Each
 * client gets a connection to the origin of its own. KIND:
 *
 *	copy4k copy16k copy64k	read(2) and write(2) with a buffer of that size
 *	splice			splice(2) through a pipe
 *	sockmap			all by a sockmap's verdict program; the proxy learns nothing
 *	sksplice		/dev/sksplice, from -m bytes on (default 1), else copy64k
 *	tunnel			/dev/sksplice both ways until close; the proxy learns nothing
 *
 * -k: keep a copy of each answer, as a cache does.
 * -f BYTES: the first read of an answer takes so many at most: what the kind reads by, 64 KB if the
 * kernel relays the rest. The paper's proxy reads 2896.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "relay.h"
#include "splice/lib/sksplice.h"

#define CACHE_SIZE	(1 << 20)
/* Unread bytes of a copy that are worth a wake-up, and that the kernel keeps at most. */
#define COPY_WAKE	65536
#define COPY_MAX	(4 * COPY_WAKE)

static const char *kind;
static size_t block, first;
static bool keep;
static uint64_t least = 1;
static int poller;
static int device = -1;
static struct sockaddr_in origin_address;
static unsigned char cache[CACHE_SIZE];
static size_t cached;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static bool is(const char *name)
{
	return !strcmp(kind, name);
}

/* Both descriptors of a stream are told apart by the lowest bit of the pointer. */
static void watch(struct stream *s, int which, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.u64 = (uintptr_t)s | which };

	if (s->events[which] == events)
		return;
	s->events[which] = events;
	epoll_ctl(poller, EPOLL_CTL_MOD, s->fd[which], &e);
}

static void end_stream(struct stream *s)
{
	close(s->fd[CLIENT]);
	close(s->fd[ORIGIN]);
	if (s->pipe[0])
		close(s->pipe[0]), close(s->pipe[1]);
	free(s->buffer);
	s->over = true;
}

/* Where a cache wants the next @len bytes. */
static unsigned char *cache_room(size_t len)
{
	if (cached + len > CACHE_SIZE)
		cached = 0;
	return cache + cached;
}

/* What a cache does with a part of an answer that is in a buffer. */
static void store(const unsigned char *bytes, size_t len)
{
	if (!keep)
		return;
	memcpy(cache_room(len), bytes, len);
	cached += len;
}

static void wait_for_request(struct stream *s)
{
	watch(s, ORIGIN, 0);
	watch(s, CLIENT, EPOLLIN);
}

/* Writes the buffer; true when it is empty. */
static bool flush(struct stream *s)
{
	while (s->from < s->to) {
		ssize_t n = send(s->fd[CLIENT], s->buffer + s->from, s->to - s->from,
				 MSG_NOSIGNAL | (s->left && is("splice") ? MSG_MORE : 0));

		if (n < 0)
			return false;
		s->from += n;
	}
	s->from = 0;
	s->to = 0;
	return true;
}

/* read(2), write(2) */
static void go_copy(struct stream *s)
{
	for (;;) {
		ssize_t n;

		if (!flush(s)) {
			watch(s, ORIGIN, 0);
			watch(s, CLIENT, EPOLLOUT);
			return;
		}
		if (!s->left)
			break;
		n = read(s->fd[ORIGIN], s->buffer, s->left < block ? s->left : block);
		if (n <= 0) {
			watch(s, CLIENT, 0);
			watch(s, ORIGIN, EPOLLIN);
			return;
		}
		store(s->buffer, n);
		s->left -= n;
		s->to = n;
	}
	wait_for_request(s);
}

/* splice(2) into a pipe, splice(2) out of it */
static void go_splice(struct stream *s)
{
	if (!flush(s)) {
		watch(s, ORIGIN, 0);
		watch(s, CLIENT, EPOLLOUT);
		return;
	}
	while (s->left || s->piped) {
		ssize_t n;

		if (!s->piped) {
			n = splice(s->fd[ORIGIN], NULL, s->pipe[1], NULL, s->left,
				   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
			if (n <= 0) {
				watch(s, CLIENT, 0);
				watch(s, ORIGIN, EPOLLIN);
				return;
			}
			s->piped = n;
			s->left -= n;
		}
		n = splice(s->pipe[0], NULL, s->fd[CLIENT], NULL, s->piped,
			   SPLICE_F_MOVE | SPLICE_F_NONBLOCK | (s->left ? SPLICE_F_MORE : 0));
		if (n <= 0) {
			watch(s, ORIGIN, 0);
			watch(s, CLIENT, EPOLLOUT);
			return;
		}
		s->piped -= n;
	}
	wait_for_request(s);
}

/* The kernel relays; the copy is read, and the end heard. */
static void go_joined(struct stream *s, int which)
{
	/* Nothing else is done with it: the cache's memory is the only place it is copied to. */
	while (s->copy && which == ORIGIN) {
		size_t most = s->copy < COPY_MAX ? s->copy : COPY_MAX;
		ssize_t n = read(s->fd[ORIGIN], cache_room(most), most);

		if (n <= 0)
			return;
		cached += n;
		s->copy -= n;
	}
	if (which == CLIENT) {
		s->joined = false;
		wait_for_request(s);
	}
}

static void start_joined(struct stream *s)
{
	struct ssp_splice req = {
		.flags = SSP_LIMIT | SSP_AUTORELEASE | (keep ? SSP_KEEPCOPY : 0),
		.fd0 = s->fd[ORIGIN],
		.fd1 = s->fd[CLIENT],
		.limit = s->left,
		.data = (uintptr_t)s->buffer,
		.data_len = s->to,
	};
	int ret;

	if (keep) {
		req.inbuf_len = s->left < COPY_MAX ? s->left : COPY_MAX;
		req.inbuf = (uintptr_t)cache_room(req.inbuf_len);
		req.min2read = s->left < COPY_WAKE ? s->left : COPY_WAKE;
		req.max2cache = COPY_MAX;
	}
	ret = sksplice_start(device, &req);
	if (ret < 0) {
		s->from = req.data_done;
		go_copy(s);
		return;
	}
	cached += req.inbuf_done;
	s->to = 0;
	s->copy = keep ? s->left - req.inbuf_done : 0;
	s->left = 0;
	if (ret == SSP_DONE) {
		wait_for_request(s);
		return;
	}
	s->joined = true;
	watch(s, ORIGIN, keep ? EPOLLIN : 0);
	watch(s, CLIENT, EPOLLOUT);
}

/* The first part of an answer. */
static int answer(struct stream *s)
{
	struct relay_request *head = (struct relay_request *)s->buffer;
	ssize_t n = read(s->fd[ORIGIN], s->buffer, first);

	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n < (ssize_t)sizeof(*head) || head->magic != RELAY_MAGIC)
		return -1;
	s->left = head->size - (n - sizeof(*head));
	s->from = 0;
	s->to = n;
	store(s->buffer, n);
	if (is("sksplice") && s->left >= least)
		start_joined(s);
	else if (is("splice"))
		go_splice(s);
	else
		go_copy(s);
	return 0;
}

static int request(struct stream *s)
{
	struct relay_request r;
	ssize_t n = read(s->fd[CLIENT], &r, sizeof(r));

	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n != sizeof(r) || r.magic != RELAY_MAGIC ||
	    write(s->fd[ORIGIN], &r, sizeof(r)) != sizeof(r))
		return -1;
	watch(s, CLIENT, 0);
	watch(s, ORIGIN, EPOLLIN);
	return 0;
}

static int step(struct stream *s, int which, uint32_t events)
{
	if (is("sockmap"))
		return events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP) ? -1 : 0;
	if (is("tunnel"))	/* POLLOUT tells the end, an error too */
		return -1;
	if (s->joined)
		go_joined(s, which);
	else if (s->left || s->to || s->piped)
		is("splice") ? go_splice(s) : go_copy(s);
	else
		return which == CLIENT ? request(s) : answer(s);
	return 0;
}

/* The verdict program sees what comes from now on; what is there already is passed on here. */
static void start_sockmap(struct stream *s)
{
	ssize_t n;

	if (sockmap_join(s->fd[CLIENT], s->fd[ORIGIN]))
		die("sockmap");
	n = recv(s->fd[CLIENT], s->buffer, block, MSG_DONTWAIT);
	if (n > 0 && send(s->fd[ORIGIN], s->buffer, n, MSG_NOSIGNAL) != n)
		die("send");
}

/* Nothing is told of it until it has ended. */
static void start_tunnel(struct stream *s)
{
	int ret = sksplice_tunnel(device, s->fd[CLIENT], s->fd[ORIGIN]);

	if (ret < 0) {
		errno = -ret;
		die("tunnel");
	}
	watch(s, CLIENT, EPOLLOUT);
}

/* What each descriptor is registered for at first. */
static uint32_t first_events(int which)
{
	if (is("sockmap"))
		return EPOLLRDHUP;
	return which == CLIENT && !is("tunnel") ? EPOLLIN : 0;
}

static void add_stream(int listener)
{
	struct epoll_event e = {};
	struct stream *s = calloc(1, sizeof(*s));
	int one = 1, i;

	if (!s)
		die("memory");
	s->buffer = malloc(block);
	s->fd[CLIENT] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	s->fd[ORIGIN] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (!s->buffer || s->fd[CLIENT] < 0 || s->fd[ORIGIN] < 0 ||
	    connect(s->fd[ORIGIN], (struct sockaddr *)&origin_address, sizeof(origin_address)))
		die("connect");
	if (is("splice") && pipe2(s->pipe, O_NONBLOCK | O_CLOEXEC))
		die("pipe");
	if (is("splice"))
		fcntl(s->pipe[0], F_SETPIPE_SZ, 1 << 18);
	for (i = 0; i < 2; i++) {
		fcntl(s->fd[i], F_SETFL, O_NONBLOCK);
		setsockopt(s->fd[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		e.events = first_events(i);
		e.data.u64 = (uintptr_t)s | i;
		s->events[i] = e.events;
		epoll_ctl(poller, EPOLL_CTL_ADD, s->fd[i], &e);
	}
	if (is("sockmap"))
		start_sockmap(s);
	else if (is("tunnel"))
		start_tunnel(s);
}

static size_t block_of(const char *name)
{
	if (!strcmp(name, "copy4k"))
		return 4096;
	if (!strcmp(name, "copy16k"))
		return 16384;
	return 65536;
}

static int listen_on(const char *port)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	struct epoll_event e = { .events = EPOLLIN };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&any, sizeof(any)) || listen(fd, 1024))
		die("listen");
	epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
	return fd;
}

int main(int argc, char **argv)
{
	struct epoll_event events[64];
	int opt, n, i, listener, ended;
	struct stream *dead[64];

	while ((opt = getopt(argc, argv, "kf:m:")) != -1) {
		if (opt == 'k')
			keep = true;
		else if (opt == 'f')
			first = strtoull(optarg, NULL, 0);
		else if (opt == 'm')
			least = strtoull(optarg, NULL, 0);
		else
			return 2;
	}
	if (argc - optind != 4) {
		fprintf(stderr, "usage: relay [-k] [-f BYTES] [-m BYTES] KIND PORT ORIGIN-ADDRESS "
				"ORIGIN-PORT\n");
		return 2;
	}
	kind = argv[optind];
	block = block_of(kind);
	if (!first || first > block)
		first = block;
	origin_address.sin_family = AF_INET;
	origin_address.sin_port = htons(atoi(argv[optind + 3]));
	if (!inet_aton(argv[optind + 2], &origin_address.sin_addr))
		return 2;
	if (is("sksplice") || is("tunnel")) {
		device = sksplice_open();
		if (device < 0) {
			fprintf(stderr, "relay: %s: %s\n", SSP_DEVICE, strerror(-device));
			return 1;
		}
	}
	poller = epoll_create1(EPOLL_CLOEXEC);
	listener = listen_on(argv[optind + 1]);
	for (;;) {
		n = epoll_wait(poller, events, 64, -1);
		ended = 0;
		for (i = 0; i < n; i++) {
			struct stream *s = (void *)(events[i].data.u64 & ~1ULL);

			if (!s)
				add_stream(listener);
			else if (!s->over && step(s, events[i].data.u64 & 1, events[i].events)) {
				end_stream(s);
				dead[ended++] = s;
			}
		}
		while (ended)
			free(dead[--ended]);
	}
}
