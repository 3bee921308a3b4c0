// SPDX-License-Identifier: GPL-2.0
/*
 * policy-ways WAY FD: reads once from the socket that is file FD, in that way, and prints how much, and the bytes;
 * or by ring-send sends some, and prints those.
 *
 * "wait" is said before it waits. What a program reads of a request that stays is the whole of it, of one that moves
 * nothing: the end of the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define GROUP	7

static int sock;
static char bytes[4096];
static struct iovec vector = { bytes, sizeof(bytes) };
static struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1 };
static struct io_uring ring;

__attribute__((noreturn)) static void fail(const char *what, int error)
{
	fprintf(stderr, "policy-ways: %s: %s\n", what, strerror(error));
	exit(1);
}

static struct io_uring_sqe *entry(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (!sqe)
		fail("no entry", ENOSPC);
	return sqe;
}

static void waits(void)
{
	puts("wait");
	fflush(stdout);
}

/* What the next completion says. */
static int completed(void)
{
	struct io_uring_cqe *cqe;
	int error = io_uring_wait_cqe(&ring, &cqe), n;

	if (error)
		fail("io_uring_wait_cqe", -error);
	n = cqe->res;
	io_uring_cqe_seen(&ring, cqe);
	if (n < 0)
		fail("completion", -n);
	return n;
}

static int submitted(void)
{
	int n = io_uring_submit(&ring);

	if (n < 0)
		fail("io_uring_submit", -n);
	waits();
	return completed();
}

static int from_pipe(int fd, int n)
{
	return n ? read(fd, bytes, sizeof(bytes)) : 0;
}

/* A buffer of a ring is chosen when there is something to read. */
static int chosen(bool multishot)
{
	struct io_uring_buf_reg place = { .ring_entries = 1, .bgid = GROUP };
	struct io_uring_buf_ring *buffers = aligned_alloc(4096, 4096);
	struct io_uring_sqe *sqe;
	int error;

	place.ring_addr = (unsigned long)buffers;
	error = buffers ? io_uring_register_buf_ring(&ring, &place, 0) : -ENOMEM;
	if (error)
		fail("io_uring_register_buf_ring", -error);
	io_uring_buf_ring_init(buffers);
	io_uring_buf_ring_add(buffers, bytes, sizeof(bytes), 0, io_uring_buf_ring_mask(1), 0);
	io_uring_buf_ring_advance(buffers, 1);
	sqe = entry();
	if (multishot)
		io_uring_prep_recv_multishot(sqe, sock, NULL, 0, 0);
	else
		io_uring_prep_recv(sqe, sock, NULL, sizeof(bytes), 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	return submitted();
}

static int by_ring(const char *way)
{
	struct io_uring_sqe *sqe;
	int ends[2], error, flags = 0;

	if (!strncmp(way, "polled-", 7)) {
		flags = IORING_SETUP_SQPOLL;
		way += 7;
	}
	error = io_uring_queue_init(8, &ring, flags);
	if (error)
		fail("io_uring_queue_init", -error);
	if (!strcmp(way, "buffer") || !strcmp(way, "multishot"))
		return chosen(*way == 'm');
	sqe = entry();
	if (!strcmp(way, "recv") || !strcmp(way, "worker")) {
		io_uring_prep_recv(sqe, sock, bytes, sizeof(bytes), 0);
		/* It waits in the call, as a thread would. */
		if (*way == 'w')
			sqe->flags |= IOSQE_ASYNC;
	} else if (!strcmp(way, "read")) {
		io_uring_prep_read(sqe, sock, bytes, sizeof(bytes), 0);
	} else if (!strcmp(way, "readv")) {
		io_uring_prep_readv(sqe, sock, &vector, 1, 0);
	} else if (!strcmp(way, "recvmsg")) {
		io_uring_prep_recvmsg(sqe, sock, &message, 0);
	} else if (!strcmp(way, "poll") || !strcmp(way, "poll-multishot")) {
		if (way[4])
			io_uring_prep_poll_multishot(sqe, sock, POLLIN);
		else
			io_uring_prep_poll_add(sqe, sock, POLLIN);
		submitted();
		return recv(sock, bytes, sizeof(bytes), MSG_DONTWAIT);
	} else if (!strcmp(way, "send")) {
		io_uring_prep_send(sqe, sock, strcpy(bytes, "by the ring"), 11, 0);
	} else if (!strcmp(way, "splice")) {
		if (pipe(ends))
			fail("pipe", errno);
		io_uring_prep_splice(sqe, sock, -1, ends[1], -1, sizeof(bytes), 0);
		return from_pipe(ends[0], submitted());
	} else {
		fail(way, EINVAL);
	}
	return submitted();
}

static int by_call(const char *way)
{
	struct mmsghdr many = { .msg_hdr = message };
	struct pollfd asked = { .fd = sock, .events = POLLIN };
	int ends[2], n;

	waits();
	if (!strcmp(way, "splice")) {
		if (pipe(ends))
			fail("pipe", errno);
		n = splice(sock, NULL, ends[1], NULL, sizeof(bytes), 0);
		if (n < 0)
			fail("splice", errno);
		return from_pipe(ends[0], n);
	}
	if (!strcmp(way, "recvmmsg")) {
		n = recvmmsg(sock, &many, 1, 0, NULL);
		return n < 0 ? n : (int)many.msg_len;
	}
	if (!strcmp(way, "recvmsg"))
		return recvmsg(sock, &message, 0);
	if (!strcmp(way, "readv"))
		return readv(sock, &vector, 1);
	if (!strcmp(way, "peek")) {
		n = recv(sock, bytes, sizeof(bytes), MSG_PEEK);
		return n > 0 ? recv(sock, bytes, sizeof(bytes), MSG_DONTWAIT) : n;
	}
	if (!strcmp(way, "poll")) {
		if (poll(&asked, 1, -1) != 1)
			fail("poll", errno);
		return recv(sock, bytes, sizeof(bytes), MSG_DONTWAIT);
	}
	fail(way, EINVAL);
}

int main(int argc, char **argv)
{
	int n;

	if (argc != 3)
		fail("which way, of which file?", EINVAL);
	sock = atoi(argv[2]);
	n = strncmp(argv[1], "ring-", 5) ? by_call(argv[1]) : by_ring(argv[1] + 5);
	if (n < 0)
		fail(argv[1], errno);
	printf("%d %.*s", n, n, bytes);
	return 0;
}
