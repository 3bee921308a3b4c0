// SPDX-License-Identifier: GPL-2.0
// timeout: 240
// long: debug a minute there
// cpus: 2
/*
 * The region says of each socket what poll(2) says, whatever happened to it. USELECT_ROUNDS
 * operations (default 3000) on 16 pairs, seed USELECT_SEED (default 1), IPv4 and IPv6. And uselect()
 * answers random sets, with a descriptor in them that is not tracked, as select() does.
 *
 * Two things the kernel takes back and tells nobody; then the region says more than poll() until the
 * next call on the socket, here never less: an urgent mark, for one that has not arrived (tcp_check_urg()),
 * and readable below SO_RCVLOWAT, as it is while the window is nearly full (tcp_epollin_ready()).
 *
 * Where edges alone are wanted the region may say more of any descriptor that says so, and never
 * less; when a set comes that wants all it says what poll(2) says, and does while that is there.
 */

#include <kselftest_harness.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include "uselect/tests/lib/sockets.h"

#define PAIRS	16

FIXTURE(random) {
	struct sockaddr_storage addr;
	socklen_t len;
	int lfd;
	int fds[PAIRS][2];
	int event;
	uint64_t seed;
	const struct usel_region_head *raw;
	char buf[65536];
};

FIXTURE_VARIANT(random) {
	int family;
	bool edges;
};

FIXTURE_VARIANT_ADD(random, ipv4) {
	.family = AF_INET,
};

FIXTURE_VARIANT_ADD(random, ipv6) {
	.family = AF_INET6,
};

FIXTURE_VARIANT_ADD(random, edges_ipv4) {
	.family = AF_INET,
	.edges = true,
};

FIXTURE_VARIANT_ADD(random, edges_ipv6) {
	.family = AF_INET6,
	.edges = true,
};

FIXTURE_SETUP(random)
{
	int i;

	ASSERT_EQ(0, load_module(""));
	ASSERT_EQ(0, variant->edges ? uselect_init_edges() : uselect_init());
	if (variant->edges) {
		self->raw = raw_region();
		ASSERT_NE(NULL, self->raw);
	}
	self->lfd = listener(variant->family, &self->addr, &self->len);
	for (i = 0; i < PAIRS; i++)
		pair_on(self->lfd, &self->addr, self->len, self->fds[i]);
	self->event = eventfd(1, EFD_CLOEXEC);
	ASSERT_LE(0, self->event);
	/* What is not tracked is looked at by each other call. */
	uselect_set_option(USELECT_MAX_PASS, 1);
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

/* FIONREAD counts up to an urgent mark only. */
static bool below_lowat(int fd, bool urgent)
{
	socklen_t len = sizeof(int);
	int low = 0, bytes = 0;

	getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, &len);
	ioctl(fd, FIONREAD, &bytes);
	return bytes < low && (bytes > 0 || urgent);
}

/* NULL: bits are right at all times. */
static const struct usel_region_head *edges;

static bool agrees(int fd)
{
	uint32_t raw = edges ? raw_events(edges, fd) : 0;
	int region = edges ? (int)(raw & EVERY) : told(fd);
	int kernel = truth(fd), more = region & ~kernel;
	bool loose = raw & USEL_FD_EDGES;
	char c;

	if (region == kernel || (loose && !(kernel & ~region)))
		return true;
	if (!(kernel & ~region) && !(more & ~(POLLPRI | POLLIN | POLLRDNORM)) &&
	    (!(more & POLLIN) || below_lowat(fd, kernel & POLLPRI)))
		(void)!recv(fd, &c, 1, MSG_OOB | MSG_DONTWAIT);
	return false;
}

