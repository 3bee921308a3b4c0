// SPDX-License-Identifier: GPL-2.0
// long: debug it takes up to four minutes there
// timeout: 300
// cpus: 2
/*
 * The module goes while sockets that it was on are in use, and comes again. A process registers,
 * makes connections and leaves them to a child that never stops using them; when the process has
 * ended the module must go, and the child must not notice. USELECT_ROUNDS (6), USELECT_PAIRS (20).
 */

#include <kselftest_harness.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <flotilla/uselect.h>
#include "uselect/tests/lib/sockets.h"
#include "tools/testing/trap.h"

#define PAIRS_MAX	200

struct shared {
	uint64_t moved;		/* bytes that arrived as they were sent */
	uint64_t wrong;
};

/* Sends and receives a sequence of bytes on each pair until it is killed. */
static void traffic(int (*fds)[2], int pairs, struct shared *shared)
{
	unsigned char in[4096], out[4096], sent[PAIRS_MAX] = { 0 }, got[PAIRS_MAX] = { 0 };
	uint64_t seed = 1;
	ssize_t n, k;
	int i;

	for (;;) {
		i = rnd(&seed) % pairs;
		for (k = 0; k < (ssize_t)sizeof(out); k++)
			out[k] = sent[i] + k;
		n = send(fds[i][0], out, 1 + rnd(&seed) % sizeof(out), MSG_NOSIGNAL);
		if (n > 0)
			sent[i] += n;
		else if (errno != EAGAIN)
			shared->wrong++;
		i = rnd(&seed) % pairs;
		n = recv(fds[i][1], in, sizeof(in), 0);
		for (k = 0; k < n; k++)
			shared->wrong += in[k] != (unsigned char)(got[i] + k);
		if (n > 0) {
			got[i] += n;
			__atomic_fetch_add(&shared->moved, n, __ATOMIC_RELAXED);
		} else if (!n || errno != EAGAIN) {
			shared->wrong++;
		}
	}
}

/* Registers, leaves its connections to a child, uses the list for a while, and ends somehow. */
static void owner(int pairs, struct shared *shared, int pids, int how)
{
	int fds[PAIRS_MAX][2], i;
	struct uselect_loop *loop;
	struct epoll_event ev[16];
	pid_t child;

	if (how % 2 ? uselect_init_edges() : uselect_init())
		_exit(1);
	for (i = 0; i < pairs; i++)
		pair(i % 2 ? AF_INET6 : AF_INET, fds[i]);
	child = fork();
	if (!child) {
		traffic(fds, pairs, shared);
		_exit(0);
	}
	if (write(pids, &child, sizeof(child)) != sizeof(child))
		_exit(2);
	loop = uselect_loop_new();
	for (i = 0; i < pairs; i++)
		if (uselect_loop_add(loop, fds[i][1], EPOLLIN | EPOLLOUT, i))
			_exit(3);
	for (i = 0; i < 200; i++)
		if (uselect_loop_wait(loop, ev, 16, WAIT_S * 1000) < 1)
			_exit(4);
	if (how % 3 == 0)
		_exit(0);
	if (how % 3 == 1)
		kill(getpid(), SIGKILL);
	execl("/bin/true", "true", NULL);
	_exit(5);
}

static bool moves(struct shared *shared)
{
	uint64_t before = __atomic_load_n(&shared->moved, __ATOMIC_RELAXED);

	return WAIT(__atomic_load_n(&shared->moved, __ATOMIC_RELAXED) > before + 100000);
}

