// SPDX-License-Identifier: GPL-2.0
/* What read(2), write(2) and fork(2) promise our calls keep: who may forbid, how long they wait, what a child has. */
/* timeout: 240 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <linux/net_tstamp.h>

#include "kselftest_harness.h"

#include <flotilla/iolite.h>
#include <iolite.h>
#include "iolite/tests/lib/module.h"
#include "iolite/tests/lib/read.h"

#define SIZE	200000

FIXTURE(calls) {
	int fd;
};

FIXTURE_SETUP(calls)
{
	static char bytes[SIZE];
	int fd;

	ASSERT_EQ(0, module_load());
	memset(bytes, 'c', SIZE);
	fd = open("/tmp/iolite.calls", O_RDWR | O_CREAT | O_TRUNC, 0644);
	ASSERT_EQ(SIZE, write(fd, bytes, SIZE));
	close(fd);
	self->fd = open("/tmp/iolite.calls", O_RDONLY);
	usleep(50000);
	/* A call that waits for ever is a failure; a guest that waits for its turn is none. */
	alarm(100);
}

FIXTURE_TEARDOWN(calls)
{
	close(self->fd);
	unlink("/tmp/iolite.calls");
}

static long milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Answers permission events with @answer, until there is none for a second; how many it gave. */
static int watcher(int group, int answer)
{
	struct pollfd ready = { .fd = group, .events = POLLIN };
	struct fanotify_event_metadata event[16], *at;
	int answers = 0;
	ssize_t n;

	while (poll(&ready, 1, 1000) == 1) {
		n = read(group, event, sizeof(event));
		for (at = event; FAN_EVENT_OK(at, n); at = FAN_EVENT_NEXT(at, n)) {
			struct fanotify_response response = { .fd = at->fd, .response = answer };

			if (at->mask & FAN_ACCESS_PERM && write(group, &response, sizeof(response)) > 0)
				answers++;
			close(at->fd);
		}
	}
	return answers;
}

/* What two reads of the cached file give while somebody answers so, and how often he was asked. */
static int reads_while(int answer, int *first, int *second)
{
	int group = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY), status, fd;
	pid_t pid;

	if (group < 0 || fanotify_mark(group, FAN_MARK_ADD, FAN_ACCESS_PERM, AT_FDCWD, "/tmp/iolite.calls"))
		return -1;
	pid = fork();
	if (!pid)
		_exit(watcher(group, answer));
	/* In the child's hands alone: when it ends, nobody is asked any more. */
	close(group);
	/* The kernel asks for files that were opened while somebody watches. */
	fd = open("/tmp/iolite.calls", O_RDONLY);
	*first = read_some(fd, SIZE);
	*second = read_some(fd, SIZE);
	close(fd);
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Whether this kernel has permission events at all. */
static bool watchers_may_deny(void)
{
	int group = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY);
	bool may = !fanotify_mark(group, FAN_MARK_ADD, FAN_ACCESS_PERM, AT_FDCWD, "/tmp/iolite.calls") ||
		   errno != EINVAL;

	close(group);
	return may;
}

TEST_F(calls, a_watcher_with_permission_to_deny_is_obeyed_on_a_hit_and_asked_once_a_call)
{
	unsigned long long hits;
	int first, second, fd;

	if (!watchers_may_deny())
		SKIP(return, "this kernel has no permission events (CONFIG_FANOTIFY_ACCESS_PERMISSIONS)");
	ASSERT_EQ(SIZE, read_some(self->fd, SIZE));
	hits = counter("FileHits");
	ASSERT_EQ(SIZE, read_some(self->fd, SIZE));
	ASSERT_LT(hits, counter("FileHits"));
	hits = counter("FileHits");
	EXPECT_EQ(2, reads_while(FAN_DENY, &first, &second));
	EXPECT_EQ(-EPERM, first);
	EXPECT_EQ(-EPERM, second);
	EXPECT_EQ(hits, counter("FileHits"));
	EXPECT_EQ(2, reads_while(FAN_ALLOW, &first, &second));
	EXPECT_EQ(SIZE, first);
	EXPECT_EQ(SIZE, second);
	EXPECT_LT(hits, counter("FileHits"));
	/* Of what is not cached, too, once for all of its chunks. */
	fd = open("/tmp/iolite.calls", O_RDWR);
	ASSERT_EQ(1, pwrite(fd, "C", 1, 0));
	close(fd);
	EXPECT_EQ(2, reads_while(FAN_ALLOW, &first, &second));
	EXPECT_EQ(SIZE, first);
}

