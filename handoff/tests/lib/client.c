// SPDX-License-Identifier: GPL-2.0
/*
 * A client that believes nothing: many connections at a time, some requests in
 * two pieces, some two at once, some connections given up half-way, and every
 * byte of every body compared with the file it should be.
 *
 *	handoff-client ADDRESS PORT DIRECTORY CONNECTIONS PARALLEL [SEED [ABORTS [RESUMED]]]
 *
 * DIRECTORY holds f0, f1, ... as the servers have them; ABORTS is how many of
 * 1000 connections are given up. With RESUMED it speaks TLS, and so many of 1000
 * connections resume a session. Prints JSON; fails when a body was wrong, a
 * connection was reset, or one made no progress for STALLED_MS (environment;
 * a minute). SIGTERM ends it early: what is under way does not count then, and
 * only a wrong body fails. SIGUSR1: no more connections begin.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program.h"
#include "secure.h"

#define FILES_MAX	64
#define REQUESTS_MAX	4
#define HEAD_MAX	2048
#define PIECE_MS	300

struct file {
	const char *data;
	size_t size;
};

struct conn {
	int fd;
	SSL *ssl;			/* NULL: in clear text */
	bool shaken;
	unsigned int nr, answered;	/* requests of this connection */
	unsigned int file[REQUESTS_MAX];
	char out[REQUESTS_MAX * 128];
	size_t out_len, out_pos, out_stop;
	char head[HEAD_MAX];
	size_t head_len, body_pos;
	int in_body;
	char server[32];		/* who answered last */
	size_t abort_at, got;		/* give up after so many bytes; 0: do not */
	unsigned long begun_ms, moved_ms;
	unsigned long piece_ms;		/* when the second piece is due */
	struct conn *next, **link;
};

static struct {
	unsigned long ok, aborted, wrong, reset, refused, stalled, requests;
	/* Of those that are ok, by TLS. */
	unsigned long resumed, whole;
	unsigned long slowest_ms;
	unsigned long long bytes;
} count;

static struct file files[FILES_MAX];
static unsigned int nr_files;
static struct sockaddr_storage to;
static socklen_t to_len;
static unsigned long started, total;
static unsigned int active, aborts, resumed;
static bool secure;
static struct conn *all;
static int epoll_fd;
static unsigned long stalled_ms;

static void load(const char *directory)
{
	char path[4096];
	struct stat st;
	int fd;

	for (; nr_files < FILES_MAX; nr_files++) {
		snprintf(path, sizeof(path), "%s/f%u", directory, nr_files);
		fd = open(path, O_RDONLY);
		if (fd < 0)
			break;
		if (fstat(fd, &st) < 0)
			die(path);
		files[nr_files].size = st.st_size;
		files[nr_files].data = mmap(NULL, st.st_size + 1, PROT_READ, MAP_PRIVATE, fd, 0);
		if (files[nr_files].data == MAP_FAILED)
			die(path);
		close(fd);
	}
	if (!nr_files)
		die(directory);
}

static void end(struct conn *c, unsigned long *why)
{
	(*why)++;
	if (why == &count.wrong || why == &count.reset || why == &count.stalled) {
		struct sockaddr_in6 me = { 0 };
		socklen_t len = sizeof(me);

		getsockname(c->fd, (void *)&me, &len);
		fprintf(stderr, "client port %u: %s, %u of %u answers, %zu bytes, %zu of %zu bytes "
			"asked, %lu s ago, by %s, %s\n", ntohs(me.sin6_port),
			why == &count.wrong ? "wrong" : why == &count.reset ? "reset" : "stalled",
			c->answered, c->nr, c->got, c->out_pos, c->out_len,
			(lived_ms - c->moved_ms) / 1000, c->server,
			errno ? strerror(errno) : "end of file");
	}
	secure_end(c->ssl);
	close(c->fd);
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	free(c);
	active--;
}

static void end_well(struct conn *c)
{
	if (now_ms() - c->begun_ms > count.slowest_ms)
		count.slowest_ms = now_ms() - c->begun_ms;
	if (c->ssl && SSL_session_reused(c->ssl))
		count.resumed++;
	else if (c->ssl)
		count.whole++;
	end(c, &count.ok);
}

/* What came is none of the server's, or it is gone. */
static void end_badly(struct conn *c)
{
	end(c, errno == EPROTO ? &count.wrong : &count.reset);
}

