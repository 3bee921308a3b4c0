// SPDX-License-Identifier: GPL-2.0
/*
 * mix-origin SHOWN PORT: answers after as long as the request says, and closes a connection
 * after Zipf(16) answers.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "due.h"
#include "mix.h"

#define FDS_MAX		16384
#define BATCH		64
#define REQUESTS	16

/**
 * struct served - a connection
 * @more:     requests until it is closed
 * @thinking: the answer is not due yet
 * @sent:     of head and body; all of it while nothing is asked
 */
static struct served {
	struct mix_head head;
	unsigned int more;
	bool thinking;
	size_t sent;
} served[FDS_MAX];
static int epfd, listener;

static size_t all_of(const struct served *s)
{
	return sizeof(s->head) + s->head.size;
}

static void answer(int fd)
{
	struct served *s = &served[fd];
	const unsigned char *body = mix_body(s->head.object);

	while (s->sent < all_of(s)) {
		size_t head = s->sent < sizeof(s->head) ? sizeof(s->head) - s->sent : 0;
		size_t done = head ? 0 : s->sent - sizeof(s->head);
		struct iovec iov[2] = {
			{ (char *)&s->head + s->sent * !!head, head },
			{ (void *)(body + done), s->head.size - done },
		};
		struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
		ssize_t n = sendmsg(fd, &msg, MSG_NOSIGNAL);

		if (n < 0) {
			if (errno == EAGAIN)
				return;
			close(fd);
			return;
		}
		s->sent += n;
	}
	if (s->head.flags & MIX_LAST)
		close(fd);
}

static void request(int fd)
{
	struct served *s = &served[fd];
	ssize_t n = recv(fd, &s->head, sizeof(s->head), 0);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		close(fd);
		return;
	}
	if (n != sizeof(s->head) || s->head.magic != MIX_MAGIC || s->head.size > MIX_SIZE_MAX)
		broken("mix-origin: a request");
	if (!--s->more)
		s->head.flags |= MIX_LAST;
	s->sent = 0;
	if (s->head.flags & MIX_HIT) {
		answer(fd);
		return;
	}
	s->thinking = true;
	due_add(mix_now() + s->head.think * 1000ULL, fd);
}

static void greet(void)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLET };
	static uint64_t seed = 16;
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0 || fd >= FDS_MAX)
		broken("mix-origin: accept");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){ MIX_SIZE_MAX * 2 }, sizeof(int));
	served[fd] = (struct served){ .more = mix_zipf(&seed, REQUESTS), .sent = sizeof(struct mix_head) };
	ev.data.fd = fd;
	if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev))
		broken("mix-origin: epoll_ctl");
}

static void ready(int fd)
{
	if (fd == listener)
		greet();
	else if (served[fd].sent == all_of(&served[fd]))
		request(fd);
	else if (!served[fd].thinking)
		answer(fd);
}

int main(int argc, char **argv)
{
	struct rlimit nofile = { FDS_MAX, FDS_MAX };
	struct epoll_event ev[BATCH];
	int i, n, fd;

	if (argc != 3) {
		fputs("usage: mix-origin SHOWN PORT\n", stderr);
		return 2;
	}
	setrlimit(RLIMIT_NOFILE, &nofile);
	mix_body(0);
	listener = mix_listen(atoi(argv[2]), SOCK_NONBLOCK);
	epfd = epoll_create1(EPOLL_CLOEXEC);
	ev[0] = (struct epoll_event){ .events = EPOLLIN, .data.fd = listener };
	if (epfd < 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, listener, &ev[0]))
		broken("mix-origin: epoll_ctl");
	mix_shown_map(argv[1])->origin = getpid();
	mix_outrank();
	for (;;) {
		n = due_wait(epfd, ev, BATCH, mix_now() + 1000000000);
		for (i = 0; i < n; i++)
			ready(ev[i].data.fd);
		while ((fd = due_take(mix_now())) >= 0) {
			served[fd].thinking = false;
			answer(fd);
		}
	}
}
