// SPDX-License-Identifier: GPL-2.0
/* Files that change past all that we are told of: what IOL_read gives is what read(2) gives. */
/* timeout: 120 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/dma-buf.h>
#include <linux/fuse.h>
#include <linux/udmabuf.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "kselftest_harness.h"

#include <iolite.h>
#include "iolite/tests/lib/module.h"

#define MNT	"/tmp/iolite.stale"
#define TMPFS	MNT "/tmpfs"
#define DISK	MNT "/disk"
#define IMAGE	MNT "/disk.img"
#define SERVED	MNT "/served"
#define PAGE	4096

/* What the program that serves a file does, and is asked for. */
struct served {
	int content;
	int hold;
	int held;
};

FIXTURE(stale) {
	char *page;
	struct served *served;
	pid_t server;
};

FIXTURE_SETUP(stale)
{
	ASSERT_EQ(0, module_load());
	ASSERT_EQ(0, system("mkdir -p " MNT " && mount -t tmpfs none " MNT " && cd " MNT " && "
			    "mkdir tmpfs disk served && mount -t tmpfs none tmpfs"));
	ASSERT_EQ(0, posix_memalign((void **)&self->page, PAGE, PAGE));
	self->served = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->served);
	self->server = 0;
}

FIXTURE_TEARDOWN(stale)
{
	IOL_flush();
	__atomic_store_n(&self->served->hold, 0, __ATOMIC_SEQ_CST);
	if (self->server) {
		kill(self->server, SIGKILL);
		waitpid(self->server, NULL, 0);
	}
	EXPECT_EQ(0, system("umount -q " SERVED " " DISK "; "
			    "for l in $(losetup -j " IMAGE " | cut -d: -f1); do losetup -d $l; done; "
			    "umount " TMPFS " && umount " MNT));
	munmap(self->served, PAGE);
	free(self->page);
}

/* A page of @content, as read by read(2) now. */
static int file_make(const char *path, int content, const char *page)
{
	int fd = open(path, O_RDWR | O_CREAT, 0644);

	memset((char *)page, content, PAGE);
	return fd < 0 || write(fd, page, PAGE) != PAGE || fsync(fd) ? -1 : fd;
}

static int seen(int fd)
{
	char byte = 0;
	IOL_Agg *agg;
	size_t n;

	if (IOL_pread(fd, &agg, PAGE, 0, &n) || !n || IOL_copy_out(agg, 0, &byte, 1) != 1)
		return -1;
	IOL_destroy(agg);
	return byte;
}

static int by_read(int fd)
{
	char byte = 0;

	return pread(fd, &byte, 1, 0) == 1 ? byte : -1;
}

/* Until it would come from the cache, if that is how it is; or long enough. */
static int seen_often(int fd)
{
	unsigned long long hits = counter("FileHits");
	int tries, byte = -1;

	for (tries = 0; tries < 40 && counter("FileHits") == hits; tries++) {
		byte = seen(fd);
		usleep(10000);
	}
	return byte;
}

/* All that belongs to it is there, and somebody else has its pages no more. */
TEST_F(stale, a_file_in_memory_that_nobody_holds_is_cached)
{
	unsigned long long hits;
	int fd;

	close(file_make(TMPFS "/f", 'a', self->page));
	fd = open(TMPFS "/f", O_RDONLY);
	EXPECT_EQ('a', seen_often(fd));
	hits = counter("FileHits");
	EXPECT_EQ('a', seen(fd));
	EXPECT_EQ(hits + 1, counter("FileHits"));
	close(fd);
}

TEST_F(stale, a_page_that_is_a_fixed_buffer_of_io_uring_is_read_as_it_is)
{
	int w = file_make(TMPFS "/f", 'a', self->page), r = open(TMPFS "/f", O_RDONLY), ends[2];
	struct iovec iov = { .iov_len = PAGE };
	struct io_uring_cqe *cqe;
	struct io_uring ring;

	iov.iov_base = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, w, 0);
	ASSERT_NE(MAP_FAILED, iov.iov_base);
	ASSERT_EQ(0, io_uring_queue_init(4, &ring, 0));
	ASSERT_EQ(0, io_uring_register_buffers(&ring, &iov, 1));
	munmap(iov.iov_base, PAGE);
	close(w);
	EXPECT_EQ('a', seen_often(r));
	ASSERT_EQ(0, pipe(ends));
	memset(self->page, 'b', PAGE);
	ASSERT_EQ(PAGE, write(ends[1], self->page, PAGE));
	io_uring_prep_read_fixed(io_uring_get_sqe(&ring), ends[0], iov.iov_base, PAGE, -1, 0);
	ASSERT_EQ(1, io_uring_submit(&ring));
	ASSERT_EQ(0, io_uring_wait_cqe(&ring, &cqe));
	ASSERT_EQ(PAGE, cqe->res);
	ASSERT_EQ('b', by_read(r));
	EXPECT_EQ('b', seen(r));
	io_uring_queue_exit(&ring);
	close(ends[0]);
	close(ends[1]);
	close(r);
}

