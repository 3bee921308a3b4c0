// SPDX-License-Identifier: GPL-2.0
/*
 * Writes that nobody tells the cache of, and that take long: libaio's and io_uring's, direct and
 * buffered. The disk takes 600 ms for a write where that matters, and none for a read.
 */
/* timeout: 240 */
/* long: debug it takes two minutes there */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/aio_abi.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "kselftest_harness.h"

#include <flotilla/iolite.h>
#include <iolite.h>
#include "iolite/tests/lib/module.h"

#define MNT	"/tmp/iolite.slow"
#define IMAGE	"/tmp/iolite.slow.img"
#define DISK	"iolite-slow"
#define SIZE	(256u << 10)
#define AT	(128u << 10)
#define DELAY	600
/* For a write that is ended by hand, before this time is over. */
#define LONG	25000

FIXTURE(slow) {
	int fd;
	int direct;
	char *page;
};

/* What a write to the disk takes from here on. */
static int write_takes(int milliseconds)
{
	char command[500];

	snprintf(command, sizeof(command),
		 "loop=$(losetup -j " IMAGE " | cut -d: -f1); dmsetup suspend " DISK " && "
		 "echo \"0 131072 delay $loop 0 0 $loop 0 %d\" | dmsetup load " DISK " && "
		 "dmsetup resume --noudevsync " DISK, milliseconds);
	return system(command);
}

static void remove_disk(void)
{
	if (system("umount " MNT " 2>/dev/null; dmsetup remove --retry " DISK " 2>/dev/null; "
		   "for l in $(losetup -j " IMAGE " | cut -d: -f1); do losetup -d $l; done; rm -f " IMAGE))
		return;
}

FIXTURE_SETUP(slow)
{
	char command[500];

	ASSERT_EQ(0, module_load());
	remove_disk();
	snprintf(command, sizeof(command),
		 "modprobe dm-delay; mkdir -p " MNT "; truncate -s 64M " IMAGE "; "
		 "mkfs.ext4 -q -O ^has_journal " IMAGE "; loop=$(losetup -f --show " IMAGE "); "
		 "echo \"0 131072 delay $loop 0 0 $loop 0 0\" | dmsetup create --noudevsync " DISK " && "
		 "dmsetup mknodes && mount /dev/mapper/" DISK " " MNT);
	ASSERT_EQ(0, system(command));
	self->fd = open(MNT "/f", O_RDWR | O_CREAT, 0644);
	ASSERT_EQ(0, posix_memalign((void **)&self->page, 4096, SIZE));
	memset(self->page, 'o', SIZE);
	ASSERT_EQ(SIZE, write(self->fd, self->page, SIZE));
	ASSERT_EQ(0, fsync(self->fd));
	self->direct = open(MNT "/f", O_RDWR | O_DIRECT);
	ASSERT_LE(0, self->direct);
	memset(self->page, 'n', SIZE);
}

FIXTURE_TEARDOWN(slow)
{
	close(self->fd);
	close(self->direct);
	free(self->page);
	IOL_flush();
	remove_disk();
}

/* The first byte at @pos, through us; all of the file is asked for, so that all of it may be kept. */
static int seen(int fd, size_t pos)
{
	char byte = 0;
	size_t at, n;
	IOL_Agg *agg;

	for (at = 0; at < SIZE; at += n) {
		if (IOL_pread(fd, &agg, SIZE - at, at, &n) || !n)
			return -1;
		if (at <= pos && pos < at + n && IOL_copy_out(agg, pos - at, &byte, 1) != 1)
			return -1;
		IOL_destroy(agg);
	}
	return byte;
}

static int on_disk(int fd, size_t pos)
{
	char byte = 0;

	return pread(fd, &byte, 1, pos) == 1 ? byte : -1;
}

