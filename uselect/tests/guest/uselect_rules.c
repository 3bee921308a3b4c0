// SPDX-License-Identifier: GPL-2.0
// timeout: 120
// cpus: 2
/* What must hold beyond "the bits are right": each hole of the paper has its claim here. */

#include <kselftest_harness.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <flotilla/uselect.h>
#include "uselect/tests/lib/sockets.h"

/* What the library has asked the kernel for: its calls go by syscall(), see uselect/user.mk. */
static struct {
	unsigned int waits;
	long nfds;
	unsigned long read[16];
} asked;

long __real_syscall(long nr, ...);
long __wrap_syscall(long nr, ...);

long __wrap_syscall(long nr, ...)
{
	va_list args;
	long a[6];
	int i;

	va_start(args, nr);
	for (i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	asked.waits += nr == SYS_pselect6 || nr == SYS_ppoll || nr == SYS_epoll_pwait;
	if (nr == SYS_pselect6 && USELECT_WORDS(a[0]) <= 16) {
		asked.nfds = a[0];
		memcpy(asked.read, (const void *)a[1], USELECT_WORDS(a[0]) * sizeof(long));
	}
	return __real_syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* A set of these descriptors, up to -1; the next call makes another of the same memory. */
static unsigned long *set_of(const int *fds)
{
	static unsigned long set[1024];

	memset(set, 0, sizeof(set));
	for (; *fds >= 0; fds++)
		uselect_fd_set(*fds, set);
	return set;
}

#define SET(...)	set_of((const int[]){ __VA_ARGS__, -1 })

FIXTURE(rules) {
	int a, b;
	char buf[65536];
};

FIXTURE_SETUP(rules)
{
	int fds[2];

	ASSERT_EQ(0, load_module(""));
	ASSERT_EQ(0, uselect_init());
	pair(AF_INET, fds);
	self->a = fds[0];
	self->b = fds[1];
}

FIXTURE_TEARDOWN(rules)
{
}

TEST_F(rules, second_init_is_busy)
{
	ASSERT_EQ(-1, uselect_init());
	ASSERT_EQ(EBUSY, errno);
}

TEST_F(rules, accepted_and_connected_are_tracked_before_the_first_wait)
{
	ASSERT_EQ(USEL_STATE_W, get_socket_state(self->a));
	ASSERT_EQ(USEL_STATE_W, get_socket_state(self->b));
}

TEST_F(rules, region_cannot_be_written)
{
	int dev = open(USEL_DEVICE, O_RDWR | O_CLOEXEC);
	struct usel_setup setup = { .abi = USEL_ABI };
	void *map;

	ASSERT_EQ(0, ioctl(dev, USEL_SETUP, &setup));
	ASSERT_EQ(MAP_FAILED, mmap(NULL, setup.region_size, PROT_READ | PROT_WRITE, MAP_SHARED,
				   dev, USEL_MAP_REGION));
	ASSERT_EQ(MAP_FAILED, mmap(NULL, setup.region_size, PROT_READ, MAP_PRIVATE, dev,
				   USEL_MAP_REGION));
	map = mmap(NULL, setup.region_size, PROT_READ, MAP_SHARED, dev, USEL_MAP_REGION);
	ASSERT_NE(MAP_FAILED, map);
	ASSERT_EQ(-1, mprotect(map, setup.region_size, PROT_READ | PROT_WRITE));
	ASSERT_EQ(EACCES, errno);
	ASSERT_EQ(MAP_FAILED, mmap(NULL, setup.region_size + 4096, PROT_READ, MAP_SHARED, dev,
				   USEL_MAP_REGION));
	ASSERT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ, MAP_SHARED, dev, 0x30000000));
}

#define READ_CHANGES(set)	__atomic_load_n(&(set)->changes, __ATOMIC_ACQUIRE)

static int setup_errno(int dev, struct usel_setup setup)
{
	return ioctl(dev, USEL_SETUP, &setup) ? errno : 0;
}

