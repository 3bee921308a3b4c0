// SPDX-License-Identifier: GPL-2.0
// timeout: 120
// cpus: 2
/* Sets that want edges only, and many receives and sends in one call. */

#include <kselftest_harness.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "uselect/tests/lib/sockets.h"

#define LOOP(ms)	uselect_loop_wait(self->loop, self->ev, 64, ms)

FIXTURE(edges) {
	const struct usel_region_head *raw;
	struct uselect_loop *loop;
	struct epoll_event ev[64];
	int a, b;
	char buf[65536];
};

/* Both ends have received: from here on neither's calls are seen. */
FIXTURE_SETUP(edges)
{
	int fds[2];

	ASSERT_EQ(0, load_module(""));
	ASSERT_EQ(0, uselect_init_edges());
	self->raw = raw_region();
	ASSERT_NE(NULL, self->raw);
	pair(AF_INET, fds);
	self->a = fds[0];
	self->b = fds[1];
	self->loop = uselect_loop_new();
	ASSERT_NE(NULL, self->loop);
	ASSERT_EQ(0, (raw_events(self->raw, self->a) | raw_events(self->raw, self->b)) &
		     USEL_FD_EDGES);
	ASSERT_EQ(1, send(self->a, "x", 1, 0));
	ASSERT_TRUE(WAIT(recv(self->b, self->buf, 9, 0) == 1));
	ASSERT_EQ(1, send(self->b, "x", 1, 0));
	ASSERT_TRUE(WAIT(recv(self->a, self->buf, 9, 0) == 1));
	ASSERT_NE(0, raw_events(self->raw, self->a) & USEL_FD_EDGES);
	ASSERT_NE(0, raw_events(self->raw, self->b) & USEL_FD_EDGES);
}

FIXTURE_TEARDOWN(edges)
{
	uselect_loop_free(self->loop);
}

TEST_F(edges, each_arrival_is_told_of_once)
{
	int i;

	ASSERT_EQ(0, uselect_loop_add(self->loop, self->b, EPOLLIN | EPOLLET, 5));
	ASSERT_EQ(0, LOOP(0));
	for (i = 0; i < 50; i++) {
		ASSERT_EQ(1, send(self->a, "a", 1, 0));
		ASSERT_EQ(1, LOOP(WAIT_S * 1000));
		ASSERT_EQ(EPOLLIN, self->ev[0].events);
		ASSERT_EQ(0, LOOP(0));
		/* Not all of it is read each time. */
		if (i % 2)
			ASSERT_EQ(2, recv(self->b, self->buf, 9, 0));
	}
	/* What is read is not seen: this is what it is about. */
	ASSERT_NE(0, raw_events(self->raw, self->b) & EPOLLIN);
	ASSERT_EQ(POLLOUT | POLLWRNORM, truth(self->b));
}

TEST_F(edges, room_is_told_of_after_eagain)
{
	int i;

	ASSERT_EQ(0, uselect_loop_add(self->loop, self->a, EPOLLOUT | EPOLLET, 3));
	ASSERT_EQ(1, LOOP(WAIT_S * 1000));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, LOOP(0));
		while (send(self->a, self->buf, sizeof(self->buf), 0) > 0)
			;
		ASSERT_EQ(EAGAIN, errno);
		ASSERT_TRUE(WAIT(recv(self->b, self->buf, sizeof(self->buf), 0) <= 0 &&
				 truth(self->a) & POLLOUT));
		ASSERT_EQ(1, LOOP(WAIT_S * 1000));
		ASSERT_EQ(EPOLLOUT, self->ev[0].events);
	}
}

TEST_F(edges, levels_are_of_now)
{
	ASSERT_EQ(0, uselect_loop_add(self->loop, self->b, EPOLLIN, 7));
	ASSERT_EQ(0, LOOP(0));
	ASSERT_EQ(3, send(self->a, "abc", 3, 0));
	ASSERT_EQ(1, LOOP(WAIT_S * 1000));
	ASSERT_EQ(1, LOOP(0));
	ASSERT_EQ(1, recv(self->b, self->buf, 1, 0));
	ASSERT_EQ(1, LOOP(-1));
	ASSERT_EQ(2, recv(self->b, self->buf, 9, 0));
	ASSERT_EQ(0, LOOP(0));
	ASSERT_EQ(0, LOOP(20));
	ASSERT_EQ(1, send(self->a, "d", 1, 0));
	ASSERT_EQ(1, LOOP(WAIT_S * 1000));
}