TEST(module_goes_under_load_and_comes_again)
{
	int rounds = env_number("USELECT_ROUNDS", 6), pairs = env_number("USELECT_PAIRS", 20);
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int i, status, pids[2];
	pid_t pid, child;

	ASSERT_NE(MAP_FAILED, shared);
	ASSERT_GE(PAIRS_MAX, pairs);
	for (i = 0; i < rounds; i++) {
		ASSERT_EQ(0, load_module(""));
		ASSERT_EQ(0, pipe(pids));
		pid = fork();
		if (!pid)
			owner(pairs, shared, pids[1], i);
		ASSERT_EQ(sizeof(child), read(pids[0], &child, sizeof(child)));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(i % 3 == 1 ? SIGKILL : 0, status);
		/* The child's sockets still stand; nobody is registered. */
		ASSERT_TRUE(WAIT(!unload_module()));
		ASSERT_NE(0, access(USEL_DEVICE, F_OK));
		ASSERT_TRUE(moves(shared));
		/* And with the module again, which the sockets know nothing of. */
		ASSERT_EQ(0, load_module(""));
		ASSERT_TRUE(moves(shared));
		ASSERT_EQ(0, kill(child, SIGKILL));
		ASSERT_TRUE(WAIT(!unload_module()));
		ASSERT_EQ(0, shared->wrong);
		close(pids[0]);
		close(pids[1]);
	}
	TH_LOG("%d rounds with %d pairs, %llu bytes", rounds, pairs,
	       (unsigned long long)shared->moved);
}

TEST(registration_refused_while_switched_off)
{
	ASSERT_EQ(0, load_module("enabled=0"));
	ASSERT_EQ(-1, uselect_init());
	ASSERT_EQ(ENODEV, errno);
	ASSERT_TRUE(WAIT(!unload_module()));
}

struct sender {
	int fd;
	const char *from;
};

static void *send_all(void *arg)
{
	const struct sender *sender = arg;

	return (void *)send(sender->fd, sender->from, 4096, MSG_NOSIGNAL);
}

/* A registered process with @pairs connections, which are its own when it returns. */
static int registered(int (*fds)[2], int pairs)
{
	struct usel_setup setup = { .abi = USEL_ABI };
	int dev = open(USEL_DEVICE, O_RDWR | O_CLOEXEC), i;

	if (dev < 0 || ioctl(dev, USEL_SETUP, &setup))
		return -1;
	for (i = 0; i < pairs; i++)
		pair(AF_INET, fds[i]);
	return dev;
}

/* Stacks on sockets hold the module. */
static int stacks(void)
{
	FILE *file = fopen("/sys/module/flotilla/refcnt", "r");
	int n = -1;

	if (file && fscanf(file, "%d", &n) != 1)
		n = -1;
	if (file)
		fclose(file);
	return n;
}

TEST(who_waits_for_his_memory_with_a_socket_locked_keeps_no_other_socket)
{
	int fds[PAIRS_MAX][2], dev, status, before, uffd;
	struct sender sender;
	struct uffd_msg msg;
	pthread_t thread;
	char *page;
	pid_t pid;

	ASSERT_EQ(0, load_module(""));
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, page);
	uffd = trap(page);
	ASSERT_LE(0, uffd);
	dev = registered(fds, 1);
	ASSERT_LE(0, dev);
	sender = (struct sender){ fds[0][0], page };
	ASSERT_EQ(0, pthread_create(&thread, NULL, send_all, &sender));
	ASSERT_EQ(sizeof(msg), read(uffd, &msg, sizeof(msg)));
	before = stacks();
	/* The region ends, and the socket is to get its own pointers back. */
	close(dev);
	usleep(500000);
	pid = fork();
	if (!pid)
		_exit(registered(fds, 100) < 0);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TRUE(WAIT(stacks() <= before));
	munmap(page, 4096);
	close(uffd);
	pthread_join(thread, NULL);
	EXPECT_TRUE(WAIT(!unload_module()));
}

/* rmmod, until it has worked; false: @still has not ended. */
static bool module_goes(pid_t *still)
{
	double until = now_s() + WAIT_S;
	int status;
	pid_t pid;

	*still = 0;
	do {
		pid = fork();
		if (!pid) {
			execlp("rmmod", "rmmod", "uselect", NULL);
			_exit(1);
		}
		if (!WAIT(waitpid(pid, &status, WNOHANG) == pid)) {
			*still = pid;
			return false;
		}
	} while (status && now_s() < until);
	return !status;
}

struct parked {
	int fd;
	char *page;
	bool receive;
	ssize_t ret;
	pid_t tid;
};

static void *call_parked(void *arg)
{
	struct parked *parked = arg;

	if (parked->receive)
		parked->ret = recv(parked->fd, parked->page, 4096, MSG_DONTWAIT);
	else
		parked->ret = send(parked->fd, parked->page, 4096, MSG_DONTWAIT | MSG_NOSIGNAL);
	return NULL;
}