TEST_F(rules, bad_input_has_its_errno)
{
	int dev = open(USEL_DEVICE, O_RDWR | O_CLOEXEC), file = open("/proc/self/stat", O_RDONLY);
	int bad = -1, none = 60000;

	ASSERT_EQ(-1, ioctl(dev, USEL_TRACK, &file));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(-1, ioctl(dev, USEL_KICK));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ, MAP_SHARED, dev, 0));
	ASSERT_EQ(EPROTO, setup_errno(dev, (struct usel_setup){ .abi = 77 }));
	ASSERT_EQ(EOPNOTSUPP, setup_errno(dev, (struct usel_setup){ .abi = 1, .flags = 1 << 9 }));
	ASSERT_EQ(EINVAL, setup_errno(dev, (struct usel_setup){ .abi = 1, .reserved = { 1 } }));
	ASSERT_EQ(EINVAL, setup_errno(dev, (struct usel_setup){ .abi = 1, .nfds = 1 << 21 }));
	ASSERT_EQ(EINVAL, setup_errno(dev, (struct usel_setup){ .abi = 1, .ring = 1 << 21 }));
	ASSERT_EQ(EINVAL, setup_errno(dev, (struct usel_setup){ .abi = 1,
					      .flags = USEL_SETUP_THRESHOLD }));
	ASSERT_EQ(-1, ioctl(dev, USEL_SETUP, NULL));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ(0, setup_errno(dev, (struct usel_setup){ .abi = 1 }));
	ASSERT_EQ(EBUSY, setup_errno(dev, (struct usel_setup){ .abi = 1 }));
	ASSERT_EQ(-1, ioctl(dev, 0x7531));
	ASSERT_EQ(ENOTTY, errno);
	ASSERT_EQ(-1, ioctl(dev, USEL_TRACK, &file));
	ASSERT_EQ(ENOTSOCK, errno);
	ASSERT_EQ(-1, ioctl(dev, USEL_TRACK, &bad));
	ASSERT_EQ(EBADF, errno);
	ASSERT_EQ(-1, ioctl(dev, USEL_TRACK, &none));
	ASSERT_EQ(EBADF, errno);
	file = socket(AF_INET, SOCK_DGRAM, 0);
	ASSERT_EQ(-1, ioctl(dev, USEL_TRACK, &file));
	ASSERT_EQ(EOPNOTSUPP, errno);
}

/* 5.1 item 3: nobody but us arms SOCK_NOSPACE, for nobody polls the socket. */
TEST_F(rules, writer_stopped_short_of_eagain_is_woken)
{
	struct timeval limit = { .tv_sec = WAIT_S };
	size_t sent = 0, got = 0;
	unsigned long *wr;
	ssize_t n;

	while (get_socket_state(self->a) & USEL_STATE_W) {
		n = send(self->a, self->buf, 1000, MSG_NOSIGNAL);
		ASSERT_LT(0, n);
		sent += n;
	}
	while (got < sent) {
		n = recv(self->b, self->buf, sizeof(self->buf), 0);
		if (n > 0)
			got += n;
	}
	wr = SET(self->a);
	ASSERT_EQ(1, uselect(self->a + 1, NULL, (fd_set *)wr, NULL, &limit));
	ASSERT_TRUE(uselect_fd_isset(self->a, wr));
}

/* Sends a byte, with @flags, or resets the connection. */
struct later {
	int fd;
	unsigned int ms;
	int flags;
	bool reset;
};

static void *act_later(void *arg)
{
	struct later *later = arg;

	usleep(later->ms * 1000);
	if (later->reset)
		reset(later->fd);
	else
		(void)!send(later->fd, "x", 1, MSG_NOSIGNAL | later->flags);
	return NULL;
}

TEST_F(rules, sleeper_is_woken_by_data)
{
	struct later later = { .fd = self->a, .ms = 50 };
	struct timeval limit = { .tv_sec = WAIT_S };
	unsigned long *rd = SET(self->b);
	pthread_t thread;

	pthread_create(&thread, NULL, act_later, &later);
	ASSERT_EQ(1, uselect(self->b + 1, (fd_set *)rd, NULL, NULL, &limit));
	ASSERT_TRUE(uselect_fd_isset(self->b, rd));
	pthread_join(thread, NULL);
}

