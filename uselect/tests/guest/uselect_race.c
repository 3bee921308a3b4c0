// SPDX-License-Identifier: GPL-2.0
// long: debug it takes up to three minutes there
// timeout: 240
// cpus: 2
/*
 * No bit and no wakeup is lost between two CPUs. Two threads throw a byte back and forth over one
 * connection, each asleep in the wait under test when it is not its turn, so that every pass is
 * an arrival somewhere around the moment of falling asleep. A lost one stops the game, which an
 * alarm notices. For each way to wait USELECT_ROUNDS arrivals (default 2000; 10000000 for the long
 * run), or as many as fit into USELECT_SECONDS. USELECT_SEED (1).
 */

#include <kselftest_harness.h>
#include <pthread.h>
#include <sched.h>
#include "uselect/tests/lib/sockets.h"

enum wait { BY_SELECT, BY_POLL, BY_LEVEL, BY_EDGE, BY_BITS };

/* Time is over. */
static _Atomic bool stop;

struct player {
	int fd;
	int cpu;
	enum wait how;
	uint64_t rounds;
	uint64_t seed;
	uint64_t done;
	uint64_t empty;
	struct uselect_loop *loop;
};

static bool wait_once(struct player *p)
{
	unsigned long set[USELECT_WORDS(1024)] = { 0 };
	struct pollfd pfd = { .fd = p->fd, .events = POLLIN };
	struct epoll_event ev;

	switch (p->how) {
	case BY_SELECT:
		uselect_fd_set(p->fd, set);
		return uselect(p->fd + 1, (fd_set *)set, NULL, NULL, NULL) == 1;
	case BY_POLL:
		return uselect_poll(&pfd, 1, -1) == 1;
	case BY_LEVEL:
	case BY_EDGE:
		return uselect_loop_wait(p->loop, &ev, 1, -1) == 1;
	case BY_BITS:
		while (!(get_socket_state(p->fd) & USEL_STATE_R))
			sched_yield();
		return true;
	}
	return false;
}

/* From none to longer than it takes to fall asleep, short ones more often. */
static void delay(uint64_t *seed)
{
	volatile unsigned int spin = rnd(seed) & ((1U << (rnd(seed) % 12)) - 1);

	for (; spin; spin--)
		;
}

static void *play(void *arg)
{
	struct player *p = arg;
	cpu_set_t cpus;
	char c;

	CPU_ZERO(&cpus);
	CPU_SET(p->cpu, &cpus);
	pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
	if (p->how == BY_LEVEL || p->how == BY_EDGE) {
		p->loop = uselect_loop_new();
		if (!p->loop || uselect_loop_add(p->loop, p->fd,
						 EPOLLIN | (p->how == BY_EDGE ? EPOLLET : 0), 0))
			return NULL;
	}
	while (p->done < p->rounds && !stop) {
		if (!wait_once(p))
			break;
		if (recv(p->fd, &c, 1, MSG_DONTWAIT) != 1) {
			p->empty++;
			continue;
		}
		delay(&p->seed);
		if (send(p->fd, &c, 1, MSG_NOSIGNAL) != 1)
			break;
		p->done++;
	}
	uselect_loop_free(p->loop);
	return NULL;
}

FIXTURE(race) {
	int fds[2];
};

FIXTURE_VARIANT(race) {
	enum wait how;
};

FIXTURE_VARIANT_ADD(race, select) { .how = BY_SELECT, };
FIXTURE_VARIANT_ADD(race, poll) { .how = BY_POLL, };
FIXTURE_VARIANT_ADD(race, level) { .how = BY_LEVEL, };
FIXTURE_VARIANT_ADD(race, edge) { .how = BY_EDGE, };
FIXTURE_VARIANT_ADD(race, bits) { .how = BY_BITS, };

FIXTURE_SETUP(race)
{
	ASSERT_EQ(0, load_module(""));
	ASSERT_EQ(0, uselect_init());
	pair(AF_INET, self->fds);
}

FIXTURE_TEARDOWN(race)
{
}

TEST_F_TIMEOUT(race, no_wakeup_is_lost, 36000)
{
	uint64_t rounds = env_number("USELECT_ROUNDS", 2000), seed = env_number("USELECT_SEED", 1);
	uint64_t seconds = env_number("USELECT_SECONDS", 0);
	double until = now_s() + seconds, moved;
	struct player players[2];
	uint64_t seen = 0, now;
	pthread_t threads[2];
	int i;

	for (i = 0; i < 2; i++) {
		players[i] = (struct player){
			.fd = self->fds[i], .cpu = i, .how = variant->how, .seed = seed + i,
			.rounds = seconds ? UINT64_MAX : rounds / 2,
		};
		setsockopt(self->fds[i], IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
		pthread_create(&threads[i], NULL, play, &players[i]);
	}
	ASSERT_EQ(1, send(self->fds[0], "x", 1, 0));
	moved = now_s();
	do {
		usleep(20000);
		now = __atomic_load_n(&players[0].done, __ATOMIC_RELAXED) +
		      __atomic_load_n(&players[1].done, __ATOMIC_RELAXED);
		if (now != seen)
			moved = now_s();
		seen = now;
		ASSERT_GT(WAIT_S, now_s() - moved) {
			TH_LOG("stopped after %llu arrivals: told %#x/%#x, poll %#x/%#x",
			       (unsigned long long)seen, told(self->fds[0]), told(self->fds[1]),
			       truth(self->fds[0]), truth(self->fds[1]));
		}
	} while (seconds ? now_s() < until : now < rounds / 2 * 2);
	/* Who waits for its turn is let go. */
	stop = true;
	for (i = 0; i < 2; i++)
		send(self->fds[i], "x", 1, MSG_NOSIGNAL);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	now = players[0].done + players[1].done;
	TH_LOG("%llu arrivals, seed %llu; ready and nothing there: %llu", (unsigned long long)now,
	       (unsigned long long)seed,
	       (unsigned long long)(players[0].empty + players[1].empty));
}

TEST_HARNESS_MAIN
