// SPDX-License-Identifier: GPL-2.0
// held: debug not yet seen to pass
// timeout: 240
// cpus: 2
/*
 * No bit and no wakeup is lost between two CPUs. Two threads throw a byte back and forth over one
 * connection, each asleep in the wait under test when it is not its turn, so that every round is
 * an arrival somewhere around the moment of falling asleep. A lost one stops the game, which an
 * alarm notices. USELECT_ROUNDS (default 1000; 10000000 for the long run), USELECT_SEED (1).
 */

#include <kselftest_harness.h>
#include <pthread.h>
#include <sched.h>
#include "uselect/tests/lib/sockets.h"

enum wait { BY_SELECT, BY_POLL, BY_LEVEL, BY_EDGE, BY_BITS };

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

static void *play(void *arg)
{
	struct player *p = arg;
	volatile unsigned int spin;
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
	while (p->done < p->rounds) {
		if (!wait_once(p))
			break;
		if (recv(p->fd, &c, 1, MSG_DONTWAIT) != 1) {
			p->empty++;
			continue;
		}
		for (spin = rnd(&p->seed) % 2000; spin; spin--)
			;
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
	uint64_t rounds = env_number("USELECT_ROUNDS", 1000), seed = env_number("USELECT_SEED", 1);
	struct player players[2] = {
		{ .fd = self->fds[0], .cpu = 0, .how = variant->how, .rounds = rounds, .seed = seed },
		{ .fd = self->fds[1], .cpu = 1, .how = variant->how, .rounds = rounds,
		  .seed = seed + 1 },
	};
	uint64_t seen = 0, now;
	pthread_t threads[2];
	double moved;
	int i;

	for (i = 0; i < 2; i++) {
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
			TH_LOG("stopped after %llu of %llu passes: told %#x/%#x, poll %#x/%#x",
			       (unsigned long long)seen, (unsigned long long)(2 * rounds),
			       told(self->fds[0]), told(self->fds[1]), truth(self->fds[0]),
			       truth(self->fds[1]));
		}
	} while (now < 2 * rounds);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	TH_LOG("%llu rounds, seed %llu; ready and nothing there: %llu", (unsigned long long)rounds,
	       (unsigned long long)seed,
	       (unsigned long long)(players[0].empty + players[1].empty));
}

TEST_HARNESS_MAIN