static void *call_shutdown(void *arg)
{
	struct parked *parked = arg;

	__atomic_store_n(&parked->tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
	parked->ret = shutdown(parked->fd, SHUT_RD);
	return NULL;
}

/* The thread sleeps, and no signal would end that: for a lock. */
static bool waits(const pid_t *tid)
{
	char path[60], text[200] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat",
		 __atomic_load_n(tid, __ATOMIC_ACQUIRE));
	file = fopen(path, "r");
	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		text[0] = 0;
	fclose(file);
	return strstr(text, ") D ");
}

static bool exchange(int from, int to)
{
	char in[6] = "";
	ssize_t n = -1;

	if (send(from, "plain", 6, MSG_NOSIGNAL) != 6)
		return false;
	return WAIT((n = recv(to, in, 6, 0)) > 0) && n == 6 && !memcmp(in, "plain", 6);
}

/*
 * A call on a socket of the region waits for its memory, with the socket locked, and with
 * @behind another one for the lock, when the region ends and the module goes.
 */
static void unload_parked(struct __test_metadata *_metadata, bool receive, bool behind)
{
	char *page, text[4096] __attribute__((aligned(4096))), in[4096];
	struct parked parked = { .receive = receive }, second;
	pthread_t thread, other;
	int fds[1][2], dev, uffd;
	struct uffd_msg msg;
	pid_t still;
	bool gone;

	memset(text, receive ? 'r' : 's', sizeof(text));
	ASSERT_EQ(0, load_module(""));
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, page);
	uffd = trap(page);
	ASSERT_LE(0, uffd);
	dev = registered(fds, 1);
	ASSERT_LE(0, dev);
	if (receive) {
		ASSERT_EQ(4096, send(fds[0][1], text, 4096, MSG_NOSIGNAL));
		ASSERT_TRUE(WAIT(recv(fds[0][0], in, 4096, MSG_PEEK) == 4096));
	}
	parked.fd = fds[0][0];
	parked.page = page;
	ASSERT_EQ(0, pthread_create(&thread, NULL, call_parked, &parked));
	ASSERT_EQ(sizeof(msg), read(uffd, &msg, sizeof(msg)));
	second = parked;
	if (behind) {
		ASSERT_EQ(0, pthread_create(&other, NULL, call_shutdown, &second));
		EXPECT_TRUE(WAIT(waits(&second.tid)));
	}
	close(dev);
	gone = module_goes(&still);
	EXPECT_TRUE(gone);
	EXPECT_EQ(-1, access("/sys/module/uselect", F_OK));

	/* The page comes, and who had to wait knows of nothing. */
	EXPECT_EQ(0, trap_fill(uffd, page, text));
	pthread_join(thread, NULL);
	if (behind)
		pthread_join(other, NULL);
	if (still)
		waitpid(still, NULL, 0);
	EXPECT_EQ(4096, parked.ret);
	if (receive)
		memcpy(in, page, 4096);
	else
		EXPECT_TRUE(WAIT(recv(fds[0][1], in, 4096, MSG_PEEK) == 4096) &&
			    recv(fds[0][1], in, 4096, 0) == 4096);
	EXPECT_EQ(0, memcmp(in, text, 4096));
	EXPECT_TRUE(exchange(fds[0][0], fds[0][1]));
	EXPECT_EQ(0, behind ? second.ret : !exchange(fds[0][1], fds[0][0]));
	/* The socket is TCP's alone again. */
	EXPECT_TRUE(WAIT(stacks() == 0));
	close(fds[0][0]);
	close(fds[0][1]);
	munmap(page, 4096);
	close(uffd);
}

TEST(module_goes_while_a_send_waits_for_its_memory)
{
	unload_parked(_metadata, false, false);
}

TEST(module_goes_while_a_receive_waits_for_its_memory)
{
	unload_parked(_metadata, true, false);
}

TEST(module_goes_while_a_shutdown_waits_for_who_has_the_socket_locked)
{
	unload_parked(_metadata, false, true);
}

TEST_HARNESS_MAIN
