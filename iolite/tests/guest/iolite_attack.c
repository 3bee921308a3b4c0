// SPDX-License-Identifier: GPL-2.0
/* Nobody changes a sealed buffer, nobody reads what was not given to it. */
/* timeout: 120 */
/* long: debug minutes there */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "kselftest_harness.h"

#include <flotilla/iolite.h>
#include "iolite/tests/lib/module.h"

/* Newer than the headers of Debian 12. */
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_UNPOPULATED	(1 << 13)
#define UFFD_FEATURE_WP_ASYNC		(1 << 15)
#endif

static sigjmp_buf back;

static void jump(int sig)
{
	siglongjmp(back, sig);
}

/* The signal that a store or load brings, 0 for none. */
static int store(volatile char *at, char byte)
{
	int sig = sigsetjmp(back, 1);

	if (!sig)
		*at = byte;
	return sig;
}

static int load(volatile const char *at)
{
	int sig = sigsetjmp(back, 1);

	if (!sig)
		(void)*at;
	return sig;
}

struct world {
	int fd;
	struct iol_init init;
	char *window;
	char *fill;
};

static int world_open(struct world *w)
{
	w->fd = open("/dev/iolite", O_RDWR | O_CLOEXEC);
	if (w->fd < 0)
		return -1;
	w->init = (struct iol_init){ .version = IOL_VERSION, .scratch = -1 };
	if (ioctl(w->fd, IOL_IOC_INIT, &w->init))
		return -2;
	w->window = mmap(NULL, w->init.window, PROT_READ, MAP_SHARED, w->fd, 0);
	w->fill = mmap(NULL, w->init.window, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, w->init.fill);
	return w->window == MAP_FAILED || w->fill == MAP_FAILED ? -3 : 0;
}

FIXTURE(attack) {
	struct world w;
	struct iol_alloc a;
	int ends[2];
};

FIXTURE_SETUP(attack)
{
	struct sigaction action = { .sa_handler = jump };

	ASSERT_EQ(0, module_load());
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	ASSERT_EQ(0, pipe(self->ends));
	ASSERT_EQ(0, world_open(&self->w));
	self->a = (struct iol_alloc){ .pool = self->w.init.pool, .size = 16384 };
	ASSERT_EQ(0, ioctl(self->w.fd, IOL_IOC_ALLOC, &self->a));
	memset(self->w.fill + self->a.offset, 'x', 16384);
}

FIXTURE_TEARDOWN(attack)
{
	close(self->ends[0]);
	close(self->ends[1]);
}

static struct iol_slice slice_of(const struct iol_alloc *a, uint32_t len)
{
	return (struct iol_slice){ .offset = a->offset, .generation = a->generation, .length = len };
}

static int pipe_write(struct world *w, int fd, struct iol_slice *slice)
{
	struct iol_io io = { .fd = fd, .position = -1, .slices = (uintptr_t)slice, .count = 1 };

	return ioctl(w->fd, IOL_IOC_WRITE, &io) ? -errno : (int)io.size;
}

static int pipe_read(struct world *w, int fd, struct iol_slice *slices, struct iol_io *io)
{
	*io = (struct iol_io){ .fd = fd, .position = -1, .size = 1 << 20, .slices = (uintptr_t)slices,
			       .count = 64 };
	return ioctl(w->fd, IOL_IOC_READ, io) ? -errno : (int)io->size;
}

TEST_F(attack, a_store_after_the_write_faults)
{
	struct iol_slice slice = slice_of(&self->a, 16384);

	EXPECT_EQ(0, store(self->w.fill + self->a.offset, 'y'));
	EXPECT_EQ(16384, pipe_write(&self->w, self->ends[1], &slice));
	EXPECT_EQ(SIGBUS, store(self->w.fill + self->a.offset, 'z'));
	EXPECT_EQ(SIGBUS, store(self->w.fill + self->a.offset + 12000, 'z'));
	EXPECT_EQ(SIGSEGV, store(self->w.window + self->a.offset, 'z'));
	EXPECT_EQ(0, load(self->w.window + self->a.offset));
	EXPECT_EQ('y', self->w.window[self->a.offset]);
}

