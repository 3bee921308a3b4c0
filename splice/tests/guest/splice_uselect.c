// SPDX-License-Identifier: GPL-2.0
// long: debug it takes up to three minutes there
// timeout: 180
// cpus: 2
/*
 * uselect.ko and sksplice.ko on the same sockets: a program that looks at nothing but its region
 * sees what poll(2) would say of a spliced socket, whichever of the two came to it first; and both
 * modules go and come in either order under load. FLT_ROUNDS (6), FLT_TRANSFERS (100), FLT_SEED;
 * fewer on the debug kernel.
 */

#include <kselftest_harness.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <flotilla/uselect.h>
#include "splice/lib/sksplice.h"
#include "splice/tests/lib/pattern.h"
#include "uselect/tests/lib/sockets.h"

#define SEED	20261121
#define MOST	(1 << 17)

/* server - source [program] sink - client */
struct proxy {
	int server;
	int source;
	int sink;
	int client;
};

static void proxy_open(struct proxy *p, bool mixed)
{
	int fds[2];

	pair(mixed ? AF_INET6 : AF_INET, fds);
	p->server = fds[0];
	p->source = fds[1];
	pair(AF_INET, fds);
	p->client = fds[0];
	p->sink = fds[1];
}

static int insert(const char *name)
{
	char command[300];

	snprintf(command, sizeof(command), "[ -d /sys/module/%s ] || insmod $FLT_MODULES/%s.ko", name,
		 name);
	return system(command);
}

static int extract(const char *name)
{
	char command[100];

	snprintf(command, sizeof(command), "rmmod %s 2>/dev/null", name);
	return system(command);
}

static int insert_both(void)
{
	return insert("flotilla") || insert("uselect") || insert("sksplice");
}

static int start(int dev, const struct proxy *p, uint32_t flags, uint64_t limit, uint32_t min2read)
{
	struct ssp_splice req = {
		.flags = flags | SSP_LIMIT | SSP_AUTORELEASE,
		.fd0 = p->source,
		.fd1 = p->sink,
		.limit = limit,
		.min2read = min2read,
	};

	return sksplice_start(dev, &req);
}

static bool can_write(int fd)
{
	return get_socket_state(fd) & USEL_STATE_W;
}

static bool can_read(int fd)
{
	return get_socket_state(fd) & USEL_STATE_R;
}

/* The region says of both what a system call says. */
static bool is_true(const struct proxy *p)
{
	return WAIT(told(p->source) == truth(p->source) && told(p->sink) == truth(p->sink));
}

static bool send_all(int fd, const unsigned char *bytes, size_t len)
{
	return WAIT(({
		ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);

		if (n > 0) {
			bytes += n;
			len -= n;
		}
		!len;
	}));
}

static bool recv_same(int fd, const unsigned char *bytes, size_t len)
{
	static unsigned char in[MOST];
	bool same = true;

	return WAIT(({
		ssize_t n = recv(fd, in, len < MOST ? len : MOST, 0);

		if (n > 0) {
			same = same && !memcmp(in, bytes, n);
			bytes += n;
			len -= n;
		}
		!len || !n;
	})) && same && !len;
}

FIXTURE(both)
{
	struct proxy p;
	int dev;
};

/* Which of the two layers is the upper one. */
FIXTURE_VARIANT(both)
{
	bool tracked_first;
};

FIXTURE_VARIANT_ADD(both, tracked_then_spliced)
{
	.tracked_first = true,
};

FIXTURE_VARIANT_ADD(both, spliced_then_tracked)
{
	.tracked_first = false,
};

FIXTURE_SETUP(both)
{
	ASSERT_EQ(0, insert_both());
	pattern_init(SEED);
	self->dev = sksplice_open();
	ASSERT_LE(0, self->dev);
	if (variant->tracked_first)
		ASSERT_EQ(0, uselect_init());
	proxy_open(&self->p, true);
	if (variant->tracked_first)
		return;
	/* Once spliced, a socket keeps that layer. */
	ASSERT_EQ(SSP_DONE, start(self->dev, &self->p, 0, 0, 0));
	ASSERT_EQ(0, uselect_init());
	ASSERT_EQ(0, uselect_track(self->p.source));
	ASSERT_EQ(0, uselect_track(self->p.sink));
}