TEST_F(edges, what_is_changed_or_armed_again_is_of_now)
{
	static const uint32_t modes[] = { EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLONESHOT };
	unsigned int i;

	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, uselect_loop_add(self->loop, self->b, EPOLLIN | modes[i], 1));
		ASSERT_EQ(0, LOOP(0));
		ASSERT_EQ(1, send(self->a, "a", 1, 0));
		ASSERT_EQ(1, LOOP(WAIT_S * 1000));
		ASSERT_EQ(0, uselect_loop_mod(self->loop, self->b, EPOLLIN | modes[i], 2));
		ASSERT_EQ(1, LOOP(0));
		ASSERT_EQ(2, self->ev[0].data.u64);
		ASSERT_EQ(1, recv(self->b, self->buf, 9, 0));
		ASSERT_EQ(0, uselect_loop_mod(self->loop, self->b, EPOLLIN | modes[i], 3));
		ASSERT_EQ(0, LOOP(20));
		ASSERT_EQ(1, send(self->a, "b", 1, 0));
		ASSERT_EQ(1, LOOP(WAIT_S * 1000));
		ASSERT_EQ(3, self->ev[0].data.u64);
		ASSERT_EQ(1, recv(self->b, self->buf, 9, 0));
		ASSERT_EQ(0, uselect_loop_del(self->loop, self->b));
	}
}

TEST_F(edges, one_socket_is_asked_for_now)
{
	ASSERT_EQ(1, send(self->a, "a", 1, 0));
	ASSERT_TRUE(WAIT(get_socket_state(self->b) == (USEL_STATE_R | USEL_STATE_W)));
	ASSERT_EQ(1, recv(self->b, self->buf, 9, 0));
	ASSERT_EQ(USEL_STATE_W, get_socket_state(self->b));
	ASSERT_EQ(POLLOUT | POLLWRNORM, told(self->b));
	ASSERT_NE(0, raw_events(self->raw, self->b) & EPOLLIN);
}

TEST_F(edges, the_end_and_an_error_are_told_of)
{
	ASSERT_EQ(0, uselect_loop_add(self->loop, self->b, EPOLLIN | EPOLLRDHUP | EPOLLET, 1));
	ASSERT_EQ(0, LOOP(0));
	shutdown(self->a, SHUT_WR);
	ASSERT_EQ(1, LOOP(WAIT_S * 1000));
	ASSERT_EQ(EPOLLIN | EPOLLRDHUP, self->ev[0].events);
	/* The state changes, and then data are ready. */
	ASSERT_TRUE(WAIT(LOOP(20) == 0));
	reset(self->a);
	ASSERT_EQ(1, LOOP(WAIT_S * 1000));
	ASSERT_NE(0, self->ev[0].events & EPOLLERR);
}

TEST_F(edges, all_is_right_from_the_first_set_on_that_wants_it)
{
	struct pollfd p = { .fd = self->b, .events = POLLIN };
	int dev, i;

	for (i = 0; i < 3; i++) {
		ASSERT_EQ(1, send(self->a, "a", 1, 0));
		ASSERT_TRUE(WAIT(raw_events(self->raw, self->b) & EPOLLIN));
		ASSERT_EQ(1, recv(self->b, self->buf, 9, 0));
		ASSERT_NE(0, raw_events(self->raw, self->b) & USEL_FD_EDGES);
		dev = set_of_flags(0);
		ASSERT_LE(0, dev);
		ASSERT_EQ(EPOLLOUT | EPOLLWRNORM, raw_events(self->raw, self->b));
		ASSERT_EQ(1, send(self->a, "a", 1, 0));
		ASSERT_TRUE(WAIT(raw_events(self->raw, self->b) & EPOLLIN));
		ASSERT_EQ(1, recv(self->b, self->buf, 9, 0));
		ASSERT_EQ(EPOLLOUT | EPOLLWRNORM, raw_events(self->raw, self->b));
		/* Another does not change that, nor does its end. */
		close(set_of_flags(0));
		ASSERT_EQ(-1, recv(self->b, self->buf, 9, 0));
		ASSERT_EQ(EPOLLOUT | EPOLLWRNORM, raw_events(self->raw, self->b));
		close(dev);
		ASSERT_EQ(-1, recv(self->b, self->buf, 9, 0));
		ASSERT_EQ(EPOLLOUT | EPOLLWRNORM | USEL_FD_EDGES, raw_events(self->raw, self->b));
	}
	/* The library has such a set for who looks at bits. */
	ASSERT_EQ(0, uselect_poll(&p, 1, 0));
	ASSERT_EQ(EPOLLOUT | EPOLLWRNORM, raw_events(self->raw, self->b));
}