TEST_F(attack, mprotect_mremap_madvise_and_private_mappings_are_refused)
{
	struct iol_seal seal = { .slice = slice_of(&self->a, 1) };
	struct iol_init init = { .version = IOL_VERSION, .scratch = -1 };
	char *window = self->w.window, *fill = self->w.fill, *place;
	size_t size = self->w.init.window;
	int fd;

	ASSERT_EQ(0, ioctl(self->w.fd, IOL_IOC_SEAL, &seal));
	EXPECT_EQ(-1, mprotect(window, size, PROT_READ | PROT_WRITE));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(-1, mprotect(window + self->a.offset, 4096, PROT_READ | PROT_WRITE));
	EXPECT_EQ(-1, mprotect(window, size, PROT_READ | PROT_EXEC));
	EXPECT_EQ(-1, mprotect(fill, size, PROT_READ));
	EXPECT_EQ(MAP_FAILED, mremap(window, size, size, MREMAP_MAYMOVE | MREMAP_DONTUNMAP));
	EXPECT_EQ(MAP_FAILED, mremap(window, 4096, 8192, MREMAP_MAYMOVE));
	/* The kernel itself has nothing against a move. */
	place = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ASSERT_NE(MAP_FAILED, place);
	EXPECT_EQ(MAP_FAILED, mremap(window, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, place));
	EXPECT_EQ(MAP_FAILED, mremap(window, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, place));
	EXPECT_EQ(-1, madvise(window, size, MADV_DOFORK));
	EXPECT_EQ(-1, madvise(window, size, MADV_DODUMP));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, size, PROT_READ, MAP_SHARED, self->w.fd, 0));
	/* Of one that is not mapped yet. */
	fd = open("/dev/iolite", O_RDWR | O_CLOEXEC);
	ASSERT_EQ(0, ioctl(fd, IOL_IOC_INIT, &init));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 65536, PROT_READ, MAP_SHARED, fd, 0));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	EXPECT_NE(MAP_FAILED, mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0));
	close(fd);
	EXPECT_EQ(-1, munmap(window + 4096, 4096));
	EXPECT_EQ(SIGBUS, store(fill + self->a.offset, 'z'));
	EXPECT_EQ('x', window[self->a.offset]);
}

TEST_F(attack, the_kernel_does_not_pin_or_write_it_for_anybody)
{
	struct iol_seal seal = { .slice = slice_of(&self->a, 1) };
	char *at = self->w.window + self->a.offset;
	struct iovec iov = { at, 4096 }, mine;
	int mem, zero, ends[2];
	char byte = 'z';
	int writable;

	ASSERT_EQ(0, ioctl(self->w.fd, IOL_IOC_SEAL, &seal));
	ASSERT_EQ('x', *at);
	mem = open("/proc/self/mem", O_RDWR);
	EXPECT_EQ(-1, pwrite(mem, &byte, 1, (off_t)(uintptr_t)at));
	EXPECT_EQ(-1, pwrite(mem, &byte, 1, (off_t)(uintptr_t)(self->w.fill + self->a.offset)));
	mine = (struct iovec){ &byte, 1 };
	iov.iov_len = 1;
	EXPECT_EQ(-1, process_vm_writev(getpid(), &mine, 1, &iov, 1, 0));
	iov.iov_len = 4096;
	ASSERT_EQ(0, pipe(ends));
	EXPECT_EQ(-1, vmsplice(ends[1], &iov, 1, 0));
	EXPECT_EQ(-1, vmsplice(ends[1], &iov, 1, SPLICE_F_GIFT));
	zero = open("/dev/zero", O_RDONLY);
	EXPECT_EQ(-1, read(zero, at, 1));
	writable = read(zero, self->w.fill + self->a.offset, 1);
	EXPECT_EQ(-1, writable);
	EXPECT_EQ('x', *at);
	close(mem), close(zero), close(ends[0]), close(ends[1]);
}