FIXTURE_TEARDOWN(both)
{
	close(self->dev);
}

TEST_F(both, region_tells_the_end_of_a_transfer)
{
	struct uselect_loop *loop = uselect_loop_new();
	const struct proxy *p = &self->p;
	struct epoll_event ev[4];

	ASSERT_NE(NULL, loop);
	ASSERT_EQ(0, uselect_loop_add(loop, p->sink, EPOLLOUT, 7));
	ASSERT_TRUE(can_write(p->sink));
	ASSERT_EQ(SSP_ACTIVE, start(self->dev, p, 0, 100000, 0));
	/* At once: no packet has come or gone since. */
	EXPECT_FALSE(can_write(p->sink));
	EXPECT_FALSE(can_read(p->source));
	EXPECT_EQ(0, uselect_loop_wait(loop, ev, 4, 0));

	ASSERT_TRUE(send_all(p->server, pattern_at(1, 0), 60000));
	ASSERT_TRUE(recv_same(p->client, pattern_at(1, 0), 60000));
	EXPECT_FALSE(can_write(p->sink));
	EXPECT_FALSE(can_read(p->source));
	EXPECT_TRUE(is_true(p));

	/* The end, and ten bytes behind it that are the program's. */
	ASSERT_TRUE(send_all(p->server, pattern_at(1, 60000), 40010));
	ASSERT_EQ(1, uselect_loop_wait(loop, ev, 4, WAIT_S * 1000));
	EXPECT_EQ(7, ev[0].data.u64);
	EXPECT_EQ(EPOLLOUT, ev[0].events);
	ASSERT_TRUE(recv_same(p->client, pattern_at(1, 60000), 40000));
	EXPECT_TRUE(WAIT(can_read(p->source)));
	EXPECT_TRUE(is_true(p));
	ASSERT_TRUE(recv_same(p->source, pattern_at(1, 100000), 10));
	EXPECT_FALSE(can_read(p->source));
	uselect_loop_free(loop);
}

TEST_F(both, region_is_right_after_a_transfer_within_the_call)
{
	const struct proxy *p = &self->p;

	ASSERT_TRUE(send_all(p->server, pattern_at(2, 0), 1000));
	ASSERT_TRUE(WAIT(can_read(p->source)));
	ASSERT_EQ(SSP_DONE, start(self->dev, p, 0, 1000, 0));
	EXPECT_FALSE(can_read(p->source));
	EXPECT_TRUE(can_write(p->sink));
	ASSERT_TRUE(recv_same(p->client, pattern_at(2, 0), 1000));
	EXPECT_TRUE(is_true(p));
}

TEST_F(both, region_follows_the_copy)
{
	const struct proxy *p = &self->p;

	ASSERT_EQ(SSP_ACTIVE, start(self->dev, p, SSP_KEEPCOPY, 50000, 16384));
	ASSERT_TRUE(send_all(p->server, pattern_at(3, 0), 10000));
	ASSERT_TRUE(recv_same(p->client, pattern_at(3, 0), 10000));
	EXPECT_FALSE(can_read(p->source));
	ASSERT_TRUE(send_all(p->server, pattern_at(3, 10000), 10000));
	EXPECT_TRUE(WAIT(can_read(p->source)));
	ASSERT_TRUE(recv_same(p->source, pattern_at(3, 0), 20000));
	EXPECT_FALSE(can_read(p->source));
	EXPECT_FALSE(can_write(p->sink));

	/* All is sent, but unread. */
	ASSERT_TRUE(send_all(p->server, pattern_at(3, 20000), 30000));
	ASSERT_TRUE(recv_same(p->client, pattern_at(3, 10000), 40000));
	EXPECT_TRUE(WAIT(can_read(p->source)));
	EXPECT_FALSE(can_write(p->sink));
	EXPECT_TRUE(is_true(p));
	ASSERT_TRUE(recv_same(p->source, pattern_at(3, 20000), 30000));
	EXPECT_TRUE(WAIT(can_write(p->sink)));
	EXPECT_FALSE(can_read(p->source));
	EXPECT_TRUE(is_true(p));
}

