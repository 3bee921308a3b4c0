// SPDX-License-Identifier: GPL-2.0
/* The ways to wait that are compared. */

#include <errno.h>
#include <liburing.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <flotilla/uselect.h>

#include "load.h"
#include "uselect.h"
#include "wait.h"

#define WORDS	(FDS_MAX / 64)
#define BATCH	256

uint64_t wait_calls;
uint32_t wait_edges = EPOLLIN;
uint32_t wait_ready;

/* The library makes its calls by syscall(), and nothing else here does; never with more arguments. */
long __real_syscall(long nr, ...);
long __wrap_syscall(long nr, long a, long b, long c, long d, long e, long f);

long __wrap_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	wait_calls++;
	return __real_syscall(nr, a, b, c, d, e, f);
}

/*
 * --- the floor: the load says in shared memory who asks. Connections are accepted before anyone
 * does. What is left is the server's own work, and sleeping ---
 */

static int accepted[FDS_MAX], nr_accepted;

static bool told_open(void)
{
	shown->tell = true;
	return true;
}

static void told_add(int fd)
{
	accepted[nr_accepted++] = fd;
}

static void told_sleep(uint32_t seen)
{
	__atomic_store_n(&shown->waits, true, __ATOMIC_SEQ_CST);
	/* While nobody asks the listener, [0], wants to be looked at. */
	syscall(SYS_futex, &shown->told, FUTEX_WAIT, seen,
		&(struct timespec){ .tv_nsec = seen ? 1000000000 - 1 : 1000000 }, NULL, 0);
	__atomic_store_n(&shown->waits, false, __ATOMIC_SEQ_CST);
}

static void told_wait(void)
{
	static uint32_t seen;
	uint32_t told = __atomic_load_n(&shown->told, __ATOMIC_ACQUIRE);

	if (seen == told) {
		told_sleep(seen);
		told = __atomic_load_n(&shown->told, __ATOMIC_ACQUIRE);
		if (seen == told)
			serve(accepted[0]);
	}
	for (; seen != told; seen++)
		serve(accepted[shown->asked[seen % ASKED_MAX] + 1]);
}

/* --- select(), and uselect() in its place: the interest is copied, the answer walked --- */

static unsigned long interest[WORDS], answer[WORDS], room_interest[WORDS], room_answer[WORDS];
static int highest;
/* Somebody has asked for room to write once. */
static bool room;

static bool plain_open(void)
{
	return true;
}

static void set_add(int fd)
{
	uselect_fd_set(fd, interest);
	if (fd >= highest)
		highest = fd + 1;
}

static void set_want(int fd, uint32_t events)
{
	if (events & EPOLLIN)
		uselect_fd_set(fd, interest);
	else
		uselect_fd_clear(fd, interest);
	if (events & EPOLLOUT)
		uselect_fd_set(fd, room_interest);
	else
		uselect_fd_clear(fd, room_interest);
	room |= events & EPOLLOUT;
}

static void set_remove(int fd)
{
	set_want(fd, 0);
}

static void set_copy(void)
{
	memcpy(answer, interest, USELECT_WORDS(highest) * sizeof(long));
	if (room)
		memcpy(room_answer, room_interest, USELECT_WORDS(highest) * sizeof(long));
}

static void set_walk(void)
{
	unsigned long bits;
	int i;

	for (i = 0; i < (int)USELECT_WORDS(highest); i++)
		for (bits = answer[i]; bits; bits &= bits - 1)
			serve(i * 64 + __builtin_ctzl(bits));
}

static void set_walk_both(void)
{
	unsigned long bits;
	int i, fd;

	for (i = 0; i < (int)USELECT_WORDS(highest); i++) {
		for (bits = answer[i] | room_answer[i]; bits; bits &= bits - 1) {
			fd = i * 64 + __builtin_ctzl(bits);
			wait_ready = (uselect_fd_isset(fd, answer) ? EPOLLIN : 0) |
				     (uselect_fd_isset(fd, room_answer) ? EPOLLOUT : 0);
			serve(fd);
		}
	}
}

static void set_serve(void)
{
	if (room)
		set_walk_both();
	else
		set_walk();
}

static void select_wait(void)
{
	set_copy();
	if (syscall(SYS_select, highest, answer, room ? room_answer : NULL, NULL, NULL) < 0)
		broken("select");
	set_serve();
}

static bool uselect_open(void)
{
	return !uselect_init();
}

static void uselect_wait(void)
{
	set_copy();
	if (uselect(highest, (fd_set *)answer, room ? (fd_set *)room_answer : NULL, NULL, NULL) < 0)
		broken("uselect");
	set_serve();
}

/* --- poll() --- */

static struct pollfd polled[FDS_MAX];
static int nr_polled;

