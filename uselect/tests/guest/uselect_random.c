// SPDX-License-Identifier: GPL-2.0
// timeout: 120
// cpus: 2
/*
 * The region says of each socket what poll(2) says, whatever happened to it. USELECT_ROUNDS
 * operations (default 3000) on 16 pairs, seed USELECT_SEED (default 1), IPv4 and IPv6.
 */

#include <kselftest_harness.h>
#include "uselect/tests/lib/sockets.h"

#define PAIRS	16

FIXTURE(random) {
	struct sockaddr_storage addr;
	socklen_t len;
	int lfd;
	int fds[PAIRS][2];
	uint64_t seed;
	char buf[65536];
};

FIXTURE_VARIANT(random) {
	int family;
};

FIXTURE_VARIANT_ADD(random, ipv4) {
	.family = AF_INET,
};

FIXTURE_VARIANT_ADD(random, ipv6) {
	.family = AF_INET6,
};

FIXTURE_SETUP(random)
{
	int i;

	ASSERT_EQ(0, load_module(""));
	ASSERT_EQ(0, uselect_init());
	self->lfd = listener(variant->family, &self->addr, &self->len);
	for (i = 0; i < PAIRS; i++)
		pair_on(self->lfd, &self->addr, self->len, self->fds[i]);
	self->seed = env_number("USELECT_SEED", 1);
}

FIXTURE_TEARDOWN(random)
{
}

static void act(int fd, uint32_t what, char *buf, uint64_t *seed)
{
	uint32_t size = 1 + rnd(seed) % (1 << rnd(seed) % 17);

	switch (what % 16) {
	case 0 ... 3:
		(void)!send(fd, buf, size, MSG_NOSIGNAL);
		break;
	case 4 ... 7:
		(void)!recv(fd, buf, size, 0);
		break;
	case 8:
		(void)!recv(fd, buf, 65536, MSG_PEEK);
		break;
	case 9:
		while (recv(fd, buf, 65536, 0) > 0)
			;
		break;
	case 10:
		while (send(fd, buf, 65536, MSG_NOSIGNAL) > 0)
			;
		break;
	case 11:
		(void)!send(fd, buf, 1, MSG_OOB | MSG_NOSIGNAL);
		break;
	case 12:
		(void)!recv(fd, buf, 1, MSG_OOB);
		break;
	case 13:
		setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &(int){ 1 + rnd(seed) % 3000 }, 4);
		break;
	case 14:
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){ 4096 << rnd(seed) % 6 }, 4);
		break;
	case 15:
		if (rnd(seed) % 4 == 0)
			shutdown(fd, rnd(seed) % 3);
		break;
	}
}

TEST_F_TIMEOUT(random, region_says_what_poll_says, 600)
{
	uint64_t rounds = env_number("USELECT_ROUNDS", 3000), round;
	int i, j, k, fd;

	TH_LOG("%llu rounds, seed %llu", (unsigned long long)rounds,
	       (unsigned long long)self->seed);
	for (round = 0; round < rounds; round++) {
		i = rnd(&self->seed) % PAIRS;
		j = rnd(&self->seed) % 2;
		if (rnd(&self->seed) % 100 == 0) {
			if (rnd(&self->seed) % 2)
				reset(self->fds[i][j]);
			else
				close(self->fds[i][j]);
			fd = self->fds[i][!j];
			ASSERT_TRUE(WAIT(told(fd) == truth(fd))) {
				TH_LOG("round %llu, peer closed: told %#x, poll %#x",
				       (unsigned long long)round, told(fd), truth(fd));
			}
			close(fd);
			ASSERT_TRUE(WAIT(told(self->lfd) == truth(self->lfd)));
			pair_on(self->lfd, &self->addr, self->len, self->fds[i]);
		} else {
			act(self->fds[i][j], rnd(&self->seed), self->buf, &self->seed);
		}
		for (k = 0; k < 2; k++) {
			fd = self->fds[i][k];
			ASSERT_TRUE(WAIT(told(fd) == truth(fd))) {
				TH_LOG("round %llu: told %#x, poll %#x", (unsigned long long)round,
				       told(fd), truth(fd));
			}
			ASSERT_EQ(!!(truth(fd) & (POLLIN | POLLHUP | POLLERR)),
				  get_socket_state(fd) & USEL_STATE_R);
		}
	}
}

TEST_HARNESS_MAIN
