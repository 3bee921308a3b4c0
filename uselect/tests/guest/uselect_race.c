// SPDX-License-Identifier: GPL-2.0
// long: debug it takes up to three minutes there
// timeout: 240
// cpus: 2
/*
 * No bit and no wakeup is lost between two CPUs. Two threads throw a byte back and forth over one
 * connection, each asleep in the wait under test when it is not its turn, so that every pass is
 * an arrival somewhere around the moment of falling asleep. A lost one stops the game, which an
 * alarm notices. USELECT_GAMES (4) at once: a lone pair's CPUs fall idle at each pass, and under
 * emulation that is what a round costs. For each way to wait USELECT_ROUNDS arrivals (default
 * 4000; 10000000 for the long run), or as many as fit into USELECT_SECONDS. USELECT_SEED (1).
 */

#include <kselftest_harness.h>
#include <pthread.h>
#include <sched.h>
#include "uselect/tests/lib/sockets.h"

enum wait { BY_SELECT, BY_POLL, BY_LEVEL, BY_EDGE, BY_BITS };

/* Time is over. */
static _Atomic bool stop;

/* In a process that wants edges only sets come and go that want more. */
static void *turn(void *arg)
{
	uint64_t *turns = arg;

	while (!stop) {
		close(set_of_flags(0));
		++*turns;
		usleep(*turns % 7 * 100);
	}
	return NULL;
}

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

/**
 * struct game - two that throw a byte
 * @seen:  throws at the last look
 * @moved: when that was found to have grown
 */
struct game {
	int fds[2];
	struct player players[2];
	pthread_t threads[2];
	uint64_t seen;
	double moved;
};

static void game_start(struct game *g, enum wait how, uint64_t rounds, uint64_t seed)
{
	int i;

	pair(AF_INET, g->fds);
	for (i = 0; i < 2; i++) {
		g->players[i] = (struct player){
			.fd = g->fds[i], .cpu = i, .how = how, .seed = seed + i, .rounds = rounds,
		};
		setsockopt(g->fds[i], IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
		pthread_create(&g->threads[i], NULL, play, &g->players[i]);
	}
	send(g->fds[0], "x", 1, 0);
	g->moved = now_s();
}

/* False: nothing has happened for too long. */
static bool game_look(struct game *g)
{
	uint64_t now = __atomic_load_n(&g->players[0].done, __ATOMIC_RELAXED) +
		       __atomic_load_n(&g->players[1].done, __ATOMIC_RELAXED);

	if (now != g->seen)
		g->moved = now_s();
	g->seen = now;
	return now >= g->players[0].rounds * 2 || now_s() - g->moved < WAIT_S;
}

static void game_end(struct game *g)
{
	int i;

	/* Who waits for its turn is let go. */
	for (i = 0; i < 2; i++)
		send(g->fds[i], "x", 1, MSG_NOSIGNAL);
	for (i = 0; i < 2; i++)
		pthread_join(g->threads[i], NULL);
	for (i = 0; i < 2; i++)
		close(g->fds[i]);
}

FIXTURE(race) {
	struct game *games;
	uint64_t nr;
};

FIXTURE_VARIANT(race) {
	enum wait how;
	bool edges;
	bool turns;
};

FIXTURE_VARIANT_ADD(race, select) { .how = BY_SELECT, };
FIXTURE_VARIANT_ADD(race, poll) { .how = BY_POLL, };
FIXTURE_VARIANT_ADD(race, level) { .how = BY_LEVEL, };
FIXTURE_VARIANT_ADD(race, edge) { .how = BY_EDGE, };
FIXTURE_VARIANT_ADD(race, bits) { .how = BY_BITS, };
FIXTURE_VARIANT_ADD(race, edges_alone) { .how = BY_EDGE, .edges = true, };
FIXTURE_VARIANT_ADD(race, levels_among_edges) { .how = BY_LEVEL, .edges = true, .turns = true, };

FIXTURE_SETUP(race)
{
	self->nr = env_number("USELECT_GAMES", 4);
	self->games = calloc(self->nr, sizeof(*self->games));
	ASSERT_NE(NULL, self->games);
	ASSERT_EQ(0, load_module(""));
	ASSERT_EQ(0, variant->edges ? uselect_init_edges() : uselect_init());
}

FIXTURE_TEARDOWN(race)
{
	free(self->games);
}

TEST_F_TIMEOUT(race, no_wakeup_is_lost, 36000)
{
	uint64_t rounds = env_number("USELECT_ROUNDS", 4000) / 2 / self->nr;
	uint64_t seed = env_number("USELECT_SEED", 1), seconds = env_number("USELECT_SECONDS", 0);
	uint64_t arrivals = 0, empty = 0, i;
	double start = now_s();
	uint64_t turns = 0;
	pthread_t turner;
	bool playing;

	if (variant->turns)
		pthread_create(&turner, NULL, turn, &turns);
	for (i = 0; i < self->nr; i++)
		game_start(&self->games[i], variant->how, seconds ? UINT64_MAX / 2 : rounds,
			   seed + 2 * i);
	do {
		usleep(20000);
		playing = false;
		for (i = 0; i < self->nr; i++) {
			struct game *g = &self->games[i];

			ASSERT_TRUE(game_look(g)) {
				TH_LOG("stopped after %llu arrivals: told %#x/%#x, poll %#x/%#x",
				       (unsigned long long)g->seen, told(g->fds[0]),
				       told(g->fds[1]), truth(g->fds[0]), truth(g->fds[1]));
			}
			playing |= g->seen < g->players[0].rounds * 2;
		}
	} while (seconds ? now_s() < start + seconds : playing);
	stop = true;
	if (variant->turns) {
		pthread_join(turner, NULL);
		TH_LOG("%llu sets came and went", (unsigned long long)turns);
		ASSERT_LT(0, turns);
	}
	for (i = 0; i < self->nr; i++) {
		struct game *g = &self->games[i];

		game_end(g);
		arrivals += g->players[0].done + g->players[1].done;
		empty += g->players[0].empty + g->players[1].empty;
	}
	/* A receive that is under way when a set comes is not seen. */
	if (!variant->turns)
		EXPECT_EQ(0, empty) {
			TH_LOG("told for nothing");
		}
	TH_LOG("%llu arrivals in %llu games, %.0f a second, seed %llu; ready and nothing there: %llu",
	       (unsigned long long)arrivals, (unsigned long long)self->nr,
	       arrivals / (now_s() - start), (unsigned long long)seed, (unsigned long long)empty);
}

TEST_HARNESS_MAIN