TEST_F(rules, sleeper_is_woken_by_urgent_data)
{
	struct later later = { .fd = self->a, .ms = 50, .flags = MSG_OOB };
	struct timeval limit = { .tv_sec = WAIT_S };
	unsigned long *ex = SET(self->b);
	pthread_t thread;

	pthread_create(&thread, NULL, act_later, &later);
	ASSERT_EQ(1, uselect(self->b + 1, NULL, NULL, (fd_set *)ex, &limit));
	ASSERT_TRUE(uselect_fd_isset(self->b, ex));
	pthread_join(thread, NULL);
}

/*
 * While the window is closed, a probe of it says that another urgent byte will come: the kernel then
 * shows the first no longer, and calls nobody. Whoever looks for it mends the region.
 */
TEST_F(rules, urgent_mark_that_was_taken_back_stands_until_it_is_looked_for)
{
	char buf[1024] = { 0 };

	setsockopt(self->b, SOL_SOCKET, SO_RCVBUF, &(int){ 4096 }, sizeof(int));
	ASSERT_EQ(1, send(self->a, buf, 1, MSG_OOB));
	ASSERT_TRUE(WAIT(get_socket_state(self->b) & USEL_STATE_E));
	/* A probe announces what is less than 64 KB away. */
	setsockopt(self->a, SOL_SOCKET, SO_SNDBUF, &(int){ 4096 }, sizeof(int));
	do {
		while (send(self->a, buf, sizeof(buf), MSG_DONTWAIT) > 0)
			;
		usleep(300000);
	} while (truth(self->a) & POLLOUT);
	setsockopt(self->a, SOL_SOCKET, SO_SNDBUF, &(int){ 65536 }, sizeof(int));
	ASSERT_EQ(1, send(self->a, buf, 1, MSG_OOB | MSG_DONTWAIT));
	ASSERT_TRUE(WAIT(!(truth(self->b) & POLLPRI)));
	ASSERT_TRUE(get_socket_state(self->b) & USEL_STATE_E);
	ASSERT_EQ(-1, recv(self->b, buf, 1, MSG_OOB | MSG_DONTWAIT));
	ASSERT_FALSE(get_socket_state(self->b) & USEL_STATE_E);

	/* And the second, when it is there. */
	while (!(get_socket_state(self->b) & USEL_STATE_E))
		recv(self->b, buf, sizeof(buf), MSG_DONTWAIT);
	ASSERT_TRUE(truth(self->b) & POLLPRI);
}

TEST_F(rules, sleeper_is_woken_by_an_error)
{
	struct later later = { .fd = self->a, .ms = 50, .reset = true };
	struct timeval limit = { .tv_sec = WAIT_S };
	unsigned long *rd = SET(self->b);
	pthread_t thread;

	pthread_create(&thread, NULL, act_later, &later);
	ASSERT_EQ(1, uselect(self->b + 1, (fd_set *)rd, NULL, NULL, &limit));
	ASSERT_TRUE(uselect_fd_isset(self->b, rd));
	pthread_join(thread, NULL);
	ASSERT_EQ(USEL_STATE_R | USEL_STATE_W, get_socket_state(self->b));
}

/* 5.1 item 2: data for a socket that nobody asked about does not look like a timeout. */
TEST_F(rules, uninteresting_event_does_not_end_the_wait)
{
	struct later later = { .fd = self->a, .ms = 50 };
	struct timeval limit = { .tv_usec = 400000 };
	unsigned long *rd;
	pthread_t thread;
	int other[2];
	double began;

	pair(AF_INET, other);
	rd = SET(other[0]);
	began = now_s();
	pthread_create(&thread, NULL, act_later, &later);
	ASSERT_EQ(0, uselect(other[0] + 1, (fd_set *)rd, NULL, NULL, &limit));
	ASSERT_LE(0.39, now_s() - began);
	pthread_join(thread, NULL);
}

