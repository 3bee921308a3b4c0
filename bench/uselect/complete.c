// SPDX-License-Identifier: GPL-2.0
/*
 * io_uring as it is meant: one multishot accept, a multishot receive for each connection out of a
 * ring of buffers, answers queued as sends, all of it in one call for each round. Connections are
 * the ring's own descriptors (none of the process), completions come when they are asked for, by the
 * one thread there is, and a send that went well has none.
 */

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "complete.h"
#include "load.h"

#define ENTRIES		4096
#define BUFFERS		256	/* more than requests under way; a power of two */
#define BUFFER_SIZE	4096
#define GROUP		0

/* What a completion is of, and the connection's number below it. */
#define ACCEPT		(1ULL << 32)
#define RECEIVE		(2ULL << 32)
#define SEND		(3ULL << 32)
#define KIND(name)	((name) & ~(uint64_t)UINT32_MAX)

static struct io_uring ring;
static struct io_uring_buf_ring *spare;
static char buffers[BUFFERS][BUFFER_SIZE], answer[ANSWER_MAX];
static int listener;

static void fail(const char *what, int error)
{
	errno = -error;
	broken(what);
}

static struct io_uring_sqe *next_sqe(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (sqe)
		return sqe;
	wait_calls++;
	io_uring_submit(&ring);
	sqe = io_uring_get_sqe(&ring);
	if (!sqe)
		fail("io_uring_get_sqe", -EBUSY);
	return sqe;
}

static void give_back(unsigned int id)
{
	io_uring_buf_ring_add(spare, buffers[id], BUFFER_SIZE, id, io_uring_buf_ring_mask(BUFFERS), 0);
	io_uring_buf_ring_advance(spare, 1);
}

static bool complete_open(void)
{
	struct io_uring_buf_reg reg = { .ring_entries = BUFFERS, .bgid = GROUP };
	unsigned int id;

	spare = aligned_alloc(4096, BUFFERS * sizeof(struct io_uring_buf));
	if (!spare)
		return false;
	reg.ring_addr = (uintptr_t)spare;
	if (io_uring_queue_init(ENTRIES, &ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN) ||
	    io_uring_register_ring_fd(&ring) != 1 || io_uring_register_files_sparse(&ring, FDS_MAX) ||
	    io_uring_register_buf_ring(&ring, &reg, 0))
		return false;
	io_uring_buf_ring_init(spare);
	for (id = 0; id < BUFFERS; id++)
		give_back(id);
	return true;
}

static void ask_accept(void)
{
	struct io_uring_sqe *sqe = next_sqe();

	io_uring_prep_multishot_accept_direct(sqe, listener, NULL, NULL, 0);
	io_uring_sqe_set_data64(sqe, ACCEPT);
}

static void ask_receive(unsigned int connection)
{
	struct io_uring_sqe *sqe = next_sqe();

	io_uring_prep_recv_multishot(sqe, connection, NULL, 0, 0);
	sqe->flags |= IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	io_uring_sqe_set_data64(sqe, RECEIVE | connection);
}

/* The answer fits into the send buffer. A completion means that it was not sent. */
static void ask_send(unsigned int connection)
{
	struct io_uring_sqe *sqe = next_sqe();

	io_uring_prep_send(sqe, connection, answer, shown->size, MSG_NOSIGNAL | MSG_WAITALL);
	sqe->flags |= IOSQE_FIXED_FILE | IOSQE_CQE_SKIP_SUCCESS;
	io_uring_sqe_set_data64(sqe, SEND | connection);
	shown->served++;
}

static void complete_add(int fd)
{
	/* Its connections have it from the listener: the largest answer fits. */
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){ ANSWER_MAX * 2 }, sizeof(int)))
		broken("SO_SNDBUF");
	listener = fd;
	ask_accept();
}

static void received(unsigned int connection, const struct io_uring_cqe *cqe)
{
	int n = cqe->res;

	if (!n)
		exit(0);
	if (n < 0 && n != -ENOBUFS)
		fail("receive", n);
	if (n > 0)
		give_back(cqe->flags >> IORING_CQE_BUFFER_SHIFT);
	if (!(cqe->flags & IORING_CQE_F_MORE))
		ask_receive(connection);
	for (; n >= REQUEST; n -= REQUEST)
		ask_send(connection);
}

static void completed(const struct io_uring_cqe *cqe)
{
	switch (KIND(cqe->user_data)) {
	case ACCEPT:
		if (cqe->res < 0)
			fail("accept", cqe->res);
		if (!(cqe->flags & IORING_CQE_F_MORE))
			ask_accept();
		ask_receive(cqe->res);
		shown->accepted++;
		break;
	case RECEIVE:
		received((uint32_t)cqe->user_data, cqe);
		break;
	default:
		fail("send", cqe->res < 0 ? cqe->res : -EAGAIN);
	}
}

static void complete_wait(void)
{
	struct io_uring_cqe *cqe;
	unsigned int head, n = 0;
	int ret;

	wait_calls++;
	ret = io_uring_submit_and_wait(&ring, 1);
	if (ret < 0)
		fail("io_uring_enter", ret);
	io_uring_for_each_cqe(&ring, head, cqe) {
		completed(cqe);
		n++;
	}
	io_uring_cq_advance(&ring, n);
}

const struct wait_layer complete_layer = {
	.name = "io_uring-complete",
	.open = complete_open,
	.add = complete_add,
	.wait = complete_wait,
};