/* As the kernel answers the same sets; drawn by @seed, so that they are the same each time. */
static bool same_as_select(const int *fds, int nr, uint64_t seed)
{
	unsigned long sets[2][3][USELECT_WORDS(1024)] = { 0 };
	struct timeval zero[2] = { 0 };
	int maxfd = 1, i, set, n[2];
	uint32_t given = rnd(&seed);

	for (i = 0; i < nr; i++) {
		for (set = 0; set < 3; set++)
			if (rnd(&seed) % 2)
				uselect_fd_set(fds[i], sets[0][set]);
		if (fds[i] >= maxfd)
			maxfd = fds[i] + 1;
	}
	if (rnd(&seed) % 4 == 0)
		maxfd = rnd(&seed) % (maxfd + 1);
	memcpy(sets[1], sets[0], sizeof(sets[0]));
	n[0] = uselect(maxfd, given & 1 ? (fd_set *)sets[0][0] : NULL,
		       given & 2 ? (fd_set *)sets[0][1] : NULL,
		       given & 4 ? (fd_set *)sets[0][2] : NULL, &zero[0]);
	n[1] = syscall(SYS_select, maxfd, given & 1 ? sets[1][0] : NULL,
		       given & 2 ? sets[1][1] : NULL, given & 4 ? sets[1][2] : NULL, &zero[1]);
	if (n[0] == n[1] && !memcmp(sets[0], sets[1], sizeof(sets[0])))
		return true;
	for (i = 0; i < nr; i++)
		agrees(fds[i]);
	return false;
}

/* A set that wants all comes for a while. */
static bool all_agree_exactly(int lfd, int fds[PAIRS][2], char *buf, uint64_t *seed)
{
	int dev = set_of_flags(0), i, k, fd;
	bool ok = dev >= 0 && !(raw_events(edges, lfd) & USEL_FD_EDGES);

	for (i = 0; i < 2 * PAIRS && ok; i++) {
		fd = fds[i / 2][i % 2];
		for (k = 0; k < 2 && ok; k++) {
			ok = !(raw_events(edges, fd) & USEL_FD_EDGES) && WAIT(agrees(fd));
			act(fd, rnd(seed), buf, seed);
		}
		if (!ok)
			printf("# descriptor %d: told %#x, poll %#x\n", fd, raw_events(edges, fd),
			       truth(fd));
	}
	close(dev);
	return ok;
}

TEST_F(random, region_says_what_poll_says)
{
	uint64_t rounds = env_number("USELECT_ROUNDS", 3000), round;
	int all[PAIRS * 2 + 2], i, j, k, fd;
	uint64_t drawn;

	int loose = 0;

	edges = self->raw;
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
			ASSERT_TRUE(WAIT(agrees(fd))) {
				TH_LOG("round %llu, peer closed: told %#x, poll %#x",
				       (unsigned long long)round, told(fd), truth(fd));
			}
			close(fd);
			ASSERT_TRUE(WAIT(agrees(self->lfd)));
			pair_on(self->lfd, &self->addr, self->len, self->fds[i]);
		} else {
			act(self->fds[i][j], rnd(&self->seed), self->buf, &self->seed);
		}
		for (k = 0; k < 2; k++) {
			fd = self->fds[i][k];
			ASSERT_TRUE(WAIT(agrees(fd))) {
				TH_LOG("round %llu: told %#x, poll %#x", (unsigned long long)round,
				       told(fd), truth(fd));
			}
			/* Something may come between the two looks. */
			ASSERT_TRUE(WAIT(!!(told(fd) & (POLLIN | POLLHUP | POLLERR)) ==
					 (get_socket_state(fd) & USEL_STATE_R)));
			loose += edges && (raw_events(edges, fd) & USEL_FD_EDGES);
		}
		/* What the kernel's timers do is seen, too: acknowledgements, probes of a window. */
		if (rnd(&self->seed) % 200 == 0)
			usleep(250000);
		if (edges) {
			if (rnd(&self->seed) % 100 == 0)
				ASSERT_TRUE(all_agree_exactly(self->lfd, self->fds, self->buf,
							      &self->seed));
			continue;
		}
		memcpy(all, self->fds, sizeof(self->fds));
		all[PAIRS * 2] = self->lfd;
		all[PAIRS * 2 + 1] = rnd(&self->seed) % 4 ? self->lfd : self->event;
		drawn = self->seed;
		ASSERT_TRUE(WAIT(same_as_select(all, PAIRS * 2 + 2, drawn))) {
			TH_LOG("round %llu: uselect() and select() differ",
			       (unsigned long long)round);
			for (k = 0; k < PAIRS * 2 + 1; k++)
				TH_LOG("descriptor %d: told %#x, poll %#x", all[k], told(all[k]),
				       truth(all[k]));
		}
	}
	/* It was tried at all. */
	if (edges)
		ASSERT_LT(rounds / 4, loose);
}

TEST_HARNESS_MAIN