TEST_F(calls, who_listens_hears_of_a_hit)
{
	int group = fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_NONBLOCK, O_RDONLY);
	struct fanotify_event_metadata event;

	ASSERT_LE(0, group);
	ASSERT_EQ(SIZE, read_some(self->fd, SIZE));
	ASSERT_EQ(0, fanotify_mark(group, FAN_MARK_ADD, FAN_ACCESS, AT_FDCWD, "/tmp/iolite.calls"));
	ASSERT_EQ(SIZE, read_some(self->fd, SIZE));
	ASSERT_EQ(sizeof(event), read(group, &event, sizeof(event)));
	EXPECT_EQ(FAN_ACCESS, event.mask);
	close(event.fd);
	close(group);
}

/* Files of the kernel that have only the old calls. */
TEST_F(calls, files_that_only_read_and_write_know_are_read_and_written)
{
	char text[64] = "", name[64] = "";
	IOL_Agg *agg;
	size_t n;
	int fd;

	fd = open("/proc/self/status", O_RDONLY);
	ASSERT_EQ(0, IOL_read(fd, &agg, 5, &n));
	ASSERT_EQ(5, n);
	ASSERT_EQ(5, IOL_copy_out(agg, 0, text, 5));
	EXPECT_EQ(0, memcmp(text, "Name:", 5));
	/* Where read(2) would go on. */
	EXPECT_EQ(5, lseek(fd, 0, SEEK_CUR));
	IOL_destroy(agg);
	ASSERT_EQ(0, IOL_pread(fd, &agg, 60000, 1, &n));
	EXPECT_LT(100, n);
	IOL_copy_out(agg, 0, text, 4);
	EXPECT_EQ(0, memcmp(text, "ame:", 4));
	IOL_destroy(agg);
	close(fd);
	fd = open("/proc/self/comm", O_RDWR);
	ASSERT_EQ(0, IOL_from_memory(IOL_DEF_ALLOC, &agg, "renamed", 7));
	ASSERT_EQ(0, IOL_write(fd, agg, &n));
	EXPECT_EQ(7, n);
	ASSERT_EQ(8, pread(fd, name, sizeof(name), 0));
	EXPECT_EQ(0, memcmp(name, "renamed\n", 8));
	IOL_destroy(agg);
	close(fd);
}

TEST_F(calls, a_socket_s_receive_time_out_ends_the_wait)
{
	struct timeval timeout = { .tv_usec = 300000 };
	IOL_Agg *agg;
	int pair[2];
	long start;
	size_t n;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	ASSERT_EQ(0, setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)));
	start = milliseconds();
	EXPECT_EQ(-EAGAIN, IOL_read(pair[0], &agg, 100, &n));
	EXPECT_LE(250, milliseconds() - start);
	/* And what comes in time is read. */
	ASSERT_EQ(5, write(pair[1], "hello", 5));
	ASSERT_EQ(0, IOL_read(pair[0], &agg, 100, &n));
	EXPECT_EQ(5, n);
	IOL_destroy(agg);
	close(pair[0]);
	close(pair[1]);
}

