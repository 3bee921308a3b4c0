// SPDX-License-Identifier: GPL-2.0
/*
 * howl: how little a web server in user space can do for a request.
 *
 *	howl [--epoll | --uring] [--sendfile] [--port PORT] DIRECTORY
 *
 * After P. Joubert et al., USENIX 2001: one process, one request at a time, and four system calls for
 * each: accept, read, send, close. All files of DIRECTORY are in memory, with their heads, before the
 * first request comes. Each connection is closed after its answer. With --epoll and --uring connections
 * are kept as long as clients like: by epoll_wait, read and send, or by io_uring (ring.c). With
 * --sendfile an answer is sent from a file in memory and not copied.
 *
 * It is a measure, not a server. It relies on what its paper relies on: a request comes in one piece;
 * every request is for what is in memory; an answer fits into the socket's buffer. It holds the second
 * and the third itself: the rest gets a 404, and a file that is too large is refused at the start. Who
 * connects and says nothing is not accepted (TCP_DEFER_ACCEPT) or, where the kernel gives up waiting,
 * keeps all others waiting for a second. Date is that of the start. Nothing is logged.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../program.h"
#include "howl.h"

#define BUCKETS		1024	/* a power of two; at most half of them are taken */
#define BACKLOG		4096
#define HEAD_MAX	512
#define BUFFER		(4 << 20)

/**
 * struct page - one file
 * @path:    as it is asked for, with the slash; NULL: the bucket is free
 * @answers: one that keeps the connection, one that closes it
 */
struct page {
	char *path;
	size_t path_len;
	struct answer answers[2];
};

static struct page pages[BUCKETS];
static struct answer missing = {
	.text = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", .file = -1, .closes = true,
};
static size_t largest;
static bool by_file;

static struct page *page_at(const char *path, size_t len)
{
	uint32_t hash = 2166136261u;
	struct page *p;
	size_t i;

	for (i = 0; i < len; i++)
		hash = (hash ^ (unsigned char)path[i]) * 16777619u;
	for (;; hash++) {
		p = &pages[hash & (BUCKETS - 1)];
		if (!p->path || (p->path_len == len && !memcmp(p->path, path, len)))
			return p;
	}
}

static void answer_make(struct answer *a, const struct stat *st, int fd, bool closes)
{
	char date[64], changed[64], head[HEAD_MAX];
	const char *form = "%a, %d %b %Y %H:%M:%S GMT";
	time_t seconds = time(NULL);
	int len;

	strftime(date, sizeof(date), form, gmtime(&seconds));
	strftime(changed, sizeof(changed), form, gmtime(&st->st_mtime));
	/* What nginx says of a file, too. */
	len = snprintf(head, sizeof(head),
		       "HTTP/1.1 200 OK\r\nServer: howl/2001\r\nDate: %s\r\n"
		       "Content-Type: application/octet-stream\r\nContent-Length: %lld\r\n"
		       "Last-Modified: %s\r\nConnection: %s\r\nETag: \"%llx-%llx\"\r\nAccept-Ranges: bytes\r\n\r\n",
		       date, (long long)st->st_size, changed, closes ? "close" : "keep-alive",
		       (long long)st->st_mtime, (long long)st->st_size);
	*a = (struct answer){ .len = len + st->st_size, .file = -1, .closes = closes };
	a->text = malloc(a->len);
	if (!a->text)
		die("no memory for %zu bytes", a->len);
	memcpy(a->text, head, len);
	if (pread(fd, a->text + len, st->st_size, 0) != st->st_size)
		die("a file changes while it is read");
	if (a->len > largest)
		largest = a->len;
	if (!by_file)
		return;
	a->file = memfd_create("answer", MFD_CLOEXEC);
	if (a->file < 0 || write(a->file, a->text, a->len) != (ssize_t)a->len)
		die("cannot make a file in memory: %s", strerror(errno));
}

static void pages_load(const char *name)
{
	DIR *dir = opendir(name);
	struct dirent *entry;
	struct page *p;
	struct stat st;
	int fd, nr = 0;

	if (!dir)
		die("cannot open %s: %s", name, strerror(errno));
	while ((entry = readdir(dir))) {
		/* A FIFO would keep it waiting. */
		fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0 || fstat(fd, &st))
			die("cannot open %s/%s: %s", name, entry->d_name, strerror(errno));
		if (S_ISREG(st.st_mode)) {
			char path[sizeof(entry->d_name) + 1];
			int len = snprintf(path, sizeof(path), "/%s", entry->d_name);

			if (++nr > BUCKETS / 2)
				die("%s has more than %d files", name, BUCKETS / 2);
			p = page_at(path, len);
			p->path = strdup(path);
			if (!p->path)
				die("no memory");
			p->path_len = len;
			answer_make(&p->answers[0], &st, fd, false);
			answer_make(&p->answers[1], &st, fd, true);
		}
		close(fd);
	}
	closedir(dir);
	missing.len = strlen(missing.text);
}