static void give_up(struct conn *c)
{
	struct linger hard = { .l_onoff = 1 };

	if (draw(2))
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	end(c, &count.aborted);
}

static void begin(void)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET };
	struct conn *c = calloc(1, sizeof(*c));
	size_t bytes = 0;

	if (!c)
		die("calloc");
	c->fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		die("socket");
	c->nr = draw(4) ? 1 : 1 + draw(REQUESTS_MAX);
	for (unsigned int i = 0; i < c->nr; i++) {
		c->file[i] = draw(nr_files);
		bytes += files[c->file[i]].size;
		c->out_len += snprintf(c->out + c->out_len, sizeof(c->out) - c->out_len,
				       "GET /f%u HTTP/1.1\r\nHost: vip\r\n%s\r\n", c->file[i],
				       i + 1 == c->nr ? "Connection: close\r\n" : "");
	}
	/* The first piece: a part of a request, one, or all at once. */
	c->out_stop = draw(3) ? c->out_len : 1 + draw(c->out_len);
	c->begun_ms = now_ms();
	c->piece_ms = c->begun_ms + draw(PIECE_MS);
	if (draw(1000) < aborts)
		c->abort_at = 1 + draw(bytes + 1);
	c->moved_ms = lived_ms;
	c->next = all;
	c->link = &all;
	if (all)
		all->link = &c->next;
	all = c;
	active++;
	started++;
	if (connect(c->fd, (void *)&to, to_len) < 0 && errno != EINPROGRESS)
		die("connect");
	if (secure)
		c->ssl = secure_begin(c->fd, draw(1000) < resumed);
	event.data.ptr = c;
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event) < 0)
		die("epoll_ctl");
}

static ssize_t put(struct conn *c, const void *from, size_t len)
{
	return c->ssl ? secure_send(c->ssl, from, len) : send(c->fd, from, len, MSG_NOSIGNAL);
}

static ssize_t get(struct conn *c, void *into, size_t len)
{
	return c->ssl ? secure_recv(c->ssl, into, len) : recv(c->fd, into, len, 0);
}

/* 0: goes on; -1: the connection has ended. */
static int send_some(struct conn *c)
{
	while (c->out_pos < c->out_stop) {
		ssize_t n = put(c, c->out + c->out_pos, c->out_stop - c->out_pos);

		if (n < 0) {
			if (errno == EAGAIN || errno == ENOTCONN)
				return 0;
			end_badly(c);
			return -1;
		}
		c->out_pos += n;
		c->moved_ms = lived_ms;
	}
	return 0;
}

static int head_done(struct conn *c)
{
	const char *length, *server;

	c->head[c->head_len] = 0;
	if (strncmp(c->head, "HTTP/1.1 200", 12)) {
		end(c, strncmp(c->head, "HTTP/1.1 503", 12) ? &count.wrong : &count.refused);
		return -1;
	}
	server = strcasestr(c->head, "\nServer: ");
	if (server)
		snprintf(c->server, sizeof(c->server), "%.*s", (int)strcspn(server + 9, "\r/"),
			 server + 9);
	length = strcasestr(c->head, "\nContent-Length:");
	if (!length || strtoul(length + 16, NULL, 10) != files[c->file[c->answered]].size) {
		end(c, &count.wrong);
		return -1;
	}
	c->in_body = 1;
	c->body_pos = 0;
	return 0;
}

static int eat(struct conn *c, const char *data, size_t len)
{
	while (len) {
		const struct file *f = &files[c->file[c->answered]];
		size_t n;

		if (c->answered == c->nr) {
			end(c, &count.wrong);	/* more than was asked for */
			return -1;
		}
		if (!c->in_body) {
			if (c->head_len == HEAD_MAX - 1) {
				end(c, &count.wrong);
				return -1;
			}
			c->head[c->head_len++] = *data++;
			len--;
			if (c->head_len >= 4 && !memcmp(c->head + c->head_len - 4, "\r\n\r\n", 4) &&
			    head_done(c) < 0)
				return -1;
			if (!c->in_body || f->size)
				continue;
		}
		n = f->size - c->body_pos < len ? f->size - c->body_pos : len;
		if (memcmp(f->data + c->body_pos, data, n)) {
			end(c, &count.wrong);
			return -1;
		}
		c->body_pos += n;
		data += n;
		len -= n;
		if (c->body_pos == f->size) {
			count.requests++;
			c->answered++;
			c->in_body = 0;
			c->head_len = 0;
		}
	}
	return 0;
}

