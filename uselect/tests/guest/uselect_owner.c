// SPDX-License-Identifier: GPL-2.0
// timeout: 120
// cpus: 2
/* A region is its process's alone: it ends with the descriptor table, and nobody else has it. */

#include <kselftest_harness.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <flotilla/uselect.h>
#include "uselect/tests/lib/sockets.h"
#include "tools/testing/trap.h"

static const struct usel_setup fresh = { .abi = USEL_ABI, .nfds = 1024 };

FIXTURE(owner) {
	int dev;
};

/* Open without O_CLOEXEC; nobody is registered. */
FIXTURE_SETUP(owner)
{
	ASSERT_EQ(0, load_module(""));
	self->dev = open(USEL_DEVICE, O_RDWR);
	ASSERT_LE(0, self->dev);
}

FIXTURE_TEARDOWN(owner)
{
	close(self->dev);
	ASSERT_TRUE(WAIT(!unload_module()));
}

static struct usel_region_head *map(int dev, const struct usel_setup *setup)
{
	return mmap(NULL, setup->region_size, PROT_READ, MAP_SHARED, dev, USEL_MAP_REGION);
}

static bool dead(const struct usel_region_head *head)
{
	return __atomic_load_n(&head->flags, __ATOMIC_ACQUIRE) & USEL_REGION_DEAD;
}

static bool tracked(const struct usel_region_head *head, int fd)
{
	const unsigned char *map = (const unsigned char *)head + head->active;

	return __atomic_load_n(&map[fd / 8], __ATOMIC_ACQUIRE) >> fd % 8 & 1;
}

/* 0 when none of the areas can be mapped, for the reason that they are another's. */
static int maps_nothing(int dev)
{
	static const unsigned long areas[] = { USEL_MAP_REGION, USEL_MAP_SET, USEL_MAP_WANT };
	int i;

	for (i = 0; i < 3; i++)
		if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, dev, areas[i]) != MAP_FAILED ||
		    errno != EXDEV)
			return 1 + i;
	return 0;
}

/* USEL_SETUP whose argument is in a page that comes when the descriptor has been taken away. */
struct late {
	int dev;
	struct usel_setup *setup;
	int err;
};

static void *set_up_late(void *arg)
{
	struct late *late = arg;

	late->err = ioctl(late->dev, USEL_SETUP, late->setup) ? errno : 0;
	return NULL;
}

enum { BY_CLOSE, BY_DUP2, BY_RANGE, NR_WAYS };

static void take_away(int fd, int way)
{
	switch (way) {
	case BY_CLOSE:
		close(fd);
		break;
	case BY_DUP2:
		dup2(STDERR_FILENO, fd);
		break;
	case BY_RANGE:
		syscall(SYS_close_range, fd, fd, 0);
		break;
	}
}

/* What USEL_SETUP says, or -1: the trap does not work. */
static int set_up_and_take_away(int dev, int way, struct usel_setup *setup)
{
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char content[4096] __attribute__((aligned(4096))) = { 0 };
	struct late late = { dev, (struct usel_setup *)page, -1 };
	int uffd = trap(page);
	struct uffd_msg msg;
	pthread_t thread;

	memcpy(content, &fresh, sizeof(fresh));
	if (uffd < 0 || pthread_create(&thread, NULL, set_up_late, &late) ||
	    read(uffd, &msg, sizeof(msg)) != sizeof(msg))
		return -1;
	take_away(dev, way);
	if (trap_fill(uffd, page, content))
		return -1;
	pthread_join(thread, NULL);
	memcpy(setup, page, sizeof(*setup));
	close(uffd);
	return late.err;
}

