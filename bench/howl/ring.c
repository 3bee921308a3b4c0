// SPDX-License-Identifier: GPL-2.0
/*
 * Howl with io_uring as it is meant: one multishot accept; receives out of a ring of buffers, the first
 * of a connection for itself, since most have come with it, and a multishot one for those that are kept;
 * answers queued as sends, with the close linked to them. All of a round is one system call. Connections
 * are the ring's own descriptors, and what went well and is of no consequence has no completion.
 */
#include <errno.h>
#include <liburing.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "../program.h"
#include "howl.h"

#define ENTRIES		4096
#define CONNECTIONS	16384
#define BUFFERS		256	/* more than requests under way; a power of two */
#define GROUP		0

/* What a completion is of, and the connection's number below it. */
#define ACCEPT		(1ULL << 32)
#define FIRST		(2ULL << 32)	/* a receive that is the connection's first */
#define RECEIVE		(3ULL << 32)	/* one that goes on */
#define SEND		(4ULL << 32)
#define CLOSE		(5ULL << 32)
#define KIND(name)	((name) & ~(uint64_t)UINT32_MAX)

static struct io_uring ring;
static struct io_uring_buf_ring *spare;
static char buffers[BUFFERS][REQUEST_MAX];
static int from;

static struct io_uring_sqe *next_sqe(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (sqe)
		return sqe;
	io_uring_submit(&ring);
	sqe = io_uring_get_sqe(&ring);
	if (!sqe)
		die("the ring has no room");
	return sqe;
}

/* A chain must not be cut by a full ring. */
static void need(unsigned int entries)
{
	if (io_uring_sq_space_left(&ring) < entries)
		io_uring_submit(&ring);
}

static void give_back(unsigned int id)
{
	io_uring_buf_ring_add(spare, buffers[id], REQUEST_MAX, id, io_uring_buf_ring_mask(BUFFERS), 0);
	io_uring_buf_ring_advance(spare, 1);
}

static void ask_accept(void)
{
	struct io_uring_sqe *sqe = next_sqe();

	io_uring_prep_multishot_accept_direct(sqe, from, NULL, NULL, 0);
	io_uring_sqe_set_data64(sqe, ACCEPT);
}

static void ask_receive(unsigned int connection, uint64_t kind)
{
	struct io_uring_sqe *sqe = next_sqe();

	if (kind == FIRST)
		io_uring_prep_recv(sqe, connection, NULL, REQUEST_MAX, 0);
	else
		io_uring_prep_recv_multishot(sqe, connection, NULL, 0, 0);
	sqe->flags |= IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	io_uring_sqe_set_data64(sqe, kind | connection);
}

static void ask_close(unsigned int connection)
{
	struct io_uring_sqe *sqe = next_sqe();

	io_uring_prep_close_direct(sqe, connection);
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	io_uring_sqe_set_data64(sqe, CLOSE | connection);
}

static void ask_send(unsigned int connection, const struct answer *a, unsigned int flags)
{
	struct io_uring_sqe *sqe = next_sqe();

	io_uring_prep_send(sqe, connection, a->text, a->len,
			   MSG_NOSIGNAL | MSG_WAITALL | (a->closes ? MSG_MORE : 0));
	sqe->flags |= IOSQE_FIXED_FILE | IOSQE_CQE_SKIP_SUCCESS | flags;
	io_uring_sqe_set_data64(sqe, SEND | connection);
}

/* A multishot receive holds the socket, so a close would not be heard of: it ends with the stream. */
static void ask_end(unsigned int connection)
{
	struct io_uring_sqe *sqe = next_sqe();

	io_uring_prep_shutdown(sqe, connection, SHUT_RDWR);
	sqe->flags |= IOSQE_FIXED_FILE | IOSQE_CQE_SKIP_SUCCESS;
	io_uring_sqe_set_data64(sqe, SEND | connection);
}

static void received(unsigned int connection, const struct io_uring_cqe *cqe)
{
	bool first = KIND(cqe->user_data) == FIRST, more = cqe->flags & IORING_CQE_F_MORE;
	const struct answer *a = NULL;

	need(2);
	if (cqe->res > 0) {
		unsigned int id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;

		a = answer_to(buffers[id], cqe->res);
		ask_send(connection, a, a->closes ? IOSQE_IO_LINK : 0);
		give_back(id);
		if (a->closes && first)
			ask_close(connection);
		else if (a->closes)
			ask_end(connection);
	}
	if (more || (a && a->closes && first))
		return;
	if (cqe->res > 0 || cqe->res == -ENOBUFS)
		ask_receive(connection, cqe->res > 0 ? RECEIVE : KIND(cqe->user_data));
	else
		ask_close(connection);
}

static void completed(const struct io_uring_cqe *cqe)
{
	switch (KIND(cqe->user_data)) {
	case ACCEPT:
		if (cqe->res < 0 && cqe->res != -ECONNABORTED)
			die("accept: %s", strerror(-cqe->res));
		if (cqe->res >= 0)
			ask_receive(cqe->res, FIRST);
		if (!(cqe->flags & IORING_CQE_F_MORE))
			ask_accept();
		break;
	case FIRST:
	case RECEIVE:
		received((uint32_t)cqe->user_data, cqe);
		break;
	case CLOSE:
		/* What it was linked to has failed. */
		if (cqe->res == -ECANCELED)
			ask_close((uint32_t)cqe->user_data);
		break;
	}
}

void ring_serve(int listener)
{
	struct io_uring_buf_reg reg = { .ring_entries = BUFFERS, .bgid = GROUP };
	struct io_uring_cqe *cqe;
	struct rlimit limit;
	unsigned int head, n;
	int err;

	/* No more can be registered than a process may have open. */
	if (getrlimit(RLIMIT_NOFILE, &limit))
		die("RLIMIT_NOFILE: %s", strerror(errno));
	limit.rlim_cur = limit.rlim_max < CONNECTIONS ? limit.rlim_max : CONNECTIONS;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		die("RLIMIT_NOFILE: %s", strerror(errno));
	spare = aligned_alloc(4096, BUFFERS * sizeof(struct io_uring_buf));
	if (!spare)
		die("no memory");
	reg.ring_addr = (uintptr_t)spare;
	err = io_uring_queue_init(ENTRIES, &ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
	if (err)
		die("io_uring: %s", strerror(-err));
	if (io_uring_register_ring_fd(&ring) != 1 || io_uring_register_files_sparse(&ring, limit.rlim_cur) ||
	    io_uring_register_buf_ring(&ring, &reg, 0))
		die("io_uring: this kernel lacks what is registered");
	io_uring_buf_ring_init(spare);
	for (n = 0; n < BUFFERS; n++)
		give_back(n);
	from = listener;
	ask_accept();
	for (;;) {
		err = io_uring_submit_and_wait(&ring, 1);
		if (err < 0 && err != -EINTR)
			die("io_uring_enter: %s", strerror(-err));
		n = 0;
		io_uring_for_each_cqe(&ring, head, cqe) {
			completed(cqe);
			n++;
		}
		io_uring_cq_advance(&ring, n);
	}
}
