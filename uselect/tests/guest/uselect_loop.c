// SPDX-License-Identifier: GPL-2.0
// timeout: 120
// cpus: 2
/* The event list and uselect_poll() do what epoll and poll() do. */

#include <kselftest_harness.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include "uselect/tests/lib/sockets.h"

FIXTURE(loop) {
	struct uselect_loop *loop;
	struct epoll_event ev[64];
	int a, b;
	char buf[65536];
};

FIXTURE_SETUP(loop)
{
	int fds[2];

	ASSERT_EQ(0, load_module(""));
	ASSERT_EQ(0, uselect_init_bytes());
	pair(AF_INET, fds);
	self->a = fds[0];
	self->b = fds[1];
	self->loop = uselect_loop_new();
	ASSERT_NE(NULL, self->loop);
}

FIXTURE_TEARDOWN(loop)
{
	uselect_loop_free(self->loop);
}

#define LOOP(ms)	uselect_loop_wait(self->loop, self->ev, 64, ms)

TEST_F(loop, level_repeats_until_it_is_read)
{
	ASSERT_EQ(0, uselect_loop_add(self->loop, self->b, EPOLLIN, 77));
	ASSERT_EQ(0, LOOP(0));
	ASSERT_EQ(3, send(self->a, "abc", 3, 0));
	ASSERT_EQ(1, LOOP(WAIT_S * 1000));
	ASSERT_EQ(77, self->ev[0].data.u64);
	ASSERT_EQ(EPOLLIN, self->ev[0].events);
	ASSERT_EQ(1, LOOP(0));
	ASSERT_EQ(1, recv(self->b, self->buf, 1, 0));
	ASSERT_EQ(1, LOOP(-1));
	ASSERT_EQ(2, recv(self->b, self->buf, 5, 0));
	ASSERT_EQ(0, LOOP(0));
	ASSERT_EQ(0, LOOP(20));
}

TEST_F(loop, edge_comes_once_for_each_arrival)
{
	ASSERT_EQ(0, uselect_loop_add(self->loop, self->b, EPOLLIN | EPOLLET, 5));
	ASSERT_EQ(1, send(self->a, "a", 1, 0));
	ASSERT_EQ(1, LOOP(WAIT_S * 1000));
	ASSERT_EQ(0, LOOP(20));
	ASSERT_EQ(1, send(self->a, "b", 1, 0));
	ASSERT_EQ(1, LOOP(WAIT_S * 1000));
	ASSERT_EQ(0, LOOP(0));
	ASSERT_EQ(2, recv(self->b, self->buf, 5, 0));
	ASSERT_EQ(0, LOOP(0));
}

TEST_F(loop, oneshot_waits_to_be_armed)
{
	ASSERT_EQ(0, uselect_loop_add(self->loop, self->b, EPOLLIN | EPOLLONESHOT, 5));
	ASSERT_EQ(1, send(self->a, "a", 1, 0));
	ASSERT_EQ(1, LOOP(WAIT_S * 1000));
	ASSERT_EQ(0, LOOP(20));
	ASSERT_EQ(0, uselect_loop_mod(self->loop, self->b, EPOLLIN | EPOLLONESHOT, 6));
	ASSERT_EQ(1, LOOP(0));
	ASSERT_EQ(6, self->ev[0].data.u64);
}

TEST_F(loop, errors_are_those_of_epoll)
{
	int fd = open("/proc/self/stat", O_RDONLY), closed = dup(fd);

	close(closed);
	ASSERT_EQ(0, uselect_loop_add(self->loop, self->b, EPOLLIN, 0));
	ASSERT_EQ(-1, uselect_loop_add(self->loop, self->b, EPOLLIN, 0));
	ASSERT_EQ(EEXIST, errno);
	ASSERT_EQ(-1, uselect_loop_mod(self->loop, self->a, EPOLLIN, 0));
	ASSERT_EQ(ENOENT, errno);
	ASSERT_EQ(-1, uselect_loop_del(self->loop, self->a));
	ASSERT_EQ(ENOENT, errno);
	ASSERT_EQ(-1, uselect_loop_add(self->loop, closed, EPOLLIN, 0));
	ASSERT_EQ(EBADF, errno);
	/* Its bit means something else in the region. */
	ASSERT_EQ(-1, uselect_loop_mod(self->loop, self->b, EPOLLIN | EPOLLEXCLUSIVE, 0));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(0, uselect_loop_del(self->loop, self->b));
	ASSERT_EQ(0, uselect_loop_add(self->loop, self->b, EPOLLIN, 0));
}