/* Its stores leave no trace: no open for writing, no time that changes, no close. */
TEST_F(stale, memory_without_a_name_is_read_as_it_is)
{
	int fd = memfd_create("stale", MFD_CLOEXEC), round;
	char *at;

	ASSERT_LE(0, fd);
	memset(self->page, 'a', PAGE);
	ASSERT_EQ(PAGE, pwrite(fd, self->page, PAGE, 0));
	for (round = 0; round < 3; round++) {
		EXPECT_EQ('a' + round, seen_often(fd));
		at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		ASSERT_NE(MAP_FAILED, at);
		at[0]++;
		munmap(at, PAGE);
		ASSERT_EQ('b' + round, by_read(fd));
		EXPECT_EQ('b' + round, seen(fd));
	}
	close(fd);
}

TEST_F(stale, memory_that_is_also_a_udmabuf_is_read_as_it_is)
{
	struct udmabuf_create create = { .size = PAGE };
	int device = open("/dev/udmabuf", O_RDWR), buf;
	char *at;

	if (device < 0)
		SKIP(return, "no /dev/udmabuf");
	create.memfd = memfd_create("stale", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ASSERT_EQ(0, ftruncate(create.memfd, PAGE));
	memset(self->page, 'a', PAGE);
	ASSERT_EQ(PAGE, pwrite(create.memfd, self->page, PAGE, 0));
	ASSERT_EQ(0, fcntl(create.memfd, F_ADD_SEALS, F_SEAL_SHRINK));
	buf = ioctl(device, UDMABUF_CREATE, &create);
	ASSERT_LE(0, buf);
	EXPECT_EQ('a', seen_often(create.memfd));
	at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, buf, 0);
	ASSERT_NE(MAP_FAILED, at);
	at[0] = 'b';
	ASSERT_EQ('b', by_read(create.memfd));
	EXPECT_EQ('b', seen(create.memfd));
	munmap(at, PAGE);
	close(buf);
	close(create.memfd);
	close(device);
}

static int reply(int fd, uint64_t unique, int error, const void *body, size_t len)
{
	struct fuse_out_header head = { .len = sizeof(head) + len, .error = error, .unique = unique };
	struct iovec iov[] = { { &head, sizeof(head) }, { (void *)body, len } };

	return writev(fd, iov, len ? 2 : 1);
}

/* A directory with one file of one page, all of one byte, which nobody may remember. */
static void serve(int fd, struct served *served)
{
	struct fuse_attr file = { .ino = 2, .size = PAGE, .mode = S_IFREG | 0644, .nlink = 1 };
	struct fuse_attr top = { .ino = 1, .mode = S_IFDIR | 0755, .nlink = 2 };
	static char in[FUSE_MIN_READ_BUFFER + 65536], page[PAGE];
	const struct fuse_in_header *head = (void *)in;

	while (read(fd, in, sizeof(in)) > 0) {
		struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = PAGE };
		struct fuse_entry_out entry = { .nodeid = 2, .attr_valid = 1000, .attr = file };
		struct fuse_attr_out attr = { .attr_valid = 1000, .attr = head->nodeid == 1 ? top : file };
		struct fuse_open_out open = { .open_flags = FOPEN_DIRECT_IO };

		switch (head->opcode) {
		case FUSE_INIT:
			reply(fd, head->unique, 0, &init, sizeof(init));
			break;
		case FUSE_LOOKUP:
			reply(fd, head->unique, 0, &entry, sizeof(entry));
			break;
		case FUSE_GETATTR:
			reply(fd, head->unique, 0, &attr, sizeof(attr));
			break;
		case FUSE_OPEN:
			reply(fd, head->unique, 0, &open, sizeof(open));
			break;
		case FUSE_READ:
			__atomic_store_n(&served->held, 1, __ATOMIC_SEQ_CST);
			while (__atomic_load_n(&served->hold, __ATOMIC_SEQ_CST))
				usleep(1000);
			memset(page, served->content, sizeof(page));
			reply(fd, head->unique, 0, page, ((const struct fuse_read_in *)(head + 1))->size);
			break;
		case FUSE_FORGET:
		case FUSE_INTERRUPT:
			break;
		case FUSE_FLUSH:
		case FUSE_RELEASE:
		case FUSE_DESTROY:
			reply(fd, head->unique, 0, NULL, 0);
			break;
		default:
			reply(fd, head->unique, -ENOSYS, NULL, 0);
		}
	}
	_exit(0);
}

/* Mounts it, as @type on @source; the server's pid, or -1. */
static pid_t served(struct served *served, const char *source, const char *type)
{
	int fd = open("/dev/fuse", O_RDWR);
	char options[100];
	pid_t pid;

	snprintf(options, sizeof(options), "fd=%d,rootmode=40755,user_id=0,group_id=0", fd);
	if (fd < 0 || mount(source, SERVED, type, 0, options))
		return -1;
	pid = fork();
	if (!pid)
		serve(fd, served);
	close(fd);
	return pid;
}