static int aio_begin(aio_context_t *context, struct iocb *iocb, int fd, const void *from, size_t len)
{
	*iocb = (struct iocb){
		.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = fd, .aio_buf = (uintptr_t)from,
		.aio_nbytes = len, .aio_offset = AT,
	};
	*context = 0;
	if (syscall(SYS_io_setup, 4, context))
		return -1;
	return syscall(SYS_io_submit, *context, 1, &iocb) == 1 ? 0 : -1;
}

static long aio_end(aio_context_t context)
{
	struct io_event event;
	long ret;

	ret = syscall(SYS_io_getevents, context, 1, 1, &event, NULL);
	syscall(SYS_io_destroy, context);
	return ret == 1 ? event.res : -1;
}

/* Read while it is on its way, after the file's time has grown old; once it is there, it is seen. */
TEST_F(slow, a_direct_libaio_write_is_seen_however_long_it_takes)
{
	aio_context_t context;
	struct iocb iocb;
	int i;

	ASSERT_EQ(0, write_takes(DELAY));
	ASSERT_EQ('o', seen(self->fd, AT));
	ASSERT_EQ(0, aio_begin(&context, &iocb, self->direct, self->page, 4096));
	for (i = 0; i < 6; i++) {
		usleep(50000);
		ASSERT_NE(-1, seen(self->fd, AT));
	}
	ASSERT_EQ(4096, aio_end(context));
	ASSERT_EQ('n', on_disk(self->fd, AT));
	EXPECT_EQ('n', seen(self->fd, AT));
	EXPECT_EQ(0, write_takes(0));
}

TEST_F(slow, a_direct_io_uring_write_is_seen_however_long_it_takes)
{
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int i;

	ASSERT_EQ(0, io_uring_queue_init(4, &ring, 0));
	ASSERT_EQ(0, write_takes(DELAY));
	ASSERT_EQ('o', seen(self->fd, AT));
	io_uring_prep_write(io_uring_get_sqe(&ring), self->direct, self->page, 4096, AT);
	ASSERT_EQ(1, io_uring_submit(&ring));
	for (i = 0; i < 6; i++) {
		usleep(50000);
		ASSERT_NE(-1, seen(self->fd, AT));
	}
	ASSERT_EQ(0, io_uring_wait_cqe(&ring, &cqe));
	ASSERT_EQ(4096, cqe->res);
	ASSERT_EQ('n', on_disk(self->fd, AT));
	EXPECT_EQ('n', seen(self->fd, AT));
	EXPECT_EQ(0, write_takes(0));
	io_uring_queue_exit(&ring);
}

/* Of a buffered one libaio says nothing either; @self->fd was written to in the same tick of the clock. */
TEST_F(slow, a_buffered_libaio_write_right_after_ours_is_seen)
{
	int other = open(MNT "/f", O_WRONLY), round;
	aio_context_t context;
	struct iocb iocb;
	IOL_Agg *agg;
	size_t n;

	for (round = 0; round < 20; round++) {
		char mark = 'A' + round;

		memset(self->page, mark, 65536);
		ASSERT_EQ(0, IOL_from_memory(IOL_DEF_ALLOC, &agg, self->page, 65536));
		self->page[0] = mark + 32;
		ASSERT_EQ(0, IOL_pwrite(self->fd, agg, AT, &n));
		ASSERT_EQ(0, aio_begin(&context, &iocb, other, self->page, 1));
		ASSERT_EQ(1, aio_end(context));
		IOL_destroy(agg);
		ASSERT_EQ(mark + 32, on_disk(self->fd, AT));
		EXPECT_EQ(mark + 32, seen(self->fd, AT));
	}
	close(other);
}

/* How many have come by the function in which flt_stall_test has them stand still. */
static int stalled(void)
{
	FILE *file = fopen("/sys/module/flt_stall_test/parameters/hits", "r");
	int hits = 0;

	if (file && fscanf(file, "%d", &hits) != 1)
		hits = 0;
	if (file)
		fclose(file);
	return hits;
}

/*
 * By the same descriptor, in a child that shares it: the file is opened for writing only once, and the child writes
 * when our data is in the file and nobody has asked yet what the file's version is.
 */