const struct answer *answer_to(const char *request, size_t len)
{
	static const char get[] = "GET /", version[] = " HTTP/1.1\r\n", closing[] = "\r\nConnection: close\r\n";
	const char *end, *fields;
	struct page *p;

	/* One request, whole. */
	if (len < sizeof(get) + sizeof(version) || memcmp(request, get, sizeof(get) - 1) ||
	    memmem(request, len, "\r\n\r\n", 4) != request + len - 4)
		return &missing;
	end = memchr(request + sizeof(get) - 1, ' ', len - sizeof(version) - sizeof(get) + 2);
	if (!end || memcmp(end, version, sizeof(version) - 1))
		return &missing;
	p = page_at(request + 4, end - request - 4);
	if (!p->path)
		return &missing;
	fields = end + sizeof(version) - 3;
	return &p->answers[!!memmem(fields, request + len - fields, closing, sizeof(closing) - 1)];
}

/* Was it sent whole? What the connection's end follows at once goes in one packet with it. */
static bool answer_send(int fd, const struct answer *a)
{
	off_t from = 0;

	if (a->file < 0)
		return send(fd, a->text, a->len, a->closes ? MSG_MORE : 0) == (ssize_t)a->len;
	return sendfile(fd, a->file, &from, a->len) == (ssize_t)a->len;
}

/* The paper's. */
static void loop_serve(int listener)
{
	char request[REQUEST_MAX];
	ssize_t n;
	int fd;

	for (;;) {
		fd = accept(listener, NULL, NULL);
		if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0)
			die("accept: %s", strerror(errno));
		n = read(fd, request, sizeof(request));
		if (n > 0) {
			const struct answer *a = answer_to(request, n);

			/* A kept one would be promised what does not come. */
			answer_send(fd, a->closes ? a : a + 1);
		}
		close(fd);
	}
}

/* Is it kept? */
static bool connection_serve(int fd)
{
	char request[REQUEST_MAX];
	const struct answer *a;
	ssize_t n;

	n = read(fd, request, sizeof(request));
	if (n < 0)
		return errno == EAGAIN;
	if (!n)
		return false;
	a = answer_to(request, n);
	return answer_send(fd, a) && !a->closes;
}

static void epoll_serve(int listener)
{
	struct epoll_event events[64], e = { .events = EPOLLIN, .data.fd = listener };
	int poll = epoll_create1(EPOLL_CLOEXEC), n, fd;

	if (poll < 0 || fcntl(listener, F_SETFL, O_NONBLOCK) || epoll_ctl(poll, EPOLL_CTL_ADD, listener, &e))
		die("epoll: %s", strerror(errno));
	for (;;) {
		n = epoll_wait(poll, events, 64, -1);
		if (n < 0 && errno != EINTR)
			die("epoll_wait: %s", strerror(errno));
		while (n-- > 0) {
			fd = events[n].data.fd;
			if (fd != listener) {
				if (!connection_serve(fd))
					close(fd);
				continue;
			}
			fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
			if (fd < 0)
				continue;
			/* The request has come with the connection; who closes now was never waited for. */
			e.data.fd = fd;
			if (!connection_serve(fd) || epoll_ctl(poll, EPOLL_CTL_ADD, fd, &e))
				close(fd);
		}
	}
}

/* Connections have all that is set here from their listener. */
static int listener_open(unsigned int port, bool blocking)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
	const struct timeval second = { .tv_sec = 1 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, off = 0,
	    buffer = BUFFER;
	socklen_t len = sizeof(buffer);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    setsockopt(fd, IPPROTO_TCP, blocking ? TCP_CORK : TCP_NODELAY, &one, sizeof(one)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &one, sizeof(one)) ||
	    (blocking && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second))) ||
	    (blocking && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof(second))))
		die("cannot make a socket: %s", strerror(errno));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer)) &&
	    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)))
		die("SO_SNDBUF: %s", strerror(errno));
	if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, &len) || largest > (size_t)buffer / 2)
		die("an answer of %zu bytes is not sent at once from a buffer of %d", largest, buffer);
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, BACKLOG))
		die("cannot listen on port %u: %s", port, strerror(errno));
	/* The answer carries the acknowledgment of the request; listen() would forget that this was asked for. */
	if (setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof(off)))
		die("TCP_QUICKACK: %s", strerror(errno));
	return fd;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "epoll", no_argument, NULL, 'e' }, { "uring", no_argument, NULL, 'u' },
		{ "sendfile", no_argument, NULL, 's' }, { "port", required_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' }, { }
	};
	static const char usage[] = "usage: howl [--epoll | --uring] [--sendfile] [--port PORT] DIRECTORY\n";
	void (*serve)(int listener) = loop_serve;
	unsigned long port = 8080;
	int opt, modes = 0;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, "eusp:h", options, NULL)) != -1) {
		if (opt == 'e' || opt == 'u') {
			serve = opt == 'e' ? epoll_serve : ring_serve;
			modes++;
		} else if (opt == 's') {
			by_file = true;
		} else if (opt == 'p') {
			port = strtoul(optarg, NULL, 10);
		} else if (opt == 'h') {
			fputs(usage, stdout);
			return 0;
		} else {
			argc = 0;
		}
	}
	if (argc - optind != 1 || modes > 1 || port - 1 > 65534 || (by_file && serve == ring_serve)) {
		fputs(usage, stderr);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	pages_load(argv[optind]);
	serve(listener_open(port, serve == loop_serve));
	return 0;
}