TEST_F(loop, closed_descriptor_is_removed_by_itself)
{
	int fds[2], old = self->b;

	ASSERT_EQ(0, uselect_loop_add(self->loop, self->b, EPOLLIN, 1));
	ASSERT_EQ(1, send(self->a, "x", 1, 0));
	ASSERT_TRUE(WAIT(get_socket_state(self->b) & USEL_STATE_R));
	close(self->b);
	ASSERT_EQ(0, LOOP(0));
	pair(AF_INET6, fds);
	/* Another has the number now, with data, and is nobody's interest. */
	if (fds[0] != old)
		ASSERT_EQ(old, fcntl(fds[0], F_DUPFD, old));
	ASSERT_EQ(1, send(fds[1], "x", 1, 0));
	ASSERT_TRUE(WAIT(truth(fds[0]) & POLLIN));
	ASSERT_EQ(0, LOOP(20));
	ASSERT_EQ(0, uselect_loop_add(self->loop, old, EPOLLIN, 2));
	ASSERT_EQ(1, LOOP(0));
	ASSERT_EQ(2, self->ev[0].data.u64);
}

TEST_F(loop, what_is_not_tracked_comes_too)
{
	int pipes[2], i, seen = 0, n, k;

	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ(0, uselect_loop_add(self->loop, pipes[0], EPOLLIN, 1));
	ASSERT_EQ(0, uselect_loop_add(self->loop, self->b, EPOLLIN, 2));
	ASSERT_EQ(1, write(pipes[1], "x", 1));
	ASSERT_EQ(1, LOOP(WAIT_S * 1000));
	ASSERT_EQ(1, self->ev[0].data.u64);
	ASSERT_EQ(1, send(self->a, "x", 1, 0));
	ASSERT_TRUE(WAIT(get_socket_state(self->b) & USEL_STATE_R));
	for (i = 0; i < 40; i++) {
		n = LOOP(0);
		for (k = 0; k < n; k++)
			seen |= 1 << self->ev[k].data.u64;
	}
	ASSERT_EQ(6, seen);
}

TEST_F(loop, nests_under_epoll)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(0);

	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, uselect_loop_fd(self->loop), &ev));
	ASSERT_EQ(0, epoll_wait(ep, &ev, 1, 0));
	ASSERT_EQ(0, uselect_loop_add(self->loop, self->b, EPOLLIN, 2));
	ASSERT_EQ(0, epoll_wait(ep, &ev, 1, 0));
	ASSERT_EQ(1, send(self->a, "x", 1, 0));
	ASSERT_EQ(1, epoll_wait(ep, &ev, 1, WAIT_S * 1000));
	ASSERT_EQ(1, LOOP(0));
	/* Not read: it is still there to be said. */
	ASSERT_EQ(1, epoll_wait(ep, &ev, 1, WAIT_S * 1000));
	ASSERT_EQ(1, recv(self->b, self->buf, 1, 0));
	ASSERT_EQ(0, LOOP(0));
	ASSERT_EQ(0, epoll_wait(ep, &ev, 1, 0));
	/* Ready when it is added. */
	ASSERT_EQ(0, uselect_loop_add(self->loop, self->a, EPOLLOUT, 3));
	ASSERT_EQ(1, epoll_wait(ep, &ev, 1, WAIT_S * 1000));
	ASSERT_EQ(1, LOOP(0));
	ASSERT_EQ(3, self->ev[0].data.u64);
}

static void *take_one(void *loop)
{
	struct epoll_event ev;

	return uselect_loop_wait(loop, &ev, 1, WAIT_S * 1000) == 1 ? (void *)ev.data.u64 : NULL;
}