TEST_F(both, region_tells_failures_and_the_taking_back)
{
	const struct proxy *p = &self->p;
	struct ssp_result result;

	ASSERT_EQ(SSP_ACTIVE, start(self->dev, p, SSP_KEEPCOPY, 50000, 0));
	ASSERT_TRUE(send_all(p->server, pattern_at(4, 0), 1000));
	ASSERT_TRUE(WAIT(can_read(p->source)));
	ASSERT_EQ(0, sksplice_end(self->dev, p->source, p->sink, SSP_DISCARD, &result));
	EXPECT_FALSE(can_read(p->source));
	EXPECT_TRUE(WAIT(can_write(p->sink)));
	ASSERT_TRUE(recv_same(p->client, pattern_at(4, 0), 1000));
	EXPECT_TRUE(is_true(p));

	ASSERT_EQ(SSP_ACTIVE, start(self->dev, p, 0, 50000, 0));
	EXPECT_FALSE(can_write(p->sink));
	reset(p->server);
	EXPECT_TRUE(WAIT(can_write(p->sink) && can_read(p->source)));
	EXPECT_TRUE(is_true(p));
}

/* --- under load --- */

struct shared {
	uint64_t transfers;	/* that were whole and right */
	uint64_t spliced;
	uint64_t tracked;
	uint64_t wrong;
	bool stop;
};

static void add(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static void is_wrong(struct shared *shared, const char *what, uint64_t at, uint64_t of)
{
	printf("# %s at %llu of %llu, errno %d\n", what, (unsigned long long)at,
	       (unsigned long long)of, errno);
	fflush(stdout);
	add(&shared->wrong);
}

/* What the module may answer while it is going: then the transfer is made at user level. */
static int try_start(const struct proxy *p, uint32_t flags, uint64_t limit)
{
	int dev = sksplice_open(), ret;

	if (dev < 0)
		return dev;
	ret = start(dev, p, flags, limit, 0);
	close(dev);
	return ret;
}

/**
 * struct transfer - an answer on its way
 * @key: which bytes
 * @size: how many
 * @sent, @got: by the server, by the client
 * @read: by the program: the copy, or to pass it on
 * @passed: what of that was written to the client
 */
struct transfer {
	uint64_t key;
	size_t size;
	size_t sent;
	size_t got;
	size_t read;
	size_t passed;
};

/* As much as there is of [*at, upto), compared; false: wrong. */
static bool take(int fd, const struct transfer *t, size_t *at, size_t upto)
{
	static unsigned char in[1 << 16];
	size_t most = upto - *at < sizeof(in) ? upto - *at : sizeof(in);
	ssize_t n = most ? recv(fd, in, most, 0) : 0;

	if (n < 0)
		return errno == EAGAIN;
	if (memcmp(in, pattern_at(t->key, *at), n) || (most && !n))
		return false;
	*at += n;
	return true;
}

static void give(int fd, const struct transfer *t, size_t *at, size_t upto)
{
	size_t most = upto - *at < 1 << 16 ? upto - *at : 1 << 16;
	ssize_t n = most ? send(fd, pattern_at(t->key, *at), most, MSG_NOSIGNAL) : 0;

	if (n > 0)
		*at += n;
}

/* One answer, spliced when the module is there. Whether the program is tracked: look at the region. */
static bool transfer(const struct proxy *p, struct shared *shared, uint64_t *seed, bool tracked)
{
	struct transfer t = { .key = rnd(seed), .size = 1 + rnd(seed) % MOST };
	bool copy = rnd(seed) % 3 == 0;
	double until = now_s() + WAIT_S;
	int status;

	if (rnd(seed) % 2)
		give(p->server, &t, &t.sent, 1 + rnd(seed) % t.size);
	status = try_start(p, copy ? SSP_KEEPCOPY : 0, t.size);
	if (status >= 0)
		add(&shared->spliced);
	while (t.got < t.size || (copy && status >= 0 && t.read < t.size)) {
		bool early = t.sent < t.size;

		if (tracked && early && status == SSP_ACTIVE && can_write(p->sink)) {
			is_wrong(shared, "told the end too early", t.sent, t.size);
			return false;
		}
		give(p->server, &t, &t.sent, t.size);
		if ((status < 0 || copy) && !take(p->source, &t, &t.read, t.size)) {
			is_wrong(shared, "wrong at the program", t.read, t.size);
			return false;
		}
		if (status < 0)
			give(p->sink, &t, &t.passed, t.read);
		if (!take(p->client, &t, &t.got, t.size)) {
			is_wrong(shared, "wrong at the client", t.got, t.size);
			return false;
		}
		if (now_s() > until) {
			is_wrong(shared, "stalled", t.got, t.size);
			return false;
		}
		sched_yield();
	}
	if (!WAIT(tracked ? can_write(p->sink) : truth(p->sink) & POLLOUT)) {
		is_wrong(shared, "never told the end", t.got, t.size);
		return false;
	}
	add(&shared->transfers);
	return true;
}

/* A process for a few transfers on connections that outlive it, registered when it can be. */
static bool batch(const struct proxy *p, struct shared *shared, uint64_t *seed)
{
	bool tracked = rnd(seed) % 2 && !uselect_init() && !uselect_track(p->source) &&
		       !uselect_track(p->sink);
	int i, nr = 1 + rnd(seed) % 8;

	if (tracked)
		add(&shared->tracked);
	for (i = 0; i < nr; i++)
		if (!transfer(p, shared, seed, tracked))
			return false;
	return true;
}

static void keeper(struct shared *shared, uint64_t seed)
{
	struct proxy p;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	proxy_open(&p, seed % 2);
	while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED)) {
		uint64_t once = seed += 1000;
		int status;
		pid_t pid = fork();

		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			_exit(!batch(&p, shared, &once));
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
			add(&shared->wrong);
			return;
		}
	}
}