TEST_F(owner, setup_of_a_descriptor_that_is_closed_meanwhile_registers_nobody)
{
	struct usel_setup setup;
	int way, status, dev;
	pid_t pid;

	for (way = 0; way < NR_WAYS; way++) {
		/* This process keeps the file open past the end of the other, and of its table. */
		dev = open(USEL_DEVICE, O_RDWR);
		ASSERT_LE(0, dev);
		pid = fork();
		if (!pid) {
			close(self->dev);
			_exit(set_up_and_take_away(dev, way, &setup));
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(EBADF, WEXITSTATUS(status)) TH_LOG("way %d", way);
		EXPECT_EQ(0, maps_nothing(dev));
		close(dev);
	}
}

TEST_F(owner, setup_counts_while_another_copy_of_the_descriptor_is_left)
{
	int copy = dup(self->dev), fds[2];
	struct usel_region_head *head;
	struct usel_setup setup;

	ASSERT_EQ(0, set_up_and_take_away(self->dev, BY_CLOSE, &setup));
	head = map(copy, &setup);
	ASSERT_NE(MAP_FAILED, head);
	pair(AF_INET, fds);
	EXPECT_TRUE(tracked(head, fds[0]));
	EXPECT_FALSE(dead(head));
	close(copy);
	EXPECT_TRUE(dead(head));
	EXPECT_FALSE(tracked(head, fds[0]));
	munmap(head, setup.region_size);
	close(fds[0]);
	close(fds[1]);
}

static void *maps_nothing_apart(void *dev)
{
	if (unshare(CLONE_FILES))
		return "unshare";
	return maps_nothing(*(int *)dev) ? "mapped" : NULL;
}

static int receive_descriptor(int from)
{
	char data, space[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
	struct iovec iov = { &data, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space,
			      .msg_controllen = sizeof(space) };
	int fd;

	if (recvmsg(from, &msg, 0) != 1 || !CMSG_FIRSTHDR(&msg))
		return -1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

static bool send_descriptor(int to, int fd)
{
	char data = 0, space[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = { 0 };
	struct iovec iov = { &data, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space,
			      .msg_controllen = sizeof(space) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	return sendmsg(to, &msg, 0) == 1;
}

TEST_F(owner, nobody_else_who_has_the_file_maps_it)
{
	struct usel_region_head *head;
	struct usel_setup setup = fresh;
	int status, dev, ends[2];
	pthread_t thread;
	void *wrong;
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	pid = fork();
	if (!pid) {
		/* Given by hand, and by birth. */
		dev = receive_descriptor(ends[1]);
		if (dev < 0)
			_exit(10);
		_exit(maps_nothing(dev) ?: maps_nothing(self->dev));
	}
	ASSERT_EQ(0, ioctl(self->dev, USEL_SETUP, &setup));
	ASSERT_TRUE(send_descriptor(ends[0], self->dev));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	/* A thread that has gone its own way. */
	ASSERT_EQ(0, pthread_create(&thread, NULL, maps_nothing_apart, &self->dev));
	pthread_join(thread, &wrong);
	EXPECT_EQ(NULL, wrong);
	head = map(self->dev, &setup);
	ASSERT_NE(MAP_FAILED, head);
	EXPECT_FALSE(dead(head));
	munmap(head, setup.region_size);
	close(ends[0]);
	close(ends[1]);
}

/* Stays in the table until it is told to end. */
static void *stay(void *arg)
{
	char byte;

	return read(*(int *)arg, &byte, 1) == 1 ? NULL : "read";
}

/* The thread that set up leaves the table, in which another one was; then that one ends. */
static void ends_with_its_table(struct __test_metadata *_metadata, int dev, bool range)
{
	struct usel_region_head *head;
	struct usel_setup setup = fresh;
	pthread_t thread;
	int ends[2];
	void *wrong;

	ASSERT_EQ(0, pipe(ends));
	ASSERT_EQ(0, pthread_create(&thread, NULL, stay, &ends[0]));
	ASSERT_EQ(0, ioctl(dev, USEL_SETUP, &setup));
	head = map(dev, &setup);
	ASSERT_NE(MAP_FAILED, head);
	ASSERT_EQ(0, range ? syscall(SYS_close_range, dev, dev, CLOSE_RANGE_UNSHARE) :
			     unshare(CLONE_FILES));
	EXPECT_FALSE(dead(head));
	EXPECT_EQ(0, range ? 0 : maps_nothing(dev));
	ASSERT_EQ(1, write(ends[1], "", 1));
	pthread_join(thread, &wrong);
	EXPECT_EQ(NULL, wrong);
	EXPECT_TRUE(WAIT(dead(head)));
	munmap(head, setup.region_size);
}

TEST_F(owner, region_ends_with_its_table_when_its_maker_has_left_it)
{
	ends_with_its_table(_metadata, self->dev, false);
}

TEST_F(owner, region_ends_with_its_table_when_its_maker_has_closed_a_copy_of_it)
{
	ends_with_its_table(_metadata, self->dev, true);
}

static int count_tracked(const struct usel_region_head *head)
{
	unsigned int fd;
	int n = 0;

	for (fd = 0; fd < head->nfds; fd++)
		n += tracked(head, fd);
	return n;
}

/* Who has the memory of a program that has become another one, and so its mapping. */
struct heir {
	const struct usel_region_head *head;
	int orders, reports;
};

static void report(int to, int what)
{
	if (write(to, &what, sizeof(what)) != sizeof(what))
		_exit(1);
}

static int inherit(void *arg)
{
	struct heir *heir = arg;
	char byte;

	if (read(heir->orders, &byte, 1) != 1)
		return 1;
	report(heir->reports, count_tracked(heir->head));
	if (read(heir->orders, &byte, 1) != 1)
		return 1;
	report(heir->reports, WAIT(dead(heir->head)));
	return 0;
}

/* Registers, leaves its memory to the heir, and becomes a shell that connects to the port. */
static void become_another(int dev, int port, int orders, int reports)
{
	struct usel_setup setup = fresh;
	static char stack[65536] __attribute__((aligned(16)));
	static struct heir heir;
	char command[200];

	heir = (struct heir){ .orders = orders, .reports = reports };
	if (ioctl(dev, USEL_SETUP, &setup))
		_exit(2);
	heir.head = map(dev, &setup);
	if (heir.head == MAP_FAILED || clone(inherit, stack + sizeof(stack), CLONE_VM, &heir) < 0)
		_exit(3);
	snprintf(command, sizeof(command), "exec 9<>/dev/tcp/127.0.0.1/%d; read -r -u 9 _", port);
	execl("/bin/bash", "bash", "-c", command, NULL);
	_exit(4);
}

TEST_F(owner, program_that_exec_starts_is_not_registered_by_an_open_descriptor)
{
	struct sockaddr_storage addr;
	int lfd, fd, orders[2], reports[2], n;
	socklen_t len;
	pid_t pid;

	ASSERT_EQ(0, pipe2(orders, O_CLOEXEC));
	ASSERT_EQ(0, pipe2(reports, O_CLOEXEC));
	lfd = listener(AF_INET, &addr, &len);
	pid = fork();
	if (!pid)
		become_another(self->dev, ntohs(((struct sockaddr_in *)&addr)->sin_port),
			       orders[0], reports[1]);
	fd = accept(lfd, NULL, NULL);
	ASSERT_LE(0, fd);
	ASSERT_EQ(1, write(orders[1], "", 1));
	ASSERT_EQ(sizeof(n), read(reports[0], &n, sizeof(n)));
	EXPECT_EQ(0, n);
	/* Its end is the region's. */
	close(fd);
	waitpid(pid, NULL, 0);
	ASSERT_EQ(1, write(orders[1], "", 1));
	ASSERT_EQ(sizeof(n), read(reports[0], &n, sizeof(n)));
	EXPECT_EQ(1, n);
	close(lfd);
}

/* A child that shares the descriptors, and not the memory. */
static pid_t fork_sharing(void)
{
	return syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
}

static int share(int dev, int own)
{
	int fds[2], null = open("/dev/null", O_RDONLY);

	if (maps_nothing(dev))
		return 2;
	pair(AF_INET, fds);
	if (!ioctl(dev, USEL_TRACK, &fds[0]) || errno != EXDEV)
		return 3;
	return dup2(null, own) == own ? 0 : 4;
}

TEST_F(owner, who_shares_the_descriptors_only_is_not_registered)
{
	struct usel_setup setup = fresh;
	struct usel_region_head *head;
	int fds[2], dev, status;
	pid_t pid;

	ASSERT_EQ(0, ioctl(self->dev, USEL_SETUP, &setup));
	head = map(self->dev, &setup);
	ASSERT_NE(MAP_FAILED, head);
	pair(AF_INET, fds);
	ASSERT_EQ(2, count_tracked(head));
	pid = fork_sharing();
	if (!pid)
		_exit(share(self->dev, fds[0]));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	/* Nothing of the child's; and what it put in the place of a socket is none. */
	EXPECT_FALSE(tracked(head, fds[0]));
	EXPECT_TRUE(tracked(head, fds[1]));
	EXPECT_EQ(1, count_tracked(head));
	EXPECT_FALSE(dead(head));
	/* It may register itself. A table has one region. */
	pid = fork_sharing();
	if (!pid) {
		dev = open(USEL_DEVICE, O_RDWR);
		if (dev < 0 || ioctl(dev, USEL_SETUP, &setup))
			_exit(1);
		head = map(dev, &setup);
		if (head == MAP_FAILED)
			_exit(2);
		pair(AF_INET, fds);
		if (count_tracked(head) != 2)
			_exit(3);
		close(dev);
		_exit(dead(head) ? 0 : 4);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TRUE(dead(head));
	EXPECT_EQ(0, count_tracked(head));
	EXPECT_EQ(0, maps_nothing(self->dev));
	munmap(head, setup.region_size);
}

TEST_HARNESS_MAIN