/* A pair of @kind: what is written to [1] is read from [0]. */
static int channel(const char *kind, int pair[2])
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int type = strstr(kind, "UDP") ? SOCK_DGRAM : SOCK_STREAM, listener;
	socklen_t len = sizeof(addr);

	if (!strcmp(kind, "pipe"))
		return pipe(pair);
	if (!strncmp(kind, "UNIX", 4))
		return socketpair(AF_UNIX, strstr(kind, "datagram") ? SOCK_DGRAM : SOCK_STREAM, 0, pair);
	if (!strcmp(kind, "pty")) {
		struct termios raw;

		pair[0] = posix_openpt(O_RDWR | O_NOCTTY);
		if (grantpt(pair[0]) || unlockpt(pair[0]))
			return -1;
		pair[1] = open(ptsname(pair[0]), O_RDWR | O_NOCTTY);
		tcgetattr(pair[1], &raw);
		cfmakeraw(&raw);
		return tcsetattr(pair[1], TCSANOW, &raw);
	}
	if (!strcmp(kind, "file")) {
		pair[1] = open("/tmp/iolite.kind", O_RDWR | O_CREAT | O_TRUNC, 0600);
		pair[0] = open("/tmp/iolite.kind", O_RDONLY);
		return pair[0] < 0;
	}
	listener = socket(AF_INET, type, 0);
	pair[1] = socket(AF_INET, type, 0);
	if (bind(listener, (struct sockaddr *)&addr, len) || getsockname(listener, (struct sockaddr *)&addr, &len) ||
	    (type == SOCK_STREAM && listen(listener, 1)) || connect(pair[1], (struct sockaddr *)&addr, len))
		return -1;
	pair[0] = type == SOCK_STREAM ? accept(listener, NULL, NULL) : listener;
	if (type == SOCK_STREAM)
		close(listener);
	return pair[0] < 0;
}

static const char *const kinds[] = { "file", "pipe", "UNIX stream", "UNIX datagram", "TCP", "UDP", "pty" };

TEST_F(calls, every_kind_of_descriptor_is_written_and_read_and_ends_with_0)
{
	char bytes[3000], back[3000];
	unsigned int kind, i;

	ASSERT_EQ(0, system("ip link set lo up"));
	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = i * 31;
	for (kind = 0; kind < sizeof(kinds) / sizeof(*kinds); kind++) {
		bool ends = !strstr(kinds[kind], "UDP") && !strstr(kinds[kind], "datagram") &&
			    strcmp(kinds[kind], "pty");
		IOL_Agg *agg = NULL;
		size_t n, done;
		int pair[2];

		ASSERT_EQ(0, channel(kinds[kind], pair)) {
			TH_LOG("%s", kinds[kind]);
		}
		ASSERT_EQ(0, IOL_from_memory(IOL_DEF_ALLOC, &agg, bytes, sizeof(bytes)));
		ASSERT_EQ(0, IOL_write(pair[1], agg, &n)) {
			TH_LOG("%s", kinds[kind]);
		}
		ASSERT_EQ(sizeof(bytes), n);
		IOL_destroy(agg);
		for (done = 0; done < sizeof(bytes); done += n) {
			ASSERT_EQ(0, IOL_read(pair[0], &agg, 65536, &n)) {
				TH_LOG("%s", kinds[kind]);
			}
			ASSERT_LT(0, n);
			ASSERT_GE(sizeof(bytes), done + n);
			IOL_copy_out(agg, 0, back + done, n);
			IOL_destroy(agg);
		}
		EXPECT_EQ(0, memcmp(bytes, back, sizeof(bytes))) {
			TH_LOG("%s", kinds[kind]);
		}
		close(pair[1]);
		if (ends) {
			ASSERT_EQ(0, IOL_read(pair[0], &agg, 100, &n));
			EXPECT_EQ(0, n);
			IOL_destroy(agg);
		}
		close(pair[0]);
	}
	unlink("/tmp/iolite.kind");
}