/* The loop's descriptor is watched by edges until two sleep there: each must be told then. */
TEST_F(loop, two_that_sleep_get_one_each)
{
	pthread_t threads[2];
	uint64_t seen, turn;
	void *got;
	int c[2], i;

	pair(AF_INET, c);
	ASSERT_EQ(0, uselect_loop_add(self->loop, self->b, EPOLLIN | EPOLLET, 1));
	ASSERT_EQ(0, uselect_loop_add(self->loop, c[1], EPOLLIN | EPOLLET, 2));
	ASSERT_EQ(0, LOOP(1));
	for (turn = 0; turn < 100; turn++) {
		for (i = 0; i < 2; i++)
			ASSERT_EQ(0, pthread_create(&threads[i], NULL, take_one, self->loop));
		usleep(turn % 4 * 1000);
		ASSERT_EQ(1, send(self->a, "x", 1, 0));
		ASSERT_EQ(1, send(c[0], "x", 1, 0));
		for (i = 0, seen = 0; i < 2; i++) {
			ASSERT_EQ(0, pthread_join(threads[i], &got));
			seen |= (uint64_t)got;
		}
		ASSERT_EQ(3, seen) {
			TH_LOG("turn %llu", (unsigned long long)turn);
		}
		ASSERT_EQ(1, recv(self->b, self->buf, 5, 0));
		ASSERT_EQ(1, recv(c[1], self->buf, 5, 0));
	}
	ASSERT_EQ(0, LOOP(0));
}

/* Who sleeps on what is tracked alone is told when there is something else to look at. */
TEST_F(loop, sleeper_hears_of_what_is_added_meanwhile)
{
	pthread_t thread;
	int pipes[2], turn;
	void *got;

	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ(1, write(pipes[1], "x", 1));
	ASSERT_EQ(0, uselect_loop_add(self->loop, self->b, EPOLLIN | EPOLLET, 1));
	ASSERT_EQ(0, LOOP(1));
	for (turn = 0; turn < 100; turn++) {
		ASSERT_EQ(0, pthread_create(&thread, NULL, take_one, self->loop));
		usleep(turn % 4 * 1000);
		ASSERT_EQ(0, uselect_loop_add(self->loop, pipes[0], EPOLLIN, 7));
		ASSERT_EQ(0, pthread_join(thread, &got));
		ASSERT_EQ((void *)7, got) {
			TH_LOG("turn %d", turn);
		}
		ASSERT_EQ(0, uselect_loop_del(self->loop, pipes[0]));
		/* And what is tracked is still told of to who slept beside it. */
		ASSERT_EQ(0, pthread_create(&thread, NULL, take_one, self->loop));
		usleep(turn % 3 * 1000);
		ASSERT_EQ(1, send(self->a, "x", 1, 0));
		ASSERT_EQ(0, pthread_join(thread, &got));
		ASSERT_EQ((void *)1, got) {
			TH_LOG("turn %d", turn);
		}
		ASSERT_EQ(1, recv(self->b, self->buf, 5, 0));
	}
}

static void on_alarm(int number)
{
	(void)number;
}

TEST_F(loop, sleep_ends_with_its_time_or_a_signal)
{
	struct sigaction act = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	/* Again and again: the first may come before the sleep. */
	struct itimerval soon = { .it_value.tv_usec = 30000, .it_interval.tv_usec = 30000 };
	double begin = now_s();

	ASSERT_EQ(0, uselect_loop_add(self->loop, self->b, EPOLLIN, 1));
	ASSERT_EQ(0, LOOP(50));
	ASSERT_LE(0.05, now_s() - begin);
	ASSERT_EQ(0, sigaction(SIGALRM, &act, NULL));
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &soon, NULL));
	ASSERT_EQ(-1, LOOP(WAIT_S * 1000));
	ASSERT_EQ(EINTR, errno);
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL));
	ASSERT_EQ(1, send(self->a, "x", 1, 0));
	ASSERT_EQ(1, LOOP(WAIT_S * 1000));
}

TEST_F(loop, threshold_holds_back_until_enough_or_the_end)
{
	struct uselect_info info;

	ASSERT_EQ(0, uselect_loop_add(self->loop, self->b, EPOLLIN, 2));
	ASSERT_EQ(0, uselect_loop_threshold(self->loop, self->b, 1000));
	ASSERT_EQ(400, send(self->a, self->buf, 400, 0));
	ASSERT_TRUE(WAIT(!uselect_get_info(self->b, &info) && info.rx_bytes == 400));
	ASSERT_EQ(0, LOOP(50));
	ASSERT_EQ(700, send(self->a, self->buf, 700, 0));
	ASSERT_EQ(1, LOOP(WAIT_S * 1000));
	ASSERT_EQ(1100, recv(self->b, self->buf, 5000, 0));
	ASSERT_EQ(0, LOOP(0));
	ASSERT_EQ(10, send(self->a, self->buf, 10, 0));
	shutdown(self->a, SHUT_WR);
	ASSERT_EQ(1, LOOP(WAIT_S * 1000));
}