TEST_F(slow, a_libaio_write_through_an_inherited_descriptor_is_seen)
{
	volatile bool *written = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	aio_context_t context;
	struct iocb iocb;
	IOL_Agg *agg;
	int status;
	pid_t pid;
	size_t n;

	close(self->direct);
	memset(self->page, 'A', 65536);
	ASSERT_EQ(0, IOL_from_memory(IOL_DEF_ALLOC, &agg, self->page, 65536));
	self->page[0] = 'a';
	ASSERT_EQ('o', seen(self->fd, AT));
	ASSERT_EQ(0, system("insmod $FLT_MODULES/flt_stall_test.ko symbol=iol_file_written_by_us ms=5000"));
	pid = fork();
	if (!pid) {
		while (!stalled())
			usleep(10000);
		if (aio_begin(&context, &iocb, self->fd, self->page, 1) || aio_end(context) != 1)
			_exit(1);
		*written = true;
		_exit(0);
	}
	ASSERT_EQ(0, IOL_pwrite(self->fd, agg, AT, &n));
	EXPECT_TRUE(*written);
	ASSERT_EQ(0, system("rmmod flt_stall_test"));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ('a', on_disk(self->fd, AT));
	EXPECT_EQ('a', seen(self->fd, AT));
	IOL_destroy(agg);
	self->direct = dup(self->fd);
}

/* What nobody writes to is kept at once, young or not. */
TEST_F(slow, a_file_that_was_just_written_is_cached_when_nobody_writes_any_more)
{
	unsigned long long hits;

	ASSERT_EQ(1, pwrite(self->fd, "y", 1, AT));
	ASSERT_EQ('y', seen(self->fd, AT));
	hits = counter("FileHits");
	ASSERT_EQ('y', seen(self->fd, AT));
	EXPECT_LT(hits, counter("FileHits"));
}

/* Whether @pid sleeps in the kernel's function of this name. */
static bool sleeps_in(pid_t pid, const char *function)
{
	char path[64], stack[4096] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stack", pid);
	file = fopen(path, "r");
	if (!file)
		return false;
	stack[fread(stack, 1, sizeof(stack) - 1, file)] = '\0';
	fclose(file);
	return strstr(stack, function);
}

/* Until it does, or has ended. */
static bool comes_to_sleep_in(pid_t pid, const char *function)
{
	while (!sleeps_in(pid, function)) {
		if (waitpid(pid, NULL, WNOHANG))
			return false;
		usleep(1000);
	}
	return true;
}

static bool runs(pid_t pid)
{
	return !waitpid(pid, NULL, WNOHANG);
}

/* Makes the file longer past the page cache, with the inode's lock for as long as the disk takes. */
static pid_t writer_past_us(int fd, const char *page)
{
	pid_t pid = fork();

	if (!pid)
		_exit(pwrite(fd, page, 4096, SIZE) != 4096);
	return pid;
}

static pid_t writer_through_us(int fd, const char *page)
{
	pid_t pid = fork();
	IOL_Agg *agg;
	size_t n;

	if (!pid)
		_exit(IOL_from_memory(IOL_DEF_ALLOC, &agg, page, 65536) || IOL_pwrite(fd, agg, AT, &n) || n != 65536);
	return pid;
}

/* A page, from a domain of its own and without waiting: 0 or -errno. */
static int write_nowait(int fd)
{
	struct iol_init init = { .version = IOL_VERSION, .scratch = -1 };
	int dev = open("/dev/iolite", O_RDWR | O_CLOEXEC), err = 0;
	struct iol_alloc alloc = { .size = 4096 };
	struct iol_slice slice = { .length = 4096 };
	struct iol_io io = { .fd = fd, .flags = IOL_IO_NOWAIT, .position = AT, .count = 1 };

	if (dev < 0 || module_domain(dev, &init))
		return -errno;
	alloc.pool = init.pool;
	if (!ioctl(dev, IOL_IOC_ALLOC, &alloc)) {
		slice.offset = alloc.offset;
		slice.generation = alloc.generation;
		io.slices = (uintptr_t)&slice;
	}
	if (ioctl(dev, IOL_IOC_WRITE, &io))
		err = -errno;
	close(dev);
	return err;
}

