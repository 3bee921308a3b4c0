// SPDX-License-Identifier: GPL-2.0
/* A security module (a BPF program on its hook, tests/lib/deny.bpf.c) is asked as read(2) and write(2) ask it. */
/* timeout: 240 */
/* kernel: stock */
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <linux/bpf.h>

#include "kselftest_harness.h"

#include <flotilla/iolite.h>
#include <iolite.h>
#include "iolite/tests/lib/module.h"
#include "iolite/tests/lib/read.h"

#define SIZE	200000
#define BPFFS	"/run/iolite-bpf"
#define FILE_NAME	"/tmp/iolite.denied"

/* Whose files nobody may read, and whose nobody may write: as in deny.bpf.c. */
#define UNREAD		65014
#define UNWRITTEN	65015

static long bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* In force as long as the descriptor is open. */
static int module_of_security(void)
{
	union bpf_attr attr = { .pathname = (__u64)(unsigned long)BPFFS "/deny/deny_file" };
	int program, link;

	if (system("mkdir -p " BPFFS " && mount -t bpf none " BPFFS " && "
		   "bpftool prog loadall \"$FLT_TOP\"/build/gen/iolite_deny.bpf.o " BPFFS "/deny"))
		return -1;
	program = bpf(BPF_OBJ_GET, &attr);
	memset(&attr, 0, sizeof(attr));
	attr.raw_tracepoint.prog_fd = program;
	link = bpf(BPF_RAW_TRACEPOINT_OPEN, &attr);
	close(program);
	umount(BPFFS);
	return link;
}

static int write_back(int fd, IOL_Agg *agg)
{
	size_t n;
	int err;

	err = IOL_pwrite(fd, agg, 0, &n);
	return err ? err : (int)n;
}

FIXTURE(denied) {
	int fd;
};

FIXTURE_SETUP(denied)
{
	static char bytes[SIZE];
	int fd;

	ASSERT_EQ(0, module_load());
	memset(bytes, 'd', SIZE);
	fd = open(FILE_NAME, O_RDWR | O_CREAT | O_TRUNC, 0644);
	ASSERT_EQ(SIZE, write(fd, bytes, SIZE));
	close(fd);
	self->fd = open(FILE_NAME, O_RDONLY);
	usleep(50000);
	alarm(100);
}

FIXTURE_TEARDOWN(denied)
{
	close(self->fd);
	unlink(FILE_NAME);
}

TEST_F(denied, who_may_not_read_gets_nothing_of_a_file_that_is_in_the_cache)
{
	char byte;
	unsigned long long hits;
	int link;

	ASSERT_EQ(SIZE, read_some(self->fd, SIZE));
	hits = counter("FileHits");
	link = module_of_security();
	ASSERT_LE(0, link);
	EXPECT_EQ(SIZE, read_some(self->fd, SIZE));
	EXPECT_LT(hits, counter("FileHits"));
	ASSERT_EQ(0, fchown(self->fd, UNREAD, 0));
	/* That it is in force is seen by the call itself. */
	EXPECT_EQ(-1, pread(self->fd, &byte, 1, 0));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(-EACCES, read_some(self->fd, SIZE));
	close(link);
	EXPECT_EQ(SIZE, read_some(self->fd, SIZE));
}

TEST_F(denied, who_may_not_write_changes_nothing)
{
	IOL_Agg *agg;
	size_t n;
	char byte;
	int link, fd;

	ASSERT_EQ(0, IOL_pread(self->fd, &agg, SIZE, 0, &n));
	fd = open(FILE_NAME, O_RDWR);
	ASSERT_EQ(1, pwrite(fd, "x", 1, 0));
	link = module_of_security();
	ASSERT_LE(0, link);
	ASSERT_EQ(0, fchown(fd, UNWRITTEN, 0));
	EXPECT_EQ(-1, pwrite(fd, "y", 1, 0));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(-EACCES, write_back(fd, agg));
	EXPECT_EQ(1, pread(fd, &byte, 1, 0));
	EXPECT_EQ('x', byte);
	close(link);
	EXPECT_EQ(SIZE, write_back(fd, agg));
	EXPECT_EQ(1, pread(fd, &byte, 1, 0));
	EXPECT_EQ('d', byte);
	IOL_destroy(agg);
	close(fd);
}

MODULE_UNLOADS

TEST_HARNESS_MAIN