/* One who sleeps in epoll_wait until an IOL_write comes, and who polls for room until an IOL_read made some. */
TEST_F(calls, epoll_and_poll_wake_for_what_our_calls_do)
{
	static const char *const streams[] = { "pipe", "UNIX stream", "TCP" };
	unsigned int kind;

	ASSERT_EQ(0, system("ip link set lo up"));
	for (kind = 0; kind < 3; kind++) {
		struct epoll_event event = { .events = EPOLLIN };
		int pair[2], set = epoll_create1(0), status;
		struct pollfd room;
		IOL_Agg *agg;
		size_t n;
		pid_t pid;

		ASSERT_EQ(0, channel(streams[kind], pair));
		ASSERT_EQ(0, epoll_ctl(set, EPOLL_CTL_ADD, pair[0], &event));
		ASSERT_EQ(0, epoll_wait(set, &event, 1, 0));
		pid = fork();
		if (!pid) {
			usleep(200000);
			_exit(IOL_from_memory(IOL_DEF_ALLOC, &agg, "wake up", 7) || IOL_write(pair[1], agg, &n));
		}
		EXPECT_EQ(1, epoll_wait(set, &event, 1, 60000)) {
			TH_LOG("%s", streams[kind]);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(0, status);
		ASSERT_EQ(0, IOL_read(pair[0], &agg, 100, &n));
		EXPECT_EQ(7, n);
		IOL_destroy(agg);
		/* And the other way round: filled by us, emptied by us. */
		fcntl(pair[1], F_SETFL, O_NONBLOCK);
		ASSERT_EQ(0, IOL_create(IOL_DEF_ALLOC, &agg, 65536));
		while (!IOL_write(pair[1], agg, &n))
			;
		IOL_destroy(agg);
		room = (struct pollfd){ .fd = pair[1], .events = POLLOUT };
		ASSERT_EQ(0, poll(&room, 1, 0));
		pid = fork();
		if (!pid) {
			usleep(200000);
			fcntl(pair[0], F_SETFL, O_NONBLOCK);
			while (!IOL_read(pair[0], &agg, 65536, &n) && n)
				IOL_destroy(agg);
			_exit(0);
		}
		EXPECT_EQ(1, poll(&room, 1, 60000)) {
			TH_LOG("%s", streams[kind]);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		close(set);
		close(pair[0]);
		close(pair[1]);
	}
}

TEST_F(calls, a_pipe_s_room_is_an_option_and_others_are_refused)
{
	int ends[2];

	ASSERT_EQ(0, pipe(ends));
	EXPECT_EQ(65536, fcntl(ends[0], F_GETPIPE_SZ));
	EXPECT_EQ(0, IOL_control(ends[1], IOL_PIPE_ROOM));
	EXPECT_EQ(1 << 20, fcntl(ends[0], F_GETPIPE_SZ));
	EXPECT_EQ(-EOPNOTSUPP, IOL_control(ends[1], IOL_PIPE_ROOM << 1));
	EXPECT_EQ(-EINVAL, IOL_control(self->fd, IOL_PIPE_ROOM));
	EXPECT_EQ(-EBADF, IOL_control(-1, IOL_PIPE_ROOM));
	close(ends[0]);
	close(ends[1]);
}

static void full(struct __test_metadata *_metadata, int fd)
{
	static char bytes[65536];

	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	ASSERT_EQ(EAGAIN, errno);
}

TEST_F(calls, a_socket_s_send_time_out_ends_a_send_from_a_pipe)
{
	struct timeval timeout = { .tv_usec = 300000 };
	int pair[2], ends[2];
	long start;
	size_t n;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	ASSERT_EQ(0, pipe(ends));
	ASSERT_EQ(4, write(ends[1], "data", 4));
	full(_metadata, pair[0]);
	ASSERT_EQ(0, setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)));
	start = milliseconds();
	EXPECT_EQ(-EAGAIN, IOL_send(pair[0], NULL, 0, ends[0], 0, 4, 0, &n));
	EXPECT_LE(250, milliseconds() - start);
}

static long cpu_milliseconds(pid_t pid)
{
	struct timespec used;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &used))
		return -1;
	return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