static void poll_add(int fd)
{
	polled[nr_polled++] = (struct pollfd){ .fd = fd, .events = POLLIN };
}

static void poll_wait(void)
{
	int i, n;

	wait_calls++;
	n = poll(polled, nr_polled, -1);
	if (n < 0)
		broken("poll");
	for (i = 0; i < nr_polled && n; i++) {
		if (polled[i].revents) {
			n--;
			serve(polled[i].fd);
		}
	}
}

/*
 * --- epoll as the paper measured it (section 4.1): the whole table is walked to register what is
 * new, and again to do what interest and a remembered flag allow ---
 */

static struct { bool present, registered, readable; uint8_t want, ready; } table[FDS_MAX];
static int epfd;

static bool epoll_open(void)
{
	epfd = epoll_create1(EPOLL_CLOEXEC);
	return epfd >= 0;
}

static void paper_add(int fd)
{
	table[fd].present = true;
	table[fd].want = EPOLLIN;
	if (fd >= highest)
		highest = fd + 1;
}

static void paper_want(int fd, uint32_t events)
{
	table[fd].want = events;
}

static void epoll_register(int fd)
{
	struct epoll_event ev = { .events = wait_edges | EPOLLET, .data.fd = fd };

	wait_calls++;
	if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev))
		broken("epoll_ctl");
}

static void paper_remove(int fd)
{
	if (table[fd].registered) {
		wait_calls++;
		if (epoll_ctl(epfd, EPOLL_CTL_DEL, fd, NULL))
			broken("epoll_ctl");
	}
	table[fd].present = false;
	table[fd].registered = false;
	table[fd].want = 0;
}

static void paper_walk(void)
{
	int fd;

	for (fd = 0; fd < highest; fd++)
		if (table[fd].present && table[fd].readable && !serve(fd))
			table[fd].readable = false;
}

static void paper_walk_both(void)
{
	uint32_t asked;
	int fd;

	for (fd = 0; fd < highest; fd++) {
		asked = table[fd].want & table[fd].ready;
		if (!asked)
			continue;
		wait_ready = asked;
		if (!serve(fd))
			table[fd].ready &= ~asked;
	}
}

static void paper_wait(void)
{
	struct epoll_event ev[BATCH];
	int fd, i, n;

	for (fd = 0; fd < highest; fd++) {
		if (table[fd].present && !table[fd].registered) {
			epoll_register(fd);
			table[fd].registered = true;
			table[fd].readable = true;
			table[fd].ready = wait_edges;
		}
	}
	wait_calls++;
	n = epoll_wait(epfd, ev, BATCH, -1);
	if (n < 0)
		broken("epoll_wait");
	for (i = 0; i < n; i++) {
		table[ev[i].data.fd].readable = true;
		table[ev[i].data.fd].ready |= ev[i].events;
	}
	if (wait_edges & EPOLLOUT)
		paper_walk_both();
	else
		paper_walk();
}

/* --- epoll as it is used today: edges, and the list of what is ready --- */

static void epoll_wait_list(void)
{
	struct epoll_event ev[BATCH];
	int i, n;

	wait_calls++;
	n = epoll_wait(epfd, ev, BATCH, -1);
	if (n < 0)
		broken("epoll_wait");
	for (i = 0; i < n; i++) {
		wait_ready = ev[i].events;
		serve(ev[i].data.fd);
	}
}

/*
 * --- io_uring: a multishot poll for each connection; completions are read from memory. Deferred: the
 * kernel puts them there when it is asked for them. Otherwise whenever it runs for us, in recv() and
 * send() as well, so that there may be some without a call ---
 */

static struct io_uring ring;

static bool uring_open(void)
{
	return !io_uring_queue_init(4096, &ring, IORING_SETUP_COOP_TASKRUN |
				    IORING_SETUP_SINGLE_ISSUER);
}

static bool uring_open_deferred(void)
{
	return !io_uring_queue_init(4096, &ring, IORING_SETUP_SINGLE_ISSUER |
				    IORING_SETUP_DEFER_TASKRUN);
}

static void uring_add(int fd)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (!sqe) {
		wait_calls++;
		io_uring_submit(&ring);
		sqe = io_uring_get_sqe(&ring);
	}
	io_uring_prep_poll_multishot(sqe, fd, POLLIN);
	io_uring_sqe_set_data64(sqe, fd);
}