static void receive_some(struct conn *c)
{
	char data[16384];
	ssize_t n;

	while ((n = get(c, data, sizeof(data))) > 0) {
		c->moved_ms = lived_ms;
		c->got += n;
		count.bytes += n;
		if (c->abort_at && c->got >= c->abort_at) {
			give_up(c);
			return;
		}
		if (eat(c, data, n) < 0)
			return;
	}
	if (n < 0 && errno == EAGAIN)
		return;
	if (!n)
		errno = 0;
	if (!n && c->answered == c->nr)
		end_well(c);
	else
		end_badly(c);
}

static void go_on(struct conn *c, uint32_t events)
{
	if (c->ssl && !c->shaken) {
		if (secure_shake(c->ssl) < 0) {
			if (errno != EAGAIN)
				end_badly(c);
			return;
		}
		c->shaken = true;
	}
	if (send_some(c) == 0 && (events & ~EPOLLOUT))
		receive_some(c);
}

/* Second pieces are sent late on purpose; who does not move is stalled. */
static void tick(void)
{
	unsigned long ms = now_ms();
	struct conn *c, *next;

	for (c = all; c; c = next) {
		next = c->next;
		if (lived_ms - c->moved_ms > stalled_ms) {
			errno = 0;
			end(c, &count.stalled);
		} else if (c->out_stop < c->out_len && c->out_pos == c->out_stop &&
			   ms >= c->piece_ms) {
			if (c->abort_at && !draw(2)) {
				give_up(c);
				continue;
			}
			c->out_stop = c->out_len;
			send_some(c);
		}
	}
}

static void address(const char *host, const char *port)
{
	struct sockaddr_in *v4 = (void *)&to;
	struct sockaddr_in6 *v6 = (void *)&to;

	if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(atoi(port));
		to_len = sizeof(*v6);
	} else if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(atoi(port));
		to_len = sizeof(*v4);
	} else {
		die(host);
	}
}

static volatile sig_atomic_t over, enough;

static void terminate(int number)
{
	if (number == SIGUSR1)
		enough = 1;
	else
		over = 1;
}

static void print(const char *seed_text)
{
	printf("{\"seed\": %s, \"connections\": %lu, \"ok\": %lu, \"resumed\": %lu, "
	       "\"whole\": %lu, \"aborted\": %lu, \"wrong\": %lu, \"reset\": %lu, "
	       "\"stalled\": %lu, \"refused\": %lu, \"requests\": %lu, \"bytes\": %llu, "
	       "\"slowest_ms\": %lu}\n",
	       seed_text, total, count.ok, count.resumed, count.whole, count.aborted, count.wrong,
	       count.reset, count.stalled, count.refused, count.requests, count.bytes,
	       count.slowest_ms);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = terminate };
	struct epoll_event ready[64];
	unsigned int parallel;
	int timer, n;

	if (argc < 6) {
		fprintf(stderr, "usage: handoff-client ADDRESS PORT DIRECTORY CONNECTIONS PARALLEL "
			"[SEED [ABORTS [RESUMED]]]\n");
		return 2;
	}
	address(argv[1], argv[2]);
	load(argv[3]);
	total = strtoul(argv[4], NULL, 10);
	parallel = strtoul(argv[5], NULL, 10);
	draw_from(argc > 6 ? strtoull(argv[6], NULL, 10) : 1);
	aborts = argc > 7 ? strtoul(argv[7], NULL, 10) : 0;
	stalled_ms = patience_ms();
	secure = argc > 8;
	if (secure) {
		resumed = strtoul(argv[8], NULL, 10);
		secure_setup();
		signal(SIGPIPE, SIG_IGN);
	}
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	timer = tick_start(epoll_fd);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	while (!over && (started < total || active)) {
		if (enough)
			total = started;
		while (started < total && active < parallel)
			begin();
		n = epoll_wait(epoll_fd, ready, 1, -1);
		if (n <= 0)
			continue;
		if (!ready[0].data.ptr) {
			tick_passed(timer);
			tick();
			continue;
		}
		go_on(ready[0].data.ptr, ready[0].events);
	}
	print(argc > 6 ? argv[6] : "1");
	return count.wrong || (!over && (count.reset || count.stalled || count.refused));
}