TEST_F(loop, window_and_round_trip_are_those_of_tcp_info)
{
	struct tcp_info ti;
	socklen_t len = sizeof(ti);
	struct uselect_info info;
	int i;

	/* An acknowledgment that comes between the two looks changes both: then once more. */
	for (i = 0; i < 60; i++) {
		ASSERT_EQ(1000, send(self->a, self->buf, 1000, 0));
		ASSERT_TRUE(WAIT(recv(self->b, self->buf, 1000, 0) > 0));
		ASSERT_EQ(0, getsockopt(self->a, IPPROTO_TCP, TCP_INFO, &ti, &len));
		ASSERT_EQ(0, uselect_get_info(self->a, &info));
		if (i >= 20 && ti.tcpi_snd_cwnd == info.snd_cwnd && ti.tcpi_rtt == info.srtt_us)
			break;
	}
	ASSERT_EQ(ti.tcpi_snd_cwnd, info.snd_cwnd);
	ASSERT_EQ(ti.tcpi_rtt, info.srtt_us);
	ASSERT_LT(0, info.tx_space);
}

TEST_F(loop, short_ring_loses_nothing)
{
	int fds[600][2], i, n, k, seen = 0;
	struct sockaddr_storage addr;
	socklen_t len;
	int lfd = listener(AF_INET, &addr, &len);

	uselect_loop_free(self->loop);
	setenv("USELECT_RING", "64", 1);
	self->loop = uselect_loop_new();
	for (i = 0; i < 400; i++) {
		pair_on(lfd, &addr, len, fds[i]);
		ASSERT_EQ(0, uselect_loop_add(self->loop, fds[i][1], EPOLLIN | EPOLLET, i));
	}
	while (LOOP(0))
		;
	for (i = 0; i < 400; i++)
		ASSERT_EQ(1, send(fds[i][0], "x", 1, 0));
	for (i = 0; i < 400; i++)
		ASSERT_TRUE(WAIT(get_socket_state(fds[i][1]) & USEL_STATE_R));
	do {
		n = LOOP(0);
		for (k = 0; k < n; k++)
			ASSERT_EQ(EPOLLIN, self->ev[k].events);
		seen += n;
	} while (n);
	ASSERT_EQ(400, seen);
}

/* Of the same descriptors, for the same events. */
static bool polls_agree(const struct pollfd *asked)
{
	struct pollfd mine[5], theirs[5];
	int k;

	memcpy(mine, asked, sizeof(mine));
	memcpy(theirs, asked, sizeof(theirs));
	if (uselect_set_option(USELECT_MAX_PASS, 1) < 0)
		return false;
	uselect_poll(mine, 5, 0);
	uselect_poll(mine, 5, 0);
	poll(theirs, 5, 0);
	if (mine[2].revents != theirs[2].revents)
		uselect_poll(mine, 5, 0);
	for (k = 0; k < 5; k++)
		if (theirs[k].revents != mine[k].revents)
			return false;
	return true;
}

TEST_F(loop, poll_answers_as_poll)
{
	uint64_t seed = env_number("USELECT_SEED", 1);
	struct pollfd asked[5];
	int i, k, pipes[2];

	ASSERT_EQ(0, pipe(pipes));
	for (i = 0; i < 500; i++) {
		switch (rnd(&seed) % 4) {
		case 0:
			(void)!send(self->a, self->buf, rnd(&seed) % 60000, MSG_NOSIGNAL);
			break;
		case 1:
			(void)!recv(self->b, self->buf, rnd(&seed) % 60000, 0);
			break;
		case 2:
			(void)!write(pipes[1], "x", rnd(&seed) % 2);
			break;
		case 3:
			nonblock(pipes[0]);
			(void)!read(pipes[0], self->buf, 1);
			break;
		}
		ASSERT_TRUE(WAIT(told(self->a) == truth(self->a) && told(self->b) == truth(self->b)));
		for (k = 0; k < 5; k++) {
			asked[k].fd = (int[]){ self->a, self->b, pipes[0], -1, self->b }[k];
			asked[k].events = rnd(&seed) & EVERY;
		}
		/* An acknowledgment may come between the two. */
		ASSERT_TRUE(WAIT(polls_agree(asked)));
	}
}

TEST_HARNESS_MAIN
