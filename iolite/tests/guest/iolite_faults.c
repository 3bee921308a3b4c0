// SPDX-License-Identifier: GPL-2.0
/* Whichever allocation fails, a call fails with ENOMEM, nothing leaks, and the next call works. */
/* timeout: 120 */
/* kernel: debug */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "kselftest_harness.h"

#include <flotilla/iolite.h>
#include "iolite/tests/lib/module.h"

/* Most allocations of one call that are made to fail, one after the other. */
#define NTH_MOST	200
#define SENT		"/tmp/iolite.sent"

struct world {
	int fd;
	int ends[2];
	int socket[2];
	int file;
	struct iol_init init;
	struct iol_alloc a;
	char *fill;
};

static int fail_fd = -1;

/* The n-th allocation from now on, in this thread, fails. */
static int fail_nth(int n)
{
	char text[16];
	int len = sprintf(text, "%d", n);

	return pwrite(fail_fd, text, len, 0) == len ? 0 : -1;
}

/* Was it reached? Switches it off in any case. */
static int fail_done(void)
{
	char text[16] = "";
	int left;

	if (pread(fail_fd, text, sizeof(text) - 1, 0) <= 0)
		return 0;
	left = atoi(text);
	fail_nth(0);
	return left == 0;
}

static int ask(struct world *w, unsigned long cmd, void *arg)
{
	return ioctl(w->fd, cmd, arg) ? -errno : 0;
}

static int do_init(struct world *w)
{
	int fd = open("/dev/iolite", O_RDWR), err;
	struct iol_init init = { .version = IOL_VERSION, .scratch = w->ends[0] };

	if (fd < 0)
		return -errno;
	err = ioctl(fd, IOL_IOC_INIT, &init) ? -errno : 0;
	if (!err && mmap(NULL, init.window, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
		err = -errno;
	close(fd);
	return err;
}

static int do_pool(struct world *w)
{
	struct iol_pool_args args = { 0 };
	struct iol_alloc a = { .size = 65536 };
	struct iol_release release = { .count = 1 };
	struct iol_slice slice;
	int err = ask(w, IOL_IOC_POOL_CREATE, &args);

	if (err)
		return err;
	a.pool = args.pool;
	err = ask(w, IOL_IOC_ALLOC, &a);
	if (!err) {
		slice = (struct iol_slice){ a.offset, a.generation, 1, 0 };
		release.slices = (uintptr_t)&slice;
		err = ask(w, IOL_IOC_RELEASE, &release);
	}
	if (ask(w, IOL_IOC_POOL_DESTROY, &args))
		return -EFAULT;
	return err;
}

/* A pool that another domain of this process may read. */
static int do_grant(struct world *w)
{
	struct iol_init init = { .version = IOL_VERSION, .scratch = -1 };
	struct iol_pool_args args = { .pool = w->init.pool };
	int fd = open("/dev/iolite", O_RDWR), err;

	if (fd < 0)
		return -errno;
	err = ioctl(fd, IOL_IOC_INIT, &init) ? -errno : 0;
	args.domain = init.domain;
	if (!err)
		err = ask(w, IOL_IOC_POOL_GRANT, &args);
	close(fd);
	return err;
}

/* A buffer that is sealed, made writable again, and given back. */
static int do_reopen(struct world *w)
{
	struct iol_alloc a = { .pool = w->init.pool, .size = 4096 };
	struct iol_seal seal = { .slice = { .length = 1 } };
	struct iol_release release = { .slices = (uintptr_t)&seal.slice, .count = 1 };
	int err = ask(w, IOL_IOC_ALLOC, &a), over;

	if (err)
		return err;
	seal.slice.offset = a.offset;
	seal.slice.generation = a.generation;
	err = ask(w, IOL_IOC_SEAL, &seal);
	if (!err)
		err = ask(w, IOL_IOC_REOPEN, &a);
	/* Its name is another one now. If that could not be said the buffer stays until the end. */
	seal.slice.generation = a.generation;
	over = ask(w, IOL_IOC_RELEASE, &release);
	return err ? err : over;
}

static int do_policy(struct world *w)
{
	struct iol_policy policy = { .policy = IOL_POLICY_LRU };
	int err = ask(w, IOL_IOC_POLICY, &policy);

	policy.policy = IOL_POLICY_SYSTEM;
	return err ? err : ask(w, IOL_IOC_POLICY, &policy);
}

static int do_write(struct world *w, int fd)
{
	struct iol_slice slice[10];
	struct iol_io io = { .fd = fd, .position = -1, .slices = (uintptr_t)slice, .count = 10,
			     .flags = IOL_IO_NOWAIT };
	int i;

	for (i = 0; i < 10; i++)
		slice[i] = (struct iol_slice){ w->a.offset + i * 300, w->a.generation, 300, 0 };
	return ask(w, IOL_IOC_WRITE, &io);
}

/* What came is given back; a refusal must not have cost data. */
static int do_read(struct world *w, int fd, long long pos)
{
	struct iol_slice slice[64];
	struct iol_io io = { .fd = fd, .position = pos, .slices = (uintptr_t)slice, .count = 64,
			     .size = 100000, .flags = IOL_IO_NOWAIT };
	struct iol_release release = { .slices = (uintptr_t)slice };
	int err = ask(w, IOL_IOC_READ, &io), i;

	if (err || !io.count)
		return err;
	for (i = 0; i < (int)io.count; i++)
		slice[i].length = 1;
	release.count = io.count;
	return ask(w, IOL_IOC_RELEASE, &release);
}

static int do_pipe(struct world *w)
{
	char drain[4096];
	int err = do_write(w, w->ends[1]);

	if (!err)
		err = do_read(w, w->ends[0], -1);
	while (read(w->ends[0], drain, sizeof(drain)) > 0)
		;
	return err;
}

static int do_unix(struct world *w)
{
	char drain[4096];
	int err = do_write(w, w->socket[1]);

	if (!err)
		err = do_read(w, w->socket[0], -1);
	while (recv(w->socket[0], drain, sizeof(drain), MSG_DONTWAIT) > 0)
		;
	return err;
}

static int do_copy(struct world *w)
{
	if (write(w->ends[1], "some bytes", 10) != 10)
		return -errno;
	return do_pipe(w);
}

/* A header, and what @from has, to a socket, which is emptied then. */
static int do_send(struct world *w, int from)
{
	char head[100] = "head", drain[4096];
	struct iol_send send = { .fd = w->socket[1], .file = from, .head = (uintptr_t)head,
				 .head_len = sizeof(head), .flags = IOL_IO_NOWAIT, .size = 100000 };
	int err = ask(w, IOL_IOC_SEND, &send);

	while (recv(w->socket[0], drain, sizeof(drain), MSG_DONTWAIT) > 0)
		;
	return err;
}

/* Changed each time, so that the cache must read it, and old enough to be cached. */
static int do_send_file(struct world *w)
{
	static char bytes[20000];
	int fd = open(SENT, O_WRONLY | O_CREAT, 0600), err;
	ssize_t n = write(fd, bytes, sizeof(bytes));

	close(fd);
	usleep(30000);
	fd = open(SENT, O_RDONLY);
	if (fd < 0 || n != sizeof(bytes))
		return -ENOMEM;
	err = do_send(w, fd);
	if (!err)
		err = do_send(w, fd);
	close(fd);
	return err;
}

/* More slots than a call has room for on its stack. */
static int do_send_pipe(struct world *w)
{
	char drain[4096];
	int err = 0, i;

	for (i = 0; i < 3 && !err; i++)
		err = do_write(w, w->ends[1]);
	if (!err)
		err = do_send(w, w->ends[0]);
	while (read(w->ends[0], drain, sizeof(drain)) > 0)
		;
	return err;
}

static int do_file(struct world *w)
{
	int err = do_write(w, w->file);

	return err ? err : do_read(w, w->file, 0);
}

FIXTURE(faults) {
	struct world w;
};

FIXTURE_SETUP(faults)
{
	struct world *w = &self->w;

	ASSERT_EQ(0, module_load());
	fail_fd = open("/proc/thread-self/fail-nth", O_RDWR);
	if (fail_fd < 0)
		SKIP(return, "the kernel has no fault injection");
	system("for d in failslab fail_page_alloc; do cd /sys/kernel/debug/$d || exit; "
	       "for f in ignore-gfp-wait ignore-gfp-highmem; do [ ! -e $f ] || echo N > $f; done; "
	       "echo 0 > verbose; done");
	w->fd = open("/dev/iolite", O_RDWR);
	w->init = (struct iol_init){ .version = IOL_VERSION, .scratch = -1 };
	ASSERT_EQ(0, pipe2(w->ends, O_NONBLOCK));
	ASSERT_LE(0, fcntl(w->ends[1], F_SETPIPE_SZ, 1 << 20));
	ASSERT_EQ(0, pipe2(w->socket, O_NONBLOCK));
	w->init.scratch = w->socket[0];
	ASSERT_EQ(0, ask(w, IOL_IOC_INIT, &w->init));
	close(w->socket[0]), close(w->socket[1]);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, w->socket));
	w->file = open("/tmp/iolite.faults", O_RDWR | O_CREAT | O_TRUNC, 0600);
	w->fill = mmap(NULL, w->init.window, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, w->init.fill);
	ASSERT_NE(MAP_FAILED, w->fill);
	w->a = (struct iol_alloc){ .pool = w->init.pool, .size = 65536 };
	ASSERT_EQ(0, ask(w, IOL_IOC_ALLOC, &w->a));
	memset(w->fill + w->a.offset, 'x', 65536);
}