/* Time stamps that nobody fetches are no room: for poll(2) such a socket is in error, without end. */
TEST_F(calls, a_sender_to_a_full_socket_with_an_error_queue_sleeps_and_can_be_killed)
{
	int stamps = SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE |
		     SOF_TIMESTAMPING_OPT_TSONLY;
	struct pollfd room = { .events = POLLOUT };
	int pair[2], ends[2], status, left = 6000, size = 16384;
	pid_t pid;
	long cpu;

	ASSERT_EQ(0, channel("TCP", pair));
	/* Full for good: neither end gets more room by itself. */
	ASSERT_EQ(0, setsockopt(pair[0], SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)));
	ASSERT_EQ(0, setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)));
	ASSERT_EQ(0, setsockopt(pair[1], SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof(stamps)));
	ASSERT_EQ(0, pipe(ends));
	ASSERT_EQ(4, write(ends[1], "data", 4));
	room.fd = pair[1];
	do {
		full(_metadata, pair[1]);
		usleep(300000);
		poll(&room, 1, 0);
	} while (room.revents & POLLOUT);
	ASSERT_EQ(POLLERR, room.revents);

	pid = fork();
	if (!pid) {
		struct iol_init init = { .version = IOL_VERSION, .scratch = -1 };
		struct iol_send send = { .fd = pair[1], .file = ends[0], .size = 4 };
		int dev = open("/dev/iolite", O_RDWR);

		close(pair[0]);
		if (module_domain(dev, &init))
			_exit(1);
		_exit(ioctl(dev, IOL_IOC_SEND, &send) ? 2 : 0);
	}
	usleep(500000);
	cpu = cpu_milliseconds(pid);
	usleep(1000000);
	EXPECT_GT(500, cpu_milliseconds(pid) - cpu);
	kill(pid, SIGKILL);
	while (left-- && !waitpid(pid, &status, WNOHANG))
		usleep(10000);
	EXPECT_LT(0, left);
	/* What no signal ends, the end of the connection does. */
	close(pair[0]);
	if (left < 0)
		waitpid(pid, &status, 0);
	/* Not by itself: it had nothing to end for. */
	EXPECT_TRUE(WIFSIGNALED(status));
	close(pair[1]);
	close(ends[0]);
	close(ends[1]);
}

/* One description that waits and one that does not, of the same pipe. */
TEST_F(calls, who_does_not_wait_does_not_wait_for_another_writer_either)
{
	char name[64];
	int ends[2], fast;
	IOL_Agg *agg;
	pid_t pid;
	size_t n;

	ASSERT_EQ(0, pipe(ends));
	snprintf(name, sizeof(name), "/proc/self/fd/%d", ends[1]);
	fast = open(name, O_WRONLY | O_NONBLOCK);
	ASSERT_LE(0, fast);
	pid = fork();
	if (!pid) {
		/* More than the pipe holds: it waits in the middle. */
		IOL_create(IOL_DEF_ALLOC, &agg, 1 << 20);
		IOL_write(ends[1], agg, &n);
		_exit(0);
	}
	/* It has filled the pipe, however slow the machine is. */
	while (poll(&(struct pollfd){ .fd = ends[1], .events = POLLOUT }, 1, 0))
		usleep(10000);
	ASSERT_EQ(0, IOL_create(IOL_DEF_ALLOC, &agg, 10000));
	/* The other one waits for as long as nobody reads: so would this, up to the alarm. */
	EXPECT_EQ(-EAGAIN, IOL_write(fast, agg, &n));
	IOL_destroy(agg);
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	close(fast);
	close(ends[0]);
	close(ends[1]);
}

static int uses_in_child(IOL_Agg *read, IOL_Agg *made, IOL_Agg *both, IOL_Context *context, IOL_Allocator *alloc)
{
	uint64_t digest;
	const char *at;
	IOL_Agg *own;
	char bytes[8];
	size_t n;
	int null = open("/dev/null", O_WRONLY);

	if (IOL_copy_out(read, 0, bytes, 8) || IOL_gen_nextRd(context, &at, &n) != -ESTALE)
		return 1;
	if (IOL_write(null, made, &n) != -ESTALE || IOL_digest(both, &digest, &n) != -ESTALE)
		return 2;
	IOL_destroy(read);
	IOL_destroy(made);
	IOL_gen_end(context);
	IOL_destroy(both);
	if (IOL_destroy_allocator(alloc))
		return 3;
	/* And now something of its own. */
	if (IOL_from_memory(IOL_DEF_ALLOC, &own, "child", 5) || IOL_write(null, own, &n) || n != 5 ||
	    IOL_copy_out(own, 0, bytes, 5) != 5 || memcmp(bytes, "child", 5))
		return 4;
	IOL_destroy(own);
	return 0;
}