/* Its program answers when it likes. */
TEST_F(stale, a_page_that_a_direct_read_of_fuse_will_store_to_is_read_as_it_is)
{
	int w, r, from, status;
	pid_t pid;
	char *at;

	self->served->content = 'b';
	self->served->hold = 1;
	self->server = served(self->served, "none", "fuse");
	ASSERT_LT(0, self->server);
	from = open(SERVED "/f", O_RDONLY);
	ASSERT_LE(0, from);
	w = file_make(TMPFS "/f", 'a', self->page);
	r = open(TMPFS "/f", O_RDONLY);
	at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, w, 0);
	ASSERT_NE(MAP_FAILED, at);
	/* Its mapping ends while one of its threads still reads. */
	pid = fork();
	if (!pid) {
		struct io_uring ring;
		struct io_uring_sqe *sqe;

		close(w);
		if (io_uring_queue_init(4, &ring, 0))
			_exit(1);
		sqe = io_uring_get_sqe(&ring);
		io_uring_prep_read(sqe, from, at, PAGE, 0);
		sqe->flags |= IOSQE_ASYNC;
		if (io_uring_submit(&ring) != 1)
			_exit(2);
		while (!__atomic_load_n(&self->served->held, __ATOMIC_SEQ_CST))
			usleep(1000);
		munmap(at, PAGE);
		self->served->held = 2;
		pause();
	}
	while (__atomic_load_n(&self->served->held, __ATOMIC_SEQ_CST) != 2) {
		ASSERT_EQ(0, waitpid(pid, &status, WNOHANG));
		usleep(1000);
	}
	munmap(at, PAGE);
	close(w);
	EXPECT_EQ('a', seen_often(r));
	__atomic_store_n(&self->served->hold, 0, __ATOMIC_SEQ_CST);
	while (by_read(r) != 'b')
		usleep(1000);
	EXPECT_EQ('b', seen(r));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	close(from);
	close(r);
}

/* It has a disk, but its files are what its program says. */
TEST_F(stale, a_file_of_fuse_on_a_block_device_is_read_as_it_is)
{
	char source[64] = "";
	FILE *loop;
	int fd;

	ASSERT_EQ(0, system("truncate -s 1M " IMAGE));
	loop = popen("losetup -f --show " IMAGE, "r");
	ASSERT_EQ(1, fscanf(loop, "%63s", source));
	pclose(loop);
	self->served->content = 'a';
	self->server = served(self->served, source, "fuseblk");
	ASSERT_LT(0, self->server);
	fd = open(SERVED "/f", O_RDONLY);
	ASSERT_LE(0, fd);
	EXPECT_EQ('a', seen_often(fd));
	self->served->content = 'b';
	ASSERT_EQ('b', by_read(fd));
	EXPECT_EQ('b', seen(fd));
	close(fd);
}

/* 1 MB of clusters of a page, and an empty directory. */
static int fat_make(const char *path)
{
	static const unsigned char boot[] = {
		0xeb, 0x3c, 0x90, 'm', 'k', 'd', 'o', 's', 'f', 's', ' ', 0x00, 0x02, 8, 1, 0, 1, 16, 0, 0x00, 0x08,
		0xf8, 1, 0, 32, 0, 2, 0,
	}, table[] = { 0xf8, 0xff, 0xff };
	int fd = open(path, O_RDWR | O_CREAT, 0600), err;

	err = fd < 0 || ftruncate(fd, 1 << 20) || pwrite(fd, boot, sizeof(boot), 0) != sizeof(boot) ||
	      pwrite(fd, "\x55\xaa", 2, 510) != 2 || pwrite(fd, table, 3, 512) != 3;
	close(fd);
	return err;
}

/* There a file's ctime is its mtime, which utimes(2) sets. */
TEST_F(stale, a_store_to_a_file_of_vfat_is_seen_whose_times_are_put_back)
{
	const struct timespec times[] = { { .tv_sec = 1500000000 }, { .tv_sec = 1500000000 } };
	int w, r;
	char *at;

	if (system("modprobe -q -a vfat nls_cp437 nls_ascii"))
		SKIP(return, "the kernel has no vfat");
	ASSERT_EQ(0, fat_make(IMAGE));
	ASSERT_EQ(0, system("mount -o loop,iocharset=ascii " IMAGE " " DISK));
	w = file_make(DISK "/f", 'a', self->page);
	ASSERT_LE(0, w);
	ASSERT_EQ(0, futimens(w, times));
	r = open(DISK "/f", O_RDONLY);
	EXPECT_EQ('a', seen_often(r));
	at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, w, 0);
	ASSERT_NE(MAP_FAILED, at);
	at[0] = 'b';
	munmap(at, PAGE);
	ASSERT_EQ(0, futimens(w, times));
	close(w);
	ASSERT_EQ('b', by_read(r));
	EXPECT_EQ('b', seen(r));
	close(r);
}

MODULE_UNLOADS

TEST_HARNESS_MAIN