FIXTURE_TEARDOWN(faults)
{
	unlink("/tmp/iolite.faults");
	unlink(SENT);
}

/* Let each allocation of @op fail in turn; how many there were, or what went wrong. */
static int every_allocation(struct world *w, int (*op)(struct world *w))
{
	int n, err;

	for (n = 1; n <= NTH_MOST; n++) {
		fail_nth(n);
		err = op(w);
		if (!fail_done())
			return err ? err : n;
		/* Some failures have a way round. */
		if (err && err != -ENOMEM && err != -EAGAIN && err != -ENFILE && err != -ENOBUFS &&
		    err != -EFAULT)
			return err;
		err = op(w);
		if (err)
			return err;
	}
	return n;
}

#define FAULTS(op, name) \
	TEST_F(faults, name) \
	{ \
		int n = every_allocation(&self->w, op); \
		EXPECT_LT(1, n); \
		TH_LOG("%d allocations", n - 1); \
	}

FAULTS(do_init, becoming_a_domain)
FAULTS(do_pool, a_pool_and_a_buffer)
FAULTS(do_grant, a_pool_is_granted)
FAULTS(do_reopen, a_buffer_is_sealed_and_opened_again)
FAULTS(do_policy, a_policy_is_chosen)
FAULTS(do_pipe, through_a_pipe)
FAULTS(do_unix, through_a_unix_socket)
FAULTS(do_copy, from_an_ordinary_writer)
FAULTS(do_file, to_a_file_and_back)
FAULTS(do_send_file, a_header_and_a_file_in_one_call)
FAULTS(do_send_pipe, a_header_and_a_pipe_in_one_call)

MODULE_UNLOADS

TEST_HARNESS_MAIN