TEST_F(edges, a_socket_is_right_at_all_times_while_another_owner_wants_it)
{
	int go[2], say[2], status;
	pid_t pid;
	char c;

	ASSERT_EQ(0, pipe(go));
	ASSERT_EQ(0, pipe(say));
	pid = fork();
	if (!pid) {
		if (uselect_init() || uselect_track(self->b) || write(say[1], "1", 1) != 1 ||
		    read(go[0], &c, 1) != 1)
			_exit(1);
		_exit(get_socket_state(self->b) != USEL_STATE_W);
	}
	ASSERT_EQ(1, read(say[0], &c, 1));
	ASSERT_EQ(0, raw_events(self->raw, self->b) & USEL_FD_EDGES);
	ASSERT_NE(0, raw_events(self->raw, self->a) & USEL_FD_EDGES);
	ASSERT_EQ(1, send(self->a, "a", 1, 0));
	ASSERT_TRUE(WAIT(raw_events(self->raw, self->b) & EPOLLIN));
	ASSERT_EQ(1, recv(self->b, self->buf, 9, 0));
	ASSERT_EQ(EPOLLOUT | EPOLLWRNORM, raw_events(self->raw, self->b));
	ASSERT_EQ(1, write(go[1], "1", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(-1, recv(self->b, self->buf, 9, 0));
	ASSERT_NE(0, raw_events(self->raw, self->b) & USEL_FD_EDGES);
}

TEST_F(edges, another_number_of_the_socket_says_so_too)
{
	int copy = dup(self->b);

	ASSERT_EQ(EPOLLOUT | EPOLLWRNORM | USEL_FD_EDGES, raw_events(self->raw, copy));
	close(self->b);
	ASSERT_EQ(1, send(self->a, "a", 1, 0));
	ASSERT_TRUE(WAIT(raw_events(self->raw, copy) & EPOLLIN));
}

TEST_F(edges, byte_counts_are_of_now)
{
	ASSERT_EQ(-1, set_of_flags(USEL_SETUP_EDGES | USEL_SETUP_BYTES));
	ASSERT_EQ(EINVAL, errno);
	/* Once asked for they are kept, whoever has gone. */
	close(set_of_flags(USEL_SETUP_BYTES));
	ASSERT_EQ(1, send(self->a, "a", 1, 0));
	ASSERT_TRUE(WAIT(raw_events(self->raw, self->b) & EPOLLIN));
	ASSERT_EQ(1, recv(self->b, self->buf, 9, 0));
	ASSERT_EQ(EPOLLOUT | EPOLLWRNORM, raw_events(self->raw, self->b));
}

/* One of two threads that make a set each at the same time, and then look. */
struct comer {
	const struct usel_region_head *raw;
	pthread_barrier_t *together;
	int fd, rounds, wrong;
};

static void *come(void *arg)
{
	struct usel_setup setup;
	struct comer *c = arg;
	uint32_t events;
	int i, dev, err;

	for (i = 0; i < c->rounds; i++) {
		dev = open(USEL_DEVICE, O_RDWR | O_CLOEXEC);
		setup = (struct usel_setup){ .abi = USEL_ABI };
		pthread_barrier_wait(c->together);
		err = ioctl(dev, USEL_SETUP, &setup);
		events = raw_events(c->raw, c->fd);
		c->wrong += err || events & (EPOLLIN | USEL_FD_EDGES);
		pthread_barrier_wait(c->together);
		close(dev);
		pthread_barrier_wait(c->together);
	}
	return NULL;
}

/* The number is the last, so that who makes all right returns as soon as this one is. */
TEST_F(edges, all_is_right_for_each_of_two_sets_that_come_at_once)
{
	struct rlimit nofile = { self->raw->nfds, self->raw->nfds };
	int last = self->raw->nfds - 1, rounds = env_number("USELECT_COMERS", 3000), i;
	pthread_barrier_t together;
	struct comer comers[2];
	pthread_t threads[2];
	bool stale = true;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &nofile));
	ASSERT_EQ(last, dup2(self->b, last));
	close(self->b);
	pthread_barrier_init(&together, NULL, 3);
	for (i = 0; i < 2; i++) {
		comers[i] = (struct comer){ self->raw, &together, last, rounds, 0 };
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, come, &comers[i]));
	}
	for (i = 0; i < rounds; i++) {
		/* The first receive is seen, and lets the second pass by. */
		recv(last, self->buf, 9, 0);
		send(self->a, "a", 1, 0);
		stale &= WAIT(raw_events(self->raw, last) & EPOLLIN);
		recv(last, self->buf, 9, 0);
		stale &= !!(raw_events(self->raw, last) & USEL_FD_EDGES);
		pthread_barrier_wait(&together);
		pthread_barrier_wait(&together);
		pthread_barrier_wait(&together);
	}
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ASSERT_TRUE(stale);
	ASSERT_EQ(0, comers[0].wrong + comers[1].wrong) {
		TH_LOG("wrong: %d and %d of %d", comers[0].wrong, comers[1].wrong, rounds);
	}
}