/* Of what the page cache has, and of what only the disk has. */
TEST_F(slow, a_writer_who_keeps_the_inode_s_lock_does_not_stall_a_reader)
{
	int round, status;
	pid_t pid;

	for (round = 0; round < 2; round++) {
		ASSERT_EQ(0, ftruncate(self->fd, SIZE));
		ASSERT_EQ(0, fsync(self->fd));
		if (round)
			ASSERT_EQ(0, posix_fadvise(self->fd, 0, 0, POSIX_FADV_DONTNEED));
		ASSERT_EQ(0, write_takes(LONG));
		pid = writer_past_us(self->direct, self->page);
		ASSERT_TRUE(comes_to_sleep_in(pid, "ext4_file_write_iter"));
		EXPECT_EQ('o', seen(self->fd, AT));
		EXPECT_TRUE(runs(pid));
		/* To make the disk quick is to end what it delays. */
		EXPECT_EQ(0, write_takes(0));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(0, status);
		EXPECT_EQ('n', on_disk(self->fd, SIZE));
	}
}

TEST_F(slow, what_is_written_through_us_with_o_sync_is_read_before_the_disk_has_it)
{
	int fd = open(MNT "/f", O_RDWR | O_SYNC), status;
	pid_t pid;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, write_takes(LONG));
	pid = writer_through_us(fd, self->page);
	ASSERT_TRUE(comes_to_sleep_in(pid, "ext4_sync_file"));
	EXPECT_EQ('n', seen(self->fd, AT));
	/* And it does wait for the disk. */
	EXPECT_TRUE(runs(pid));
	EXPECT_EQ(0, write_takes(0));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	close(fd);
}

/* Who writes through us waits for one who writes past us, and a reader through us for him. */
TEST_F(slow, who_waits_for_a_writer_through_us_can_be_killed_and_who_does_not_wait_is_told)
{
	int fd = open(MNT "/f", O_RDWR), status;
	pid_t past, through, reader, other;
	IOL_Agg *agg;
	size_t n;

	ASSERT_LE(0, fd);
	ASSERT_EQ('o', seen(self->fd, AT));
	ASSERT_EQ(0, write_takes(LONG));
	past = writer_past_us(self->direct, self->page);
	ASSERT_TRUE(comes_to_sleep_in(past, "ext4_file_write_iter"));
	through = writer_through_us(fd, self->page);
	ASSERT_TRUE(comes_to_sleep_in(through, "iol_file_write"));
	EXPECT_EQ(-EAGAIN, IOL_pread_nowait(self->fd, &agg, 4096, AT, &n));
	EXPECT_EQ(-EAGAIN, write_nowait(fd));
	reader = fork();
	if (!reader)
		_exit(seen(self->fd, AT) < 0);
	ASSERT_TRUE(comes_to_sleep_in(reader, "iol_file_read"));
	other = writer_through_us(fd, self->page);
	ASSERT_TRUE(comes_to_sleep_in(other, "iol_file_write"));
	kill(reader, SIGKILL);
	kill(other, SIGKILL);
	ASSERT_EQ(reader, waitpid(reader, &status, 0));
	EXPECT_EQ(SIGKILL, status);
	ASSERT_EQ(other, waitpid(other, &status, 0));
	EXPECT_EQ(SIGKILL, status);
	EXPECT_TRUE(runs(past));
	EXPECT_TRUE(runs(through));
	EXPECT_EQ(0, write_takes(0));
	ASSERT_EQ(past, waitpid(past, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(through, waitpid(through, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ('n', seen(self->fd, AT));
	EXPECT_EQ(0, write_nowait(fd));
	close(fd);
}

MODULE_UNLOADS

TEST_HARNESS_MAIN