/* 5.1 item 1: work is pending and everything tracked: MaxPass does not make it sleep. */
TEST_F(rules, ready_socket_never_sleeps)
{
	unsigned long *rd;
	int i, pipes[2], max;

	ASSERT_EQ(0, pipe(pipes));
	max = pipes[0] > self->b ? pipes[0] : self->b;
	ASSERT_EQ(1, send(self->a, "x", 1, 0));
	ASSERT_TRUE(WAIT(get_socket_state(self->b) & USEL_STATE_R));
	for (i = 0; i < 200; i++) {
		rd = SET(self->b, pipes[0]);
		ASSERT_EQ(1, uselect(max + 1, (fd_set *)rd, NULL, NULL, NULL));
	}
}

TEST_F(rules, untracked_descriptor_is_not_starved)
{
	int i, pipes[2], max;
	unsigned long *rd;

	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ(1, write(pipes[1], "x", 1));
	ASSERT_EQ(1, send(self->a, "x", 1, 0));
	ASSERT_TRUE(WAIT(get_socket_state(self->b) & USEL_STATE_R));
	ASSERT_EQ(0, uselect_set_option(USELECT_MAX_PASS, 16));
	max = pipes[0] > self->b ? pipes[0] : self->b;
	for (i = 0; i < 17; i++) {
		rd = SET(self->b, pipes[0]);
		ASSERT_LE(1, uselect(max + 1, (fd_set *)rd, NULL, NULL, NULL));
		if (uselect_fd_isset(pipes[0], rd))
			break;
	}
	ASSERT_GT(17, i);
}

TEST_F(rules, what_is_tracked_is_answered_without_a_call)
{
	struct timeval zero = { 0 };
	int i;

	ASSERT_EQ(1, send(self->a, "x", 1, 0));
	ASSERT_TRUE(WAIT(get_socket_state(self->b) & USEL_STATE_R));
	asked.waits = 0;
	for (i = 0; i < 1000; i++)
		ASSERT_EQ(1, uselect(self->b + 1, (fd_set *)SET(self->b), NULL, NULL, NULL));
	for (i = 0; i < 1000; i++)
		ASSERT_EQ(0, uselect(self->a + 1, (fd_set *)SET(self->a), NULL, NULL, &zero));
	ASSERT_EQ(0, asked.waits);
}

TEST_F(rules, kernel_is_asked_every_max_pass_and_one)
{
	int pipes[2], max, i, try;
	double began;

	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ(1, send(self->a, "x", 1, 0));
	ASSERT_TRUE(WAIT(get_socket_state(self->b) & USEL_STATE_R));
	ASSERT_EQ(0, uselect_set_option(USELECT_MAX_PASS, 16));
	ASSERT_EQ(0, uselect_set_option(USELECT_MAX_DELAY_US, 1000000));
	max = pipes[0] > self->b ? pipes[0] : self->b;
	/* Again when the other limit, time, may have come in between. */
	for (try = 0; try < 100; try++) {
		for (asked.waits = 0; !asked.waits;)
			uselect(max + 1, (fd_set *)SET(self->b, pipes[0]), NULL, NULL, NULL);
		asked.waits = 0;
		began = now_s();
		for (i = 0; i < 20 * 17; i++)
			ASSERT_EQ(1, uselect(max + 1, (fd_set *)SET(self->b, pipes[0]), NULL, NULL,
					     NULL));
		if (now_s() - began < 0.9)
			break;
	}
	ASSERT_EQ(20, asked.waits);
}