TEST_F(attack, direct_io_into_the_window_is_refused)
{
	char *at = self->w.fill + self->a.offset;
	int fd;

	/* Into a buffer that may still be filled: a pinned page would outlive the seal. */
	ASSERT_EQ(0, system("dd if=/dev/zero of=/tmp/iolite.img bs=1M count=8 2>/dev/null && mkdir -p /tmp/iolite.mnt && "
			    "mkfs.ext4 -q /tmp/iolite.img && " MODULE_MOUNT("/tmp/iolite.img", "/tmp/iolite.mnt") " && "
			    "dd if=/dev/zero of=/tmp/iolite.mnt/f bs=64K count=1 2>/dev/null"));
	fd = open("/tmp/iolite.mnt/f", O_RDWR | O_DIRECT);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, read(fd, at, 4096));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ('x', *at);
	close(fd);
	EXPECT_EQ(0, system("umount -d /tmp/iolite.mnt"));
}

TEST_F(attack, a_tracer_can_neither_read_nor_write_it)
{
	char *at = self->w.window + self->a.offset;
	int status, go[2];
	char byte = 0;
	pid_t pid;

	ASSERT_EQ(0, pipe(go));
	pid = fork();
	if (!pid) {
		struct world w;
		struct iol_alloc a;

		if (world_open(&w))
			_exit(1);
		a = (struct iol_alloc){ .pool = w.init.pool, .size = 4096 };
		if (ioctl(w.fd, IOL_IOC_ALLOC, &a))
			_exit(2);
		w.fill[a.offset] = 'q';
		at = w.window + a.offset;
		if (write(go[1], &at, sizeof(at)) != sizeof(at))
			_exit(3);
		pause();
		_exit(0);
	}
	ASSERT_EQ(sizeof(at), read(go[0], &at, sizeof(at)));
	ASSERT_EQ(0, ptrace(PTRACE_ATTACH, pid, 0, 0));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	errno = 0;
	EXPECT_EQ(-1, ptrace(PTRACE_PEEKDATA, pid, at, 0));
	EXPECT_NE(0, errno);
	EXPECT_EQ(-1, ptrace(PTRACE_POKEDATA, pid, at, 0));
	EXPECT_EQ(-1, process_vm_readv(pid, &(struct iovec){ &byte, 1 }, 1, &(struct iovec){ at, 1 }, 1, 0));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

TEST_F(attack, userfaultfd_write_protection_opens_nothing)
{
	struct iol_seal seal = { .slice = slice_of(&self->a, 1) };
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_WP };
	struct uffdio_writeprotect wp = { 0 };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
		SKIP(return, "no userfaultfd with asynchronous write-protection");
	reg.range.start = (uintptr_t)self->w.window;
	reg.range.len = self->w.init.window;
	EXPECT_EQ(-1, ioctl(fd, UFFDIO_REGISTER, &reg));
	/* What may be filled may be registered, before and after the seal. */
	reg.range.start = (uintptr_t)self->w.fill;
	wp.range = reg.range;
	wp.range.start += self->a.offset;
	wp.range.len = 16384;
	if (!ioctl(fd, UFFDIO_REGISTER, &reg)) {
		wp.mode = UFFDIO_WRITEPROTECT_MODE_WP;
		ioctl(fd, UFFDIO_WRITEPROTECT, &wp);
		ASSERT_EQ(0, ioctl(self->w.fd, IOL_IOC_SEAL, &seal));
		wp.mode = 0;
		ioctl(fd, UFFDIO_WRITEPROTECT, &wp);
	} else {
		ASSERT_EQ(0, ioctl(self->w.fd, IOL_IOC_SEAL, &seal));
	}
	EXPECT_EQ(SIGBUS, store(self->w.fill + self->a.offset, 'z'));
	EXPECT_EQ('x', self->w.window[self->a.offset]);
	close(fd);
}