static void uring_wait(void)
{
	struct io_uring_cqe *cqe;
	unsigned int head, n = 0, i;
	int fds[BATCH];

	if (io_uring_sq_ready(&ring) || !io_uring_cq_ready(&ring)) {
		wait_calls++;
		if (io_uring_submit_and_wait(&ring, 1) < 0)
			broken("io_uring_enter");
	}
	io_uring_for_each_cqe(&ring, head, cqe) {
		if (n == BATCH)
			break;
		if (!(cqe->flags & IORING_CQE_F_MORE))
			uring_add(cqe->user_data);
		fds[n++] = cqe->user_data;
	}
	io_uring_cq_advance(&ring, n);
	for (i = 0; i < n; i++)
		serve(fds[i]);
}

/* --- uselect's list of what is ready --- */

static struct uselect_loop *list;

static bool list_open(void)
{
	if (uselect_init())
		return false;
	list = uselect_loop_new();
	return list;
}

static bool edges_open(void)
{
	if (uselect_init_edges())
		return false;
	list = uselect_loop_new();
	return list;
}

static void list_add(int fd)
{
	if (uselect_loop_add(list, fd, wait_edges | EPOLLET, fd))
		broken("uselect_loop_add");
}

static void list_wait(void)
{
	struct epoll_event ev[BATCH];
	int i, n;

	n = uselect_loop_wait(list, ev, BATCH, -1);
	if (n < 0)
		broken("uselect_loop_wait");
	for (i = 0; i < n; i++) {
		wait_ready = ev[i].events;
		serve(ev[i].data.u64);
	}
}

/* --- the same, and many receives and sends in one call --- */

#define REQUESTS_AT_ONCE	64

static int moves_listener;

static void moves_add(int fd)
{
	if (!moves_listener)
		moves_listener = fd;
	list_add(fd);
}

static void move(struct usel_move *moves, int n)
{
	if (uselect_move(moves, n) != n)
		broken("uselect_move");
}

static int ask_answers(struct usel_move *sends, const struct usel_move *receives, int n)
{
	static char answer[ANSWER_MAX];
	int i, left, nr = 0;

	for (i = 0; i < n; i++) {
		if (!receives[i].result)
			exit(0);
		for (left = receives[i].result; left >= REQUEST && nr < BATCH; left -= REQUEST)
			sends[nr++] = (struct usel_move){ .fd = receives[i].fd, .flags = USEL_MOVE_SEND,
							  .addr = (uintptr_t)answer,
							  .len = shown->size };
	}
	return nr;
}

static void moves_wait(void)
{
	static char requests[REQUESTS_AT_ONCE][4096];
	struct usel_move receives[REQUESTS_AT_ONCE], sends[BATCH];
	struct epoll_event ev[REQUESTS_AT_ONCE];
	int i, n, nr = 0;

	n = uselect_loop_wait(list, ev, REQUESTS_AT_ONCE, -1);
	if (n < 0)
		broken("uselect_loop_wait");
	for (i = 0; i < n; i++) {
		if ((int)ev[i].data.u64 == moves_listener)
			serve(moves_listener);
		else
			receives[nr++] = (struct usel_move){ .fd = ev[i].data.u64, .len = 4096,
							     .addr = (uintptr_t)requests[i] };
	}
	if (nr == 1) {
		serve(receives[0].fd);
		return;
	}
	if (!nr)
		return;
	move(receives, nr);
	nr = ask_answers(sends, receives, nr);
	move(sends, nr);
	for (i = 0; i < nr; i++)
		if (sends[i].result != (int)shown->size)
			broken("send");
	shown->served += nr;
}

const struct wait_layer wait_layers[] = {
	{ .name = "floor", .open = told_open, .add = told_add, .wait = told_wait },
	{ .name = "select", .open = plain_open, .add = set_add, .wait = select_wait,
	  .both = true, .want = set_want, .remove = set_remove },
	{ .name = "poll", .open = plain_open, .add = poll_add, .wait = poll_wait },
	{ .name = "epoll-paper", .open = epoll_open, .add = paper_add, .wait = paper_wait,
	  .both = true, .want = paper_want, .remove = paper_remove },
	{ .name = "epoll", .open = epoll_open, .add = epoll_register, .wait = epoll_wait_list,
	  .both = true },
	{ .name = "io_uring", .open = uring_open, .add = uring_add, .wait = uring_wait },
	{ .name = "io_uring-deferred", .open = uring_open_deferred, .add = uring_add, .wait = uring_wait },
	{ .name = "uselect", .open = uselect_open, .add = set_add, .wait = uselect_wait,
	  .both = true, .want = set_want, .remove = set_remove },
	{ .name = "uselect-list", .open = list_open, .add = list_add, .wait = list_wait,
	  .both = true },
	{ .name = "uselect-edges", .open = edges_open, .add = list_add, .wait = list_wait,
	  .both = true },
	{ .name = "uselect-moves", .open = edges_open, .add = moves_add, .wait = moves_wait },
	{ .name = NULL },
};