TEST_F(calls, what_a_child_inherits_can_be_destroyed_and_is_nothing_else)
{
	IOL_Agg *read, *made, *both;
	IOL_Allocator *alloc;
	IOL_Context *context;
	int status, how;
	pid_t pid;
	size_t n;

	ASSERT_EQ(0, IOL_create_allocator(&alloc, NULL));
	ASSERT_EQ(0, IOL_pread(self->fd, &read, 100000, 0, &n));
	ASSERT_EQ(0, IOL_from_memory(alloc, &made, "parent", 6));
	ASSERT_EQ(0, IOL_concat(&both, made, read));
	ASSERT_EQ(0, IOL_gen_start(both, &context));
	/* Libraries' hooks do not see a bare system call. */
	for (how = 0; how < 2; how++) {
		pid = how ? syscall(SYS_fork) : fork();
		if (!pid)
			_exit(uses_in_child(read, made, both, context, alloc));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(0, status);
	}
	/* The parent has all of it still. */
	EXPECT_EQ(100006, IOL_length(both));
	EXPECT_EQ('p', ({ char byte = 0; IOL_copy_out(both, 0, &byte, 1); byte; }));
	EXPECT_EQ('c', ({ char byte = 0; IOL_copy_out(both, 6, &byte, 1); byte; }));
	IOL_gen_end(context);
	IOL_destroy(both);
	IOL_destroy(made);
	IOL_destroy(read);
	EXPECT_EQ(0, IOL_destroy_allocator(alloc));
}

/* The library's descriptor of the device; -1: none. */
static int device_number(void)
{
	char path[64], name[64];
	int fd;

	for (fd = 3; fd < 1024; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, name, sizeof(name) - 1);
		if (n > 0 && !strncmp(name, "/dev/iolite", n))
			return fd;
	}
	return -1;
}

static int device_numbers(void)
{
	int fd = device_number(), other, n;

	if (fd < 0)
		return 0;
	other = dup(0);
	dup2(other, fd);
	close(other);
	n = 1 + device_numbers();
	close(fd);
	return n;
}

/* What has the number that was the parent's is the child's own, and stays; the copy of the device goes. */
TEST_F(calls, a_child_keeps_what_it_has_under_the_number_of_its_parent_s_device)
{
	struct stat before, after;
	int status, fd, ends[2];
	IOL_Agg *agg;
	pid_t pid;

	ASSERT_EQ(SIZE, read_some(self->fd, SIZE));
	fd = device_number();
	ASSERT_LE(0, fd);
	pid = fork();
	if (!pid) {
		if (pipe(ends) || dup2(ends[0], fd) != fd || fstat(fd, &before))
			_exit(1);
		if (IOL_from_memory(IOL_DEF_ALLOC, &agg, "child", 5))
			_exit(2);
		_exit(fstat(fd, &after) || before.st_ino != after.st_ino ? 3 : 0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	pid = fork();
	if (!pid)
		_exit(read_some(self->fd, SIZE) == SIZE ? device_numbers() : 10);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(1, WEXITSTATUS(status));
}

/* It ends in the next call that may end it, which IOL_from_memory is not. */
static void *cancelled_at_once(void *unused)
{
	IOL_Agg *agg;

	(void)unused;
	pthread_cancel(pthread_self());
	if (IOL_from_memory(IOL_DEF_ALLOC, &agg, "x", 1))
		return NULL;
	IOL_destroy(agg);
	pthread_testcancel();
	return NULL;
}

static int cancelled_in_the_first_call(void)
{
	pthread_t thread;
	IOL_Agg *agg;
	void *how;

	/* Who waits for a lock that nobody gives back. */
	alarm(60);
	if (pthread_create(&thread, NULL, cancelled_at_once, NULL) || pthread_join(thread, &how) ||
	    how != PTHREAD_CANCELED)
		return 1;
	return IOL_from_memory(IOL_DEF_ALLOC, &agg, "x", 1) ? 2 : 0;
}

TEST_F(calls, a_thread_that_is_cancelled_while_the_library_starts_leaves_no_lock)
{
	int status;
	pid_t pid = fork();

	/* In a child the library starts anew. */
	if (!pid)
		_exit(cancelled_in_the_first_call());
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

MODULE_UNLOADS

TEST_HARNESS_MAIN