TEST_F(rules, kernel_is_asked_for_the_rest_only)
{
	int high = fcntl(self->b, F_DUPFD_CLOEXEC, 900), pipes[2], bits = 0, i;
	struct timeval zero = { 0 };

	ASSERT_EQ(0, uselect_track(high));
	ASSERT_EQ(0, pipe(pipes));
	asked.waits = 0;
	ASSERT_EQ(0, uselect(high + 1, (fd_set *)SET(high, pipes[0]), NULL, NULL, &zero));
	ASSERT_EQ(1, asked.waits);
	ASSERT_GT(64, asked.nfds);
	ASSERT_TRUE(uselect_fd_isset(pipes[0], asked.read));
	for (i = 0; i < 64; i++)
		bits += asked.read[0] >> i & 1;
	/* With the set's own descriptor. */
	ASSERT_EQ(2, bits);
}

/* 5.1 item 6: release() does not run, for a copy is open; the number gets another file. */
TEST_F(rules, reused_number_is_not_taken_for_the_socket)
{
	int copy = fcntl(self->b, F_DUPFD, 100), pipes[2], fd = self->b;

	ASSERT_LE(100, copy);
	ASSERT_EQ(0, pipe(pipes));
	uselect_close(fd);
	ASSERT_EQ(fd, fcntl(pipes[0], F_DUPFD, fd));
	ASSERT_EQ(-1, get_socket_state(fd));
	ASSERT_EQ(1, send(self->a, "x", 1, 0));
	ASSERT_TRUE(WAIT(truth(copy) & POLLIN));
	ASSERT_EQ(-1, get_socket_state(fd));
}

TEST_F(rules, dup2_over_a_socket_ends_its_tracking)
{
	int copy = fcntl(self->b, F_DUPFD, 100), null = open("/dev/null", O_RDONLY);
	struct usel_setup setup = { .abi = USEL_ABI };
	int dev = open(USEL_DEVICE, O_RDWR | O_CLOEXEC);

	ASSERT_LE(100, copy);
	ASSERT_EQ(0, ioctl(dev, USEL_SETUP, &setup));
	if (!(setup.features & USEL_FEATURE_TRACE_FD))
		SKIP(return, "descriptors are not followed by a probe on this kernel");
	/* Both numbers name it, both are tracked. */
	ASSERT_EQ(USEL_STATE_W, get_socket_state(copy));
	ASSERT_EQ(self->b, dup2(null, self->b));
	ASSERT_EQ(-1, get_socket_state(self->b));
	ASSERT_EQ(USEL_STATE_W, get_socket_state(copy));
	ASSERT_EQ(1, send(self->a, "x", 1, 0));
	ASSERT_TRUE(WAIT(get_socket_state(copy) & USEL_STATE_R));
}

