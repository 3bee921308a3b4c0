// SPDX-License-Identifier: GPL-2.0
// timeout: 300
/* long: debug minutes there */
// cpus: 2
/*
 * Users without any right make random calls against every device and netlink family, from several
 * threads each and at once: uid 65534 as it is, the same with the groups of the devices, and as root
 * of a user namespace. The kernel must have nothing to report, nobody may hang, a bystander's
 * connection goes on, and the modules unload afterwards.
 *
 * FLT_CALLS (30000, on a debug kernel 10000; 1000000 for the long run) in all, or as many as
 * FLT_CALL_SECONDS (60, there 120) allow; FLT_SEED (by the clock) is printed and decides who does what.
 * A million calls to each device and family, of which of eleven calls at least one is to each:
 *	tools/vm/guest --mem 2G --env FLT_CALLS=11500000 --env FLT_SEED=7 -- build/tests/attack_calls
 */
#include <kselftest_harness.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/testing/tests/lib/calls.h"

#define NOBODY		65534
#define DEVICES		60000
#define THREADS		3
#define MODULES		"flotilla handoff card uselect sksplice iolite afpa afpa_memcached"

enum user { AS_NOBODY, WITH_GROUPS, ROOT_OF_ITS_OWN, USERS };

static const char *const user_names[USERS] = { "nobody", "nobody with the devices' groups", "root of a user namespace" };

/* What the processes tell each other. */
static struct shared {
	struct caller callers[USERS][THREADS];
	unsigned long echoes;
	unsigned int wrong;
	bool stop, bystander_stop;
	/* Threads that have ended. */
	unsigned int ended[USERS];
} *shared;

static unsigned long calls, seconds, slow = 1;
static uint64_t seed;

static unsigned long env(const char *name, unsigned long otherwise)
{
	const char *value = getenv(name);

	return value ? strtoul(value, NULL, 0) : otherwise;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), err;

	err = fd < 0 || write(fd, text, strlen(text)) < 0 ? -1 : 0;
	close(fd);
	return err;
}

static int lo_up(void)
{
	struct ifreq req = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), err = ioctl(fd, SIOCSIFFLAGS, &req);

	close(fd);
	return err;
}

/* Root's and a group's; the last one is for all. */
static const char *const devices[] = { "/dev/iolite", "/dev/uselect", "/dev/sksplice", "/dev/handoff" };

/* As the udev rule gives them to a group, which a guest does not have. */
static int give_devices(void)
{
	/* That of afpa to all: what CAP_NET_ADMIN guards is reached by root of a user namespace only. */
	return chown(devices[0], 0, DEVICES) || chown(devices[1], 0, DEVICES) || chown(devices[2], 0, DEVICES) ||
	       chmod("/dev/afpa", 0666);
}

static int groups(void)
{
	static const gid_t list[] = { DEVICES };

	return setgroups(1, list);
}

/* Who is in the group can open them, and nobody else: or the calls would be made to nothing. */
static bool may_open_what_he_should(enum user user)
{
	bool opens, right = true;
	int i, fd;

	for (i = 0; i < 3; i++) {
		fd = open(devices[i], O_RDWR);
		opens = fd >= 0;
		right = right && opens == (user == WITH_GROUPS);
		if (opens)
			close(fd);
	}
	return right;
}

static int become(enum user user)
{
	static const struct rlimit files = { 256, 256 }, memory = { 1ul << 42, 1ul << 42 };
	char map[32];

	if ((user == WITH_GROUPS ? groups() : setgroups(0, NULL)) || setgid(NOBODY) ||
	    setrlimit(RLIMIT_NOFILE, &files) || setrlimit(RLIMIT_AS, &memory) || setuid(NOBODY))
		return -1;
	/* After a change of user /proc/self belongs to root. */
	prctl(PR_SET_DUMPABLE, 1);
	if (user != ROOT_OF_ITS_OWN)
		return 0;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS))
		return -1;
	sprintf(map, "0 %d 1", NOBODY);
	if (write_file("/proc/self/setgroups", "deny") || write_file("/proc/self/uid_map", map) ||
	    write_file("/proc/self/gid_map", map))
		return -1;
	return lo_up();
}