static bool goes_on(struct shared *shared, uint64_t *counter, uint64_t by)
{
	uint64_t before = __atomic_load_n(counter, __ATOMIC_RELAXED);

	return WAIT(__atomic_load_n(counter, __ATOMIC_RELAXED) >= before + by || shared->wrong) &&
	       !shared->wrong;
}

/* A fixture for its place: the last test unloads what the others have loaded. */
FIXTURE(load)
{
	struct shared *shared;
};

FIXTURE_SETUP(load)
{
	self->shared = mmap(NULL, sizeof(*self->shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->shared);
	ASSERT_EQ(0, insert_both());
}

FIXTURE_TEARDOWN(load)
{
}

TEST_F(load, modules_go_in_either_order)
{
	int rounds = rounds_of("FLT_ROUNDS", 6, 2), i, status;
	uint64_t seed = env_number("FLT_SEED", SEED);
	struct shared *shared = self->shared;
	const char *names[] = { "uselect", "sksplice" };
	pid_t pids[2];

	pattern_init(seed);
	for (i = 0; i < 2; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			keeper(shared, seed + i);
			_exit(0);
		}
	}
	for (i = 0; i < rounds; i++) {
		ASSERT_TRUE(goes_on(shared, &shared->tracked, 2));
		ASSERT_TRUE(goes_on(shared, &shared->spliced, 4));
		ASSERT_TRUE(WAIT(!extract(names[i % 2])));
		ASSERT_TRUE(goes_on(shared, &shared->transfers, 4));
		ASSERT_TRUE(WAIT(!extract(names[!(i % 2)])));
		ASSERT_TRUE(goes_on(shared, &shared->transfers, 4));
		ASSERT_EQ(0, insert(names[i / 2 % 2]));
		ASSERT_TRUE(goes_on(shared, &shared->transfers, 4));
		ASSERT_EQ(0, insert(names[!(i / 2 % 2)]));
	}
	ASSERT_TRUE(goes_on(shared, &shared->transfers, rounds_of("FLT_TRANSFERS", 100, 10)));
	__atomic_store_n(&shared->stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(pids[i], waitpid(pids[i], &status, 0));
		EXPECT_EQ(0, status);
	}
	EXPECT_EQ(0, shared->wrong);
	EXPECT_TRUE(WAIT(!extract("sksplice")));
	EXPECT_TRUE(WAIT(!extract("uselect")));
	TH_LOG("%d rounds, seed %llu: %llu transfers, %llu spliced; %llu tracked batches", rounds,
	       (unsigned long long)seed, (unsigned long long)shared->transfers,
	       (unsigned long long)shared->spliced, (unsigned long long)shared->tracked);
}

TEST_HARNESS_MAIN