/* --- many receives and sends in one call --- */

static int filtered(int a)
{
	struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog program = { .len = 1, .filter = allow };
	int dev = set_of_flags(0);
	char c = 'x';
	struct usel_move two[2] = {
		{ .fd = a, .flags = USEL_MOVE_SEND, .addr = (uintptr_t)&c, .len = 1 },
		{ .fd = a, .flags = USEL_MOVE_SEND, .addr = (uintptr_t)&c, .len = 1 },
	};
	struct usel_moves all = { .moves = (uintptr_t)two, .nr = 2 };

	if (dev < 0 || uselect_init_edges() || ioctl(dev, USEL_MOVE, &all) != 2)
		return 1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 2;
	if (ioctl(dev, USEL_MOVE, &all) != -1 || errno != EPERM)
		return 3;
	/* The library makes them one by one. */
	if (uselect_move(two, 2) != 2 || two[1].result != 1)
		return 4;
	return 0;
}

TEST_F(edges, moves_are_receives_and_sends)
{
	int gone = socket(AF_INET, SOCK_STREAM, 0), file = open("/proc/self/stat", O_RDONLY), i;
	char in[4][8] = { "", "", "", "" };
	struct usel_move m[20] = {
		{ .fd = self->a, .flags = USEL_MOVE_SEND, .addr = (uintptr_t)"abc", .len = 3 },
		{ .fd = self->b, .flags = USEL_MOVE_SEND | USEL_MOVE_MORE,
		  .addr = (uintptr_t)"de", .len = 2 },
		{ .fd = self->b, .flags = USEL_MOVE_SEND, .addr = (uintptr_t)"f", .len = 1 },
		{ .fd = file, .addr = (uintptr_t)in[0], .len = 1 },
		{ .fd = -1, .addr = (uintptr_t)in[0], .len = 1 },
		{ .fd = self->a, .flags = 8, .addr = (uintptr_t)in[0], .len = 1 },
		{ .fd = self->a, .flags = USEL_MOVE_MORE, .addr = (uintptr_t)in[0], .len = 1 },
		{ .fd = self->a, .flags = USEL_MOVE_SEND, .addr = 8, .len = 1 },
		{ .fd = gone, .flags = USEL_MOVE_SEND, .addr = (uintptr_t)"x", .len = 1 },
		{ .fd = gone, .addr = (uintptr_t)in[0], .len = 1 },
	};
	static const int said[] = { 3, 2, 1, -ENOTSOCK, -EBADF, -EINVAL, -EINVAL, -EFAULT, -EPIPE,
				    -ENOTCONN };
	struct usel_moves all = { .moves = (uintptr_t)m, .nr = 10 };
	int dev = set_of_flags(USEL_SETUP_EDGES), bare = open(USEL_DEVICE, O_RDWR);
	int status;
	pid_t pid;

	ASSERT_EQ(10, ioctl(dev, USEL_MOVE, &all));
	for (i = 0; i < 10; i++)
		ASSERT_EQ(said[i], m[i].result) {
			TH_LOG("move %d", i);
		}
	ASSERT_TRUE(WAIT(truth(self->b) & POLLIN && truth(self->a) & POLLIN));
	/* More than are copied at a time; a receive that finds nothing is not waited for. */
	for (i = 0; i < 20; i++)
		m[i] = (struct usel_move){ .fd = self->b, .addr = (uintptr_t)in[i % 3], .len = 1 };
	m[19].fd = self->a;
	m[19].addr = (uintptr_t)in[3];
	m[19].len = 8;
	ASSERT_EQ(20, uselect_move(m, 20));
	for (i = 0; i < 19; i++)
		ASSERT_EQ(i < 3 ? 1 : -EAGAIN, m[i].result);
	ASSERT_EQ(3, m[19].result);
	ASSERT_STREQ("a", in[0]);
	ASSERT_STREQ("c", in[2]);
	ASSERT_STREQ("def", in[3]);
	ASSERT_EQ(1, uselect_move(m, 1));
	ASSERT_EQ(-EAGAIN, m[0].result);
	ASSERT_EQ(0, uselect_move(NULL, 0));
	ASSERT_EQ(-1, uselect_move(m, USEL_MOVES_MAX + 1));
	ASSERT_EQ(EINVAL, errno);
	all.nr = USEL_MOVES_MAX + 1;
	ASSERT_EQ(-1, ioctl(dev, USEL_MOVE, &all));
	ASSERT_EQ(EINVAL, errno);
	all.nr = 1;
	ASSERT_EQ(-1, ioctl(bare, USEL_MOVE, &all));
	ASSERT_EQ(EINVAL, errno);
	all.reserved = 1;
	ASSERT_EQ(-1, ioctl(dev, USEL_MOVE, &all));
	ASSERT_EQ(EINVAL, errno);
	all.reserved = 0;
	all.moves = 8;
	ASSERT_EQ(-1, ioctl(dev, USEL_MOVE, &all));
	ASSERT_EQ(EFAULT, errno);
	pid = fork();
	if (!pid)
		_exit(filtered(self->a));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
}