static void interrupted(int number)
{
	(void)number;
}

struct task {
	enum user user;
	unsigned int thread;
};

static void *make_calls(void *arg)
{
	struct task *task = arg;
	struct caller *c = &shared->callers[task->user][task->thread];
	unsigned long most = calls / USERS / THREADS;

	calls_begin(c, seed * 1000 + task->user * 10 + task->thread);
	while (c->total < most && !__atomic_load_n(&shared->stop, __ATOMIC_RELAXED))
		calls_one(c);
	calls_end(c);
	__atomic_fetch_add(&shared->ended[task->user], 1, __ATOMIC_RELAXED);
	return NULL;
}

/* Does not return. Who blocks is woken by signals, so that only what does not hear them hangs. */
static void worker(enum user user)
{
	struct sigaction action = { .sa_handler = interrupted };
	struct task tasks[THREADS];
	pthread_t threads[THREADS];
	unsigned int i;
	int null;

	sigaction(SIGUSR1, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (become(user) || calls_init())
		_exit(1);
	if (!may_open_what_he_should(user))
		_exit(3);
	/* Random descriptors may be those of our words. */
	null = open("/dev/null", O_RDWR);
	for (i = 0; i < 3; i++)
		dup2(null, i);
	for (i = 0; i < THREADS; i++) {
		tasks[i] = (struct task){ user, i };
		if (pthread_create(&threads[i], NULL, make_calls, &tasks[i]))
			_exit(2);
	}
	while (__atomic_load_n(&shared->ended[user], __ATOMIC_RELAXED) < THREADS) {
		usleep(50000);
		for (i = 0; i < THREADS; i++)
			pthread_kill(threads[i], SIGUSR1);
	}
	_exit(0);
}

/* Somebody whom all this has nothing to do with: bytes there and back, until told to stop. */
static void bystander(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int ear = socket(AF_INET, SOCK_STREAM, 0), ends[2], i;
	struct timeval patience = { .tv_sec = 30 * slow };
	socklen_t length = sizeof(to);
	unsigned char out[1000], in[1000];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (bind(ear, (void *)&to, length) || listen(ear, 1) || getsockname(ear, (void *)&to, &length))
		_exit(1);
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(ends[0], (void *)&to, length))
		_exit(2);
	ends[1] = accept(ear, NULL, NULL);
	for (i = 0; i < 2; i++)
		setsockopt(ends[i], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	while (!__atomic_load_n(&shared->bystander_stop, __ATOMIC_RELAXED)) {
		for (i = 0; i < 2; i++) {
			memset(out, shared->echoes, sizeof(out));
			if (send(ends[i], out, sizeof(out), MSG_NOSIGNAL) != sizeof(out) ||
			    recv(ends[!i], in, sizeof(in), MSG_WAITALL) != sizeof(in) || memcmp(in, out, sizeof(in)))
				_exit(3);
		}
		shared->echoes++;
		usleep(10000);
	}
	_exit(0);
}

static unsigned long made(void)
{
	unsigned long sum = 0;
	int u, t;

	for (u = 0; u < USERS; u++)
		for (t = 0; t < THREADS; t++)
			sum += __atomic_load_n(&shared->callers[u][t].total, __ATOMIC_RELAXED);
	return sum;
}

static bool succeeded(struct __test_metadata *_metadata, enum user user, enum call_kind kind)
{
	unsigned long good = 0;
	int t;

	for (t = 0; t < THREADS; t++)
		good += shared->callers[user][t].good[kind];
	if (!good)
		TH_LOG("%s: no call of %s ever succeeded", user_names[user], call_names[kind]);
	return good;
}

static void say(struct __test_metadata *_metadata, enum user user)
{
	char line[2000];
	int at = 0, kind, t;

	for (kind = 0; kind < CALL_KINDS; kind++) {
		unsigned long count = 0, good = 0;

		for (t = 0; t < THREADS; t++) {
			count += shared->callers[user][t].made[kind];
			good += shared->callers[user][t].good[kind];
		}
		at += snprintf(line + at, sizeof(line) - at, " %s %lu/%lu", call_names[kind], good, count);
	}
	TH_LOG("%s:%s", user_names[user], line);
}

/* Whether everybody had successes with what is for all, and the member of the group with each device. */
static bool got_in(struct __test_metadata *_metadata)
{
	static const enum call_kind all[] = { CALL_GENL, CALL_CARD, CALL_HANDOFF, CALL_AFPA };
	static const enum call_kind members[] = { CALL_IOLITE, CALL_SPLICE, CALL_USELECT };
	bool in = true;
	int user;
	size_t i;

	for (user = 0; user < USERS; user++)
		for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
			in &= succeeded(_metadata, user, all[i]);
	for (i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		in &= succeeded(_metadata, WITH_GROUPS, members[i]);
	return in;
}

static void stuck(struct __test_metadata *_metadata)
{
	int u, t;

	for (u = 0; u < USERS; u++)
		for (t = 0; t < THREADS; t++)
			TH_LOG("%s, thread %d: %lu calls, last %s", user_names[u], t, shared->callers[u][t].total,
			       call_names[shared->callers[u][t].last]);
}

static bool unload(void)
{
	double end = now() + 60 * slow;

	while (now() < end) {
		if (!system("for m in afpa_memcached afpa card handoff uselect sksplice iolite flotilla; do [ ! -d /sys/module/$m ] || "
			    "rmmod $m 2>/dev/null || exit 1; done"))
			return true;
		usleep(200000);
	}
	system("lsmod | grep -E 'afpa|card|handoff|uselect|sksplice|iolite|flotilla' | sed 's/^/# /'");
	return false;
}

TEST(random_calls_of_three_users_do_no_harm)
{
	unsigned long before = 0, total;
	pid_t pids[USERS], other;
	double start, moved;
	struct utsname kernel;
	int status, u;

	if (!uname(&kernel) && strstr(kernel.release, "-flotilla-"))
		slow = 4;
	calls = env("FLT_CALLS", slow > 1 ? 10000 : 30000);
	seconds = env("FLT_CALL_SECONDS", calls > 100000 ? 86400 : 60 * (slow > 1 ? 2 : 1));
	seed = env("FLT_SEED", time(NULL) % 100000);
	TH_LOG("%lu calls, seed %llu (FLT_SEED)", calls, (unsigned long long)seed);
	ASSERT_EQ(0, system("modprobe -a " MODULES " tls"));
	ASSERT_EQ(0, give_devices());
	ASSERT_EQ(0, unshare(CLONE_NEWNET));
	ASSERT_EQ(0, lo_up());
	shared = apart(sizeof(*shared), MAP_SHARED);
	ASSERT_NE(NULL, shared);
	other = fork();
	if (!other)
		bystander();
	for (u = 0; u < USERS; u++) {
		pids[u] = fork();
		if (!pids[u])
			worker(u);
	}
	start = moved = now();
	do {
		usleep(100000);
		total = made();
		if (total != before)
			moved = now();
		before = total;
		ASSERT_GT(60 * slow, now() - moved) {
			stuck(_metadata);
		}
		shared->stop = now() - start > seconds;
	} while (!shared->stop && total < calls / USERS / THREADS * USERS * THREADS);
	shared->stop = true;
	for (u = 0; u < USERS; u++) {
		double end = now() + 60 * slow;
		pid_t got;

		while (!(got = waitpid(pids[u], &status, WNOHANG)) && now() < end)
			usleep(50000);
		EXPECT_EQ(pids[u], got) {
			stuck(_metadata);
		}
		EXPECT_EQ(0, status) {
			TH_LOG("%s: status %#x", user_names[u], status);
		}
		say(_metadata, u);
	}
	shared->bystander_stop = true;
	ASSERT_EQ(other, waitpid(other, &status, 0));
	EXPECT_EQ(0, status) {
		TH_LOG("the bystander: status %#x", status);
	}
	EXPECT_LT(0, shared->echoes);
	EXPECT_LT(calls / 100, made());
	/* Calls that are all refused at the door say nothing of what is behind it. */
	EXPECT_TRUE(got_in(_metadata));
	TH_LOG("%lu calls in %.0f s, %lu echoes beside them", made(), now() - start, shared->echoes);
	EXPECT_TRUE(unload());
}

TEST_HARNESS_MAIN