TEST_F(rules, every_change_of_a_watched_epoll_is_counted)
{
	int dev = open(USEL_DEVICE, O_RDWR | O_CLOEXEC), epfd = epoll_create1(0), copy = dup(epfd);
	int other = epoll_create1(0), none = 60000, status = -1;
	struct epoll_event ev = { .events = EPOLLIN };
	struct usel_setup setup = { .abi = USEL_ABI };
	const struct usel_set_head *set;
	pid_t pid;

	ASSERT_EQ(-1, ioctl(dev, USEL_WATCH, &epfd));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(0, ioctl(dev, USEL_SETUP, &setup));
	ASSERT_NE(0, setup.features & USEL_FEATURE_WATCH);
	set = mmap(NULL, setup.set_size, PROT_READ, MAP_SHARED, dev, USEL_MAP_SET);
	ASSERT_NE(MAP_FAILED, set);
	ASSERT_EQ(-1, ioctl(dev, USEL_WATCH, &none));
	ASSERT_EQ(EBADF, errno);
	ASSERT_EQ(0, ioctl(dev, USEL_WATCH, &epfd));
	ASSERT_EQ(-1, ioctl(dev, USEL_WATCH, &other));
	ASSERT_EQ(EBUSY, errno);
	ASSERT_EQ(0, READ_CHANGES(set));
	ASSERT_EQ(0, epoll_ctl(epfd, EPOLL_CTL_ADD, self->b, &ev));
	ASSERT_EQ(1, READ_CHANGES(set));
	ASSERT_EQ(0, epoll_ctl(copy, EPOLL_CTL_MOD, self->b, &ev));
	ASSERT_EQ(2, READ_CHANGES(set));
	ASSERT_EQ(0, epoll_ctl(other, EPOLL_CTL_ADD, self->b, &ev));
	ASSERT_EQ(2, READ_CHANGES(set));
	pid = fork();
	if (!pid)
		_exit(epoll_ctl(copy, EPOLL_CTL_DEL, self->b, NULL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(3, READ_CHANGES(set));
	/* The number names another, and the epoll is changed by its copy. */
	ASSERT_EQ(epfd, dup2(other, epfd));
	ASSERT_EQ(4, READ_CHANGES(set));
	close(epfd);
	ASSERT_EQ(epfd, dup(other));
	ASSERT_EQ(5, READ_CHANGES(set));
	ASSERT_EQ(0, epoll_ctl(copy, EPOLL_CTL_ADD, self->b, &ev));
	ASSERT_EQ(6, READ_CHANGES(set));
	close(dev);
	ASSERT_EQ(7, READ_CHANGES(set));
	ASSERT_EQ(0, epoll_ctl(copy, EPOLL_CTL_DEL, self->b, NULL));
	ASSERT_EQ(7, READ_CHANGES(set));
}

/* A set of this process that watches the epoll, or an errno below 0. */
static int watching(int epfd)
{
	struct usel_setup setup = { .abi = USEL_ABI };
	int dev = open(USEL_DEVICE, O_RDWR | O_CLOEXEC), err = 0;

	if (dev < 0 || ioctl(dev, USEL_SETUP, &setup) || ioctl(dev, USEL_WATCH, &epfd))
		err = -errno;
	if (err)
		close(dev);
	return err ?: dev;
}

TEST_F(rules, one_epoll_has_a_bounded_number_of_watchers)
{
	int epfd = epoll_create1(0), devs[40], status = -1, i;
	pid_t pid;

	for (i = 0; i < 40; i++) {
		devs[i] = watching(epfd);
		ASSERT_LE(0, devs[i]);
	}
	pid = fork();
	if (!pid) {
		for (i = 0; i < 24; i++)
			if (watching(epfd) < 0)
				_exit(1);
		if (watching(epfd) != -EUSERS)
			_exit(2);
		_exit(watching(epoll_create1(0)) < 0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_LE(0, watching(epfd));
}

TEST_F(rules, number_follows_the_socket_through_close_and_reopen)
{
	int i, fds[2], fd;

	for (i = 0; i < 300; i++) {
		pair(i % 2 ? AF_INET : AF_INET6, fds);
		ASSERT_EQ(USEL_STATE_W, get_socket_state(fds[0]));
		ASSERT_EQ(USEL_STATE_W, get_socket_state(fds[1]));
		close(fds[1]);
		fd = open("/dev/null", O_RDONLY);
		ASSERT_EQ(-1, get_socket_state(fd));
		close(fd);
		close(fds[0]);
	}
}

TEST_F(rules, child_has_nothing_and_disturbs_nothing)
{
	int status;
	pid_t pid;

	pid = fork();
	if (!pid) {
		char c;
		int fds[2];

		if (uselect_active() || get_socket_state(self->b) != -1)
			_exit(1);
		if (uselect_init() || get_socket_state(self->b) != -1)
			_exit(2);
		pair(AF_INET, fds);
		if (get_socket_state(fds[0]) != USEL_STATE_W)
			_exit(3);
		/* The parent's socket: reading changes the parent's bits. */
		if (!WAIT(recv(self->b, &c, 1, 0) == 1))
			_exit(4);
		if (uselect_track(self->b) || get_socket_state(self->b) != USEL_STATE_W)
			_exit(5);
		_exit(0);
	}
	ASSERT_EQ(1, send(self->a, "x", 1, 0));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_TRUE(uselect_active());
	ASSERT_EQ(USEL_STATE_W, get_socket_state(self->b));
	ASSERT_EQ(1, send(self->a, "x", 1, 0));
	ASSERT_TRUE(WAIT(get_socket_state(self->b) == (USEL_STATE_R | USEL_STATE_W)));
}

/* Past fork() nobody tells the library. */
TEST_F(rules, child_by_raw_clone_has_nothing)
{
	struct timeval now = { 0 };
	int status = -1;
	fd_set set;
	pid_t pid;

	ASSERT_EQ(1, send(self->b, "x", 1, 0));
	ASSERT_TRUE(WAIT(get_socket_state(self->a) & USEL_STATE_R));
	pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (!pid) {
		FD_ZERO(&set);
		FD_SET(self->a, &set);
		if (uselect_active() || get_socket_state(self->a) != -1)
			_exit(1);
		_exit(uselect(self->a + 1, &set, NULL, NULL, &now) == 1 ? 0 : 2);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
}

TEST_F(rules, exec_ends_the_registration)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (uselect_init())
			_exit(1);
		execl("/bin/sh", "sh", "-c", "! ls -l /proc/self/fd | grep -q uselect", NULL);
		_exit(2);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
}

TEST_F(rules, unregistered_process_is_not_hooked)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		int fds[2];

		pair(AF_INET, fds);
		_exit(get_socket_state(fds[0]) != -1);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
}

TEST_F(rules, socket_older_than_the_registration_is_tracked_on_request)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		int fds[2], i;

		pair(AF_INET6, fds);
		if (uselect_init() || get_socket_state(fds[1]) != -1)
			_exit(1);
		for (i = 0; i < 2; i++)
			if (uselect_track(fds[1]))
				_exit(2);
		if (get_socket_state(fds[1]) != USEL_STATE_W)
			_exit(3);
		if (send(fds[0], "x", 1, 0) != 1 ||
		    !WAIT(get_socket_state(fds[1]) == (USEL_STATE_R | USEL_STATE_W)))
			_exit(4);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
}

TEST_F(rules, blocking_reader_still_wakes)
{
	struct later later = { .fd = self->a, .ms = 50 };
	pthread_t thread;
	char c;

	fcntl(self->b, F_SETFL, 0);
	pthread_create(&thread, NULL, act_later, &later);
	ASSERT_EQ(1, recv(self->b, &c, 1, 0));
	pthread_join(thread, NULL);
	ASSERT_EQ(USEL_STATE_W, get_socket_state(self->b));
}

TEST_F(rules, listener_follows_its_queue)
{
	struct sockaddr_storage addr;
	int i, c[3], lfd;
	socklen_t len;

	lfd = listener(AF_INET, &addr, &len);
	ASSERT_EQ(0, get_socket_state(lfd));
	for (i = 0; i < 3; i++) {
		c[i] = socket(AF_INET, SOCK_STREAM, 0);
		ASSERT_EQ(0, connect(c[i], (struct sockaddr *)&addr, len));
	}
	for (i = 0; i < 3; i++) {
		ASSERT_TRUE(WAIT(truth(lfd) == POLLIN + POLLRDNORM));
		/* The kernel queues a connection before it tells of it. */
		ASSERT_TRUE(WAIT(get_socket_state(lfd) == USEL_STATE_R));
		ASSERT_LE(0, accept(lfd, NULL, NULL));
	}
	ASSERT_EQ(0, get_socket_state(lfd));
}

TEST_F(rules, refused_connection_is_ready_for_all)
{
	struct sockaddr_storage addr;
	socklen_t len;
	int fd = listener(AF_INET, &addr, &len);

	close(fd);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	connect(fd, (struct sockaddr *)&addr, len);
	ASSERT_TRUE(WAIT(get_socket_state(fd) == (USEL_STATE_R | USEL_STATE_W)));
	ASSERT_TRUE(WAIT(told(fd) == truth(fd)));
}

TEST_F(rules, module_in_use_is_busy)
{
	ASSERT_NE(0, system("rmmod uselect 2>/dev/null"));
	ASSERT_EQ(USEL_STATE_W, get_socket_state(self->a));
}

TEST_HARNESS_MAIN