/* No more is sent than can be said to have been, but for one. */
TEST_F(edges, moves_end_where_the_list_cannot_be_written)
{
	int page = getpagesize(), i, got;
	struct usel_moves all = { .nr = 6 };
	struct usel_move *m;
	char *pages;

	pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, pages);
	m = (struct usel_move *)(pages + page) - 3;
	for (i = 0; i < 6; i++)
		m[i] = (struct usel_move){ .fd = self->a, .flags = USEL_MOVE_SEND,
					   .addr = (uintptr_t)"abcdef" + i, .len = 1, };
	ASSERT_EQ(0, mprotect(pages + page, page, PROT_READ));
	all.moves = (uintptr_t)m;
	ASSERT_EQ(3, ioctl(set_of_flags(USEL_SETUP_EDGES), USEL_MOVE, &all));
	for (i = 0; i < 3; i++)
		ASSERT_EQ(1, m[i].result);
	ASSERT_TRUE(WAIT(recv(self->b, self->buf, 9, MSG_PEEK) >= 4));
	usleep(100000);
	got = recv(self->b, self->buf, 9, 0);
	ASSERT_EQ(4, got);
}

/* The program has closed what it did not know of, and has a file of its own there by now. */
static int closed_all(int a, bool reuse)
{
	struct usel_move two[2] = {
		{ .fd = a, .flags = USEL_MOVE_SEND, .addr = (uintptr_t)"x", .len = 1 },
		{ .fd = a, .flags = USEL_MOVE_SEND, .addr = (uintptr_t)"x", .len = 1 },
	};
	int fd;

	if (uselect_init_edges())
		return 1;
	for (fd = 3; fd < 1024; fd++)
		if (fd != a)
			syscall(SYS_close, fd);
	for (fd = 0; reuse && fd < 1020;)
		fd = open("/dev/null", O_RDWR);
	if (uselect_move(two, 2) != 2 || two[0].result != 1 || two[1].result != 1)
		return 2;
	return 0;
}

TEST_F(edges, moves_go_without_the_set_that_was_closed)
{
	int i, status;
	pid_t pid;

	for (i = 0; i < 2; i++) {
		pid = fork();
		if (!pid)
			_exit(closed_all(self->a, i));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
	}
}

TEST_HARNESS_MAIN