TEST_F(attack, a_child_has_no_window_and_no_use_of_the_descriptor)
{
	struct iol_slice slice = slice_of(&self->a, 100);
	int status;
	pid_t pid = fork();

	if (!pid) {
		struct iol_alloc a = { .pool = self->w.init.pool, .size = 4096 };

		if (ioctl(self->w.fd, IOL_IOC_ALLOC, &a) != -1 || errno != EPERM)
			_exit(1);
		if (mmap(NULL, self->w.init.window, PROT_READ, MAP_SHARED, self->w.fd, 0) != MAP_FAILED)
			_exit(2);
		if (load(self->w.window + self->a.offset) != SIGSEGV)
			_exit(3);
		if (pipe_write(&self->w, self->ends[1], &slice) != -EPERM)
			_exit(4);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
}

TEST_F(attack, what_was_not_given_cannot_be_read_or_named)
{
	struct iol_slice slice = slice_of(&self->a, 16384), in[64];
	int status, told[2];
	struct iol_io io;
	char byte;
	pid_t pid;

	ASSERT_EQ(0, pipe(told));
	pid = fork();
	if (!pid) {
		struct iol_slice bad = slice;
		struct world w;

		if (world_open(&w))
			_exit(1);
		if (load(w.window + self->a.offset) != SIGBUS)
			_exit(2);
		if (pipe_write(&w, self->ends[1], &slice) != -EACCES)
			_exit(3);
		/* Any load from the whole window's start. */
		if (load(w.window) != SIGBUS && self->a.offset != 0)
			_exit(4);
		if (store(w.fill + self->a.offset, 'z') != SIGBUS)
			_exit(5);
		close(told[1]);
		if (pipe_read(&w, self->ends[0], in, &io) != 16384 || in[0].offset != slice.offset)
			_exit(6);
		if (load(w.window + slice.offset) || w.window[slice.offset] != 'x')
			_exit(7);
		if (store(w.fill + slice.offset, 'z') != SIGBUS || store(w.window + slice.offset, 'z') != SIGSEGV)
			_exit(8);
		bad.generation++;
		if (pipe_write(&w, self->ends[1], &bad) != -ESTALE)
			_exit(9);
		bad = slice;
		bad.length = 16385;
		if (pipe_write(&w, self->ends[1], &bad) != -EINVAL)
			_exit(10);
		bad.length = 0;
		if (pipe_write(&w, self->ends[1], &bad) != -EINVAL)
			_exit(11);
		bad = slice;
		bad.offset = ~0ULL;
		if (pipe_write(&w, self->ends[1], &bad) != -EINVAL)
			_exit(12);
		_exit(0);
	}
	/* What may still be filled is refused to it as well. */
	close(told[1]);
	EXPECT_EQ(0, read(told[0], &byte, 1));
	close(told[0]);
	EXPECT_EQ(16384, pipe_write(&self->w, self->ends[1], &slice));
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
}

TEST_F(attack, a_released_buffer_has_no_name_any_more)
{
	struct iol_slice slice = slice_of(&self->a, 1);
	struct iol_release release = { .slices = (uintptr_t)&slice, .count = 1 };
	struct iol_alloc again = self->a;

	ASSERT_EQ(0, ioctl(self->w.fd, IOL_IOC_RELEASE, &release));
	EXPECT_EQ(-ESTALE, pipe_write(&self->w, self->ends[1], &slice));
	EXPECT_EQ(SIGBUS, store(self->w.fill + self->a.offset, 'z'));
	ASSERT_EQ(-1, ioctl(self->w.fd, IOL_IOC_RELEASE, &release));
	EXPECT_EQ(ESTALE, errno);
	again.size = 16384;
	ASSERT_EQ(0, ioctl(self->w.fd, IOL_IOC_ALLOC, &again));
	EXPECT_EQ(self->a.offset, again.offset);
	EXPECT_NE(self->a.generation, again.generation);
	EXPECT_EQ(-ESTALE, pipe_write(&self->w, self->ends[1], &slice));
	EXPECT_EQ(0, store(self->w.fill + again.offset, 'n'));
}

struct race {
	volatile char *at;
	volatile int stop;
};

/* Stores whenever it can; a fault ends nothing. */
static void *race_store(void *arg)
{
	struct race *race = arg;
	char byte = 0;

	while (!race->stop) {
		/* Through the kernel: a fault is an errno and no signal. */
		int fd = open("/dev/zero", O_RDONLY);
		int i;

		for (i = 0; i < 50; i++) {
			if (read(fd, (char *)race->at + 64 + (byte++ & 63), 1) < 0)
				continue;
		}
		close(fd);
	}
	return NULL;
}

/* As many rounds as a slow kernel manages in this time, if not all. */
#define ROUNDS		2000
#define SECONDS_MOST	20

TEST_F(attack, no_store_lands_after_the_seal_in_up_to_2000_rounds)
{
	struct race race = { 0 };
	time_t start = time(NULL);
	pthread_t thread;
	int round;

	for (round = 0; round < ROUNDS && time(NULL) - start < SECONDS_MOST; round++) {
		struct iol_alloc a = { .pool = self->w.init.pool, .size = 4096 };
		struct iol_release release = { .count = 1 };
		struct iol_seal seal;
		char before[256];
		int i;

		ASSERT_EQ(0, ioctl(self->w.fd, IOL_IOC_ALLOC, &a));
		memset(self->w.fill + a.offset, 'f', 4096);
		race.at = self->w.fill + a.offset;
		if (!round)
			ASSERT_EQ(0, pthread_create(&thread, NULL, race_store, &race));
		for (i = 0; i < round % 7 * 20; i++)
			sched_yield();
		seal.slice = slice_of(&a, 1);
		ASSERT_EQ(0, ioctl(self->w.fd, IOL_IOC_SEAL, &seal));
		memcpy(before, self->w.window + a.offset, sizeof(before));
		sched_yield();
		ASSERT_EQ(0, memcmp(before, self->w.window + a.offset, sizeof(before)));
		release.slices = (uintptr_t)&seal.slice;
		ASSERT_EQ(0, ioctl(self->w.fd, IOL_IOC_RELEASE, &release));
	}
	race.stop = 1;
	pthread_join(thread, NULL);
	TH_LOG("%d rounds", round);
	EXPECT_LT(20, round);
}

TEST_F(attack, calls_with_nonsense_change_nothing)
{
	struct iol_alloc a = { .pool = 12345678, .size = 4096 };
	struct iol_pool_args pool = { .pool = self->w.init.pool };
	struct iol_io io = { .fd = -1, .position = -1, .count = 1, .size = 1 };

	EXPECT_EQ(-1, ioctl(self->w.fd, IOL_IOC_ALLOC, &a));
	EXPECT_EQ(ENOENT, errno);
	a = (struct iol_alloc){ .pool = self->w.init.pool, .size = 65537 };
	EXPECT_EQ(-1, ioctl(self->w.fd, IOL_IOC_ALLOC, &a));
	EXPECT_EQ(EINVAL, errno);
	a = (struct iol_alloc){ .pool = self->w.init.pool, .size = 1, .flags = 1 };
	EXPECT_EQ(-1, ioctl(self->w.fd, IOL_IOC_ALLOC, &a));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(-1, ioctl(self->w.fd, IOL_IOC_POOL_DESTROY, &pool));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(-1, ioctl(self->w.fd, IOL_IOC_READ, &io));
	EXPECT_EQ(EBADF, errno);
	io.fd = self->ends[1];
	EXPECT_EQ(-1, ioctl(self->w.fd, IOL_IOC_READ, &io));
	EXPECT_EQ(EBADF, errno);
	io.count = IOL_SLICES_MAX + 1;
	EXPECT_EQ(-1, ioctl(self->w.fd, IOL_IOC_READ, &io));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, ioctl(self->w.fd, IOL_IOC_INIT, NULL));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, ioctl(self->w.fd, _IO(IOL_IOC_MAGIC, 99), NULL));
	EXPECT_EQ(ENOTTY, errno);
}

TEST_F(attack, a_quota_is_ENOMEM_and_no_more)
{
	struct iol_pool_args pool = { .quota = 3 * IOL_CHUNK_SIZE };
	struct iol_alloc a;
	int i;

	ASSERT_EQ(0, ioctl(self->w.fd, IOL_IOC_POOL_CREATE, &pool));
	for (i = 0; i < 4; i++) {
		a = (struct iol_alloc){ .pool = pool.pool, .size = 65536 };
		EXPECT_EQ(i < 3 ? 0 : -1, ioctl(self->w.fd, IOL_IOC_ALLOC, &a));
	}
	EXPECT_EQ(ENOMEM, errno);
	ASSERT_EQ(0, ioctl(self->w.fd, IOL_IOC_POOL_DESTROY, &pool));
}

MODULE_UNLOADS

TEST_HARNESS_MAIN
