// SPDX-License-Identifier: GPL-2.0
/*
 * What was not given cannot be read, whatever the path. An owner plants secrets in all it has and gives
 * public bytes from among them; a receiver, nobody in particular, reads all it can reach.
 */
/* timeout: 240 */
/* long: both a minute and a half, and on the debug kernel minutes */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "kselftest_harness.h"

#include <flotilla/iolite.h>
#include "iolite/tests/lib/module.h"

#define PAGE		4096u
#define PUBLIC		'p'
/* Bytes in a row that are no accident. */
#define TELLTALE	12
#define NOBODY		65534
/* Chunks of the window that are looked through: more than this test makes. */
#define CHUNKS		96

/*
 * A secret is a row of bytes that is computed and never stored: it is in no program's ordinary memory.
 * Each byte says which one follows.
 */
static uint8_t secret_byte(size_t i)
{
	return 0x80 | ((i * 73 + 11) & 0x7f);
}

static void plant(char *at, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		at[i] = secret_byte(i);
}

/* Are there @row bytes of one? 57 * 73 is 1 modulo 128. */
static bool row_in(const volatile char *at, size_t len, size_t row)
{
	size_t i, n;

	for (i = 0; i + row <= len; i++) {
		size_t phase = (((uint8_t)at[i] - 11) * 57) & 0x7f;

		for (n = 0; n < row && (uint8_t)at[i + n] == secret_byte(phase + n); n++)
			;
		if (n == row)
			return true;
	}
	return false;
}

static bool secrets_in(const volatile char *at, size_t len)
{
	return row_in(at, len, TELLTALE);
}

struct world {
	int fd;
	struct iol_init init;
	char *window;
	char *fill;
};

static int world_open(struct world *w)
{
	int scratch[2];

	w->fd = open("/dev/iolite", O_RDWR | O_CLOEXEC);
	if (w->fd < 0 || pipe2(scratch, O_CLOEXEC | O_NONBLOCK))
		return -1;
	w->init = (struct iol_init){ .version = IOL_VERSION, .scratch = scratch[0] };
	if (ioctl(w->fd, IOL_IOC_INIT, &w->init))
		return -2;
	close(scratch[0]);
	close(scratch[1]);
	w->window = mmap(NULL, w->init.window, PROT_READ, MAP_SHARED, w->fd, 0);
	w->fill = mmap(NULL, w->init.window, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, w->init.fill);
	return w->window == MAP_FAILED || w->fill == MAP_FAILED ? -3 : 0;
}

static int make(struct world *w, struct iol_alloc *a, uint32_t size)
{
	*a = (struct iol_alloc){ .pool = w->init.pool, .size = size };
	return ioctl(w->fd, IOL_IOC_ALLOC, a) ? -errno : 0;
}

static int drop(struct world *w, uint64_t offset, uint64_t generation)
{
	struct iol_slice slice = { offset, generation, 1, 0 };
	struct iol_release release = { .slices = (uintptr_t)&slice, .count = 1 };

	return ioctl(w->fd, IOL_IOC_RELEASE, &release) ? -errno : 0;
}

static int give(struct world *w, int fd, const struct iol_alloc *a, uint32_t off, uint32_t len,
		long long position)
{
	struct iol_slice slice = { a->offset + off, a->generation, len, 0 };
	struct iol_io io = { .fd = fd, .position = position, .slices = (uintptr_t)&slice, .count = 1,
			     .inline_max = 512 };

	if (ioctl(w->fd, IOL_IOC_WRITE, &io))
		return -errno;
	return io.size == len ? 0 : -EIO;
}

/* Ranges of a buffer of 16 pages that are given: inside a page, over an edge, whole, at both ends. */
static const struct range {
	uint32_t off;
	uint32_t len;
} ranges[] = {
	{ 0, 700 }, { 1000, 300 }, { 1500, 2000 }, { 2 * PAGE - 900, 1800 }, { 4 * PAGE, PAGE },
	{ 6 * PAGE + 5, 2 * PAGE }, { 9 * PAGE, 2 * PAGE + 4000 }, { 16 * PAGE - 700, 700 },
};

#define NRANGES		(sizeof(ranges) / sizeof(*ranges))

/* A buffer of secrets with public ranges in it. */
static int make_mixed(struct world *w, struct iol_alloc *a)
{
	size_t i;

	if (make(w, a, IOL_CHUNK_SIZE))
		return -1;
	plant(w->fill + a->offset, IOL_CHUNK_SIZE);
	for (i = 0; i < NRANGES; i++)
		memset(w->fill + a->offset + ranges[i].off, PUBLIC, ranges[i].len);
	return 0;
}

static int give_mixed(struct world *w, int fd, const struct iol_alloc *a)
{
	size_t i;

	for (i = 0; i < NRANGES; i++)
		if (give(w, fd, a, ranges[i].off, ranges[i].len, -1))
			return -1;
	return 0;
}

static size_t mixed_bytes(void)
{
	size_t i, sum = 0;

	for (i = 0; i < NRANGES; i++)
		sum += ranges[i].len;
	return sum;
}

/* Spare memory full of secrets, in the pool that the next buffers come from. */
static int plant_spare(struct world *w)
{
	struct iol_alloc a[8];
	int i;

	for (i = 0; i < 8; i++) {
		if (make(w, &a[i], IOL_CHUNK_SIZE))
			return -1;
		plant(w->fill + a[i].offset, IOL_CHUNK_SIZE);
	}
	for (i = 0; i < 8; i++)
		if (drop(w, a[i].offset, a[i].generation))
			return -1;
	return 0;
}

static sigjmp_buf back;

static void jump(int sig)
{
	siglongjmp(back, sig);
}

/* Whatever of a mapping can be loaded. */
static bool secrets_mapped(const char *at)
{
	static volatile bool found;
	size_t page;

	found = false;
	for (page = 0; page < CHUNKS * 16 && !found; page++)
		if (!sigsetjmp(back, 1))
			found = secrets_in(at + page * PAGE, PAGE);
	return found;
}

/* What may be passed on by one of these names, or one like it. */
static bool secrets_named(struct world *w, const struct iol_slice *slices, unsigned int n)
{
	static char bytes[IOL_CHUNK_SIZE];
	bool found = false;
	unsigned int i;
	uint64_t page;
	int ends[2];

	if (pipe2(ends, O_NONBLOCK))
		return true;
	for (i = 0; i < n; i++) {
		uint64_t chunk = slices[i].offset - slices[i].offset % IOL_CHUNK_SIZE;

		for (page = 0; page < 16; page++) {
			struct iol_slice slice = { chunk + page * PAGE, slices[i].generation, PAGE, 0 };
			struct iol_io io = { .fd = ends[1], .position = -1, .slices = (uintptr_t)&slice,
					     .count = 1 };
			ssize_t got;

			if (ioctl(w->fd, IOL_IOC_WRITE, &io))
				continue;
			got = read(ends[0], bytes, sizeof(bytes));
			found |= got > 0 && secrets_in(bytes, got);
		}
	}
	close(ends[0]);
	close(ends[1]);
	return found;
}

/* What an ordinary interface says of this process's own mapping. */
static bool secrets_in_proc(struct world *w)
{
	static char bytes[PAGE];
	bool found = false;
	size_t page;
	int mem = open("/proc/self/mem", O_RDONLY);

	for (page = 0; mem >= 0 && page < CHUNKS * 16; page++) {
		ssize_t n = pread(mem, bytes, PAGE, (uintptr_t)(w->window + page * PAGE));

		found |= n > 0 && secrets_in(bytes, n);
	}
	close(mem);
	return found;
}

enum { ALL_PUBLIC = 0, NO_WORLD = 10, READ_FAILED, WRONG_BYTES, MAPPED, FILL_MAPPED, NAMED, IN_PROC,
       TOO_LITTLE };

static struct iol_slice got[1024];
static unsigned int ngot;

/* Take @size bytes from @fd by reference; they must be public. */
static int take(struct world *w, int fd, size_t size, long long position)
{
	size_t done = 0;
	uint32_t i, k;

	while (done < size) {
		struct iol_io io = { .fd = fd, .position = position < 0 ? -1 : position + (long long)done,
				     .size = size - done, .slices = (uintptr_t)&got[ngot],
				     .count = 1024 - ngot };

		if (ioctl(w->fd, IOL_IOC_READ, &io))
			return READ_FAILED;
		if (!io.size)
			return TOO_LITTLE;
		for (i = 0; i < io.count; i++, ngot++)
			for (k = 0; k < got[ngot].length; k++)
				if (w->window[got[ngot].offset + k] != PUBLIC)
					return WRONG_BYTES;
		done += io.size;
	}
	return 0;
}

static int look_around(struct world *w)
{
	if (secrets_mapped(w->window))
		return MAPPED;
	if (secrets_mapped(w->fill))
		return FILL_MAPPED;
	if (secrets_named(w, got, ngot))
		return NAMED;
	return secrets_in_proc(w) ? IN_PROC : 0;
}

/* As an administrator lets a group in, and who looks is of that group. */
static int let_nobody_in(void)
{
	return chown("/dev/iolite", 0, NOBODY);
}

static void become_nobody(void)
{
	struct sigaction action = { .sa_handler = jump };

	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);
	/* Whatever happens to the owner. */
	alarm(100);
	if (setgid(NOBODY) || setuid(NOBODY))
		_exit(100);
	prctl(PR_SET_DUMPABLE, 1);
}

/* Takes @size bytes from @fd, by way of another pipe if @splice, looks, and waits to look again. */
static pid_t receiver(int fd, size_t size, bool splice_first, int told, int go)
{
	pid_t pid = fork();
	struct world w;
	char byte = 0;
	int err, ends[2], i;

	if (pid)
		return pid;
	become_nobody();
	if (world_open(&w))
		_exit(NO_WORLD);
	if (splice_first) {
		size_t done = 0, n;

		if (pipe(ends))
			_exit(NO_WORLD);
		for (err = 0; done < size && !err; done += n) {
			ssize_t moved = splice(fd, NULL, ends[1], NULL, size - done, 0);

			n = moved > 0 ? moved : 0;
			err = n ? take(&w, ends[0], n, -1) : READ_FAILED;
		}
	} else {
		err = take(&w, fd, size, -1);
	}
	if (!err)
		err = look_around(&w);
	for (i = 0; !err && go >= 0 && i < (int)ngot; i++)
		err = drop(&w, got[i].offset, got[i].generation) ? READ_FAILED : 0;
	if (go >= 0) {
		if (write(told, &byte, 1) != 1 || read(go, &byte, 1) != 1)
			_exit(101);
		if (!err)
			err = look_around(&w);
	}
	_exit(err);
}

static int ended(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

FIXTURE(secrets) {
	struct world w;
	struct iol_alloc kept;
	struct iol_alloc mixed;
};

FIXTURE_VARIANT(secrets) {
	char how;
	bool splice_first;
};

FIXTURE_VARIANT_ADD(secrets, pipe) { .how = 'p' };
FIXTURE_VARIANT_ADD(secrets, spliced_pipe) { .how = 'p', .splice_first = true };
FIXTURE_VARIANT_ADD(secrets, unix_socket) { .how = 'u' };
FIXTURE_VARIANT_ADD(secrets, spliced_unix_socket) { .how = 'u', .splice_first = true };
FIXTURE_VARIANT_ADD(secrets, tcp) { .how = 't' };
FIXTURE_VARIANT_ADD(secrets, spliced_tcp) { .how = 't', .splice_first = true };

FIXTURE_SETUP(secrets)
{
	ASSERT_EQ(0, module_load());
	ASSERT_EQ(0, let_nobody_in());
	ASSERT_EQ(0, system("chmod 1777 /tmp; ip link set lo up"));
	ASSERT_EQ(0, world_open(&self->w));
	ASSERT_EQ(0, plant_spare(&self->w));
	/* Of one that is sealed and one that is being filled nothing is given. */
	ASSERT_EQ(0, make(&self->w, &self->kept, IOL_CHUNK_SIZE));
	plant(self->w.fill + self->kept.offset, IOL_CHUNK_SIZE);
	ASSERT_EQ(0, make_mixed(&self->w, &self->mixed));
}

FIXTURE_TEARDOWN(secrets)
{
	close(self->w.fd);
}

static int tcp_pair(int pair[2])
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int lsn = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(addr);

	if (bind(lsn, (void *)&addr, sizeof(addr)) || listen(lsn, 1) ||
	    getsockname(lsn, (void *)&addr, &len))
		return -1;
	pair[1] = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(pair[1], (void *)&addr, sizeof(addr)))
		return -1;
	pair[0] = accept(lsn, NULL, NULL);
	close(lsn);
	return pair[0] < 0 ? -1 : 0;
}

static int channel(char how, int ends[2])
{
	if (how == 't')
		return tcp_pair(ends);
	if (how == 'u')
		return socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	return pipe(ends);
}

TEST_F(secrets, a_receiver_of_ranges_finds_nothing_else)
{
	int ends[2];
	pid_t pid;

	ASSERT_EQ(0, channel(variant->how, ends));
	pid = receiver(ends[0], mixed_bytes(), variant->splice_first, -1, -1);
	EXPECT_EQ(0, give_mixed(&self->w, ends[1], &self->mixed));
	EXPECT_EQ(ALL_PUBLIC, ended(pid));
	close(ends[0]);
	close(ends[1]);
}

/* A page is given whole, of which only the beginning was filled since the memory was used before. */
TEST_F(secrets, memory_that_is_used_anew_says_nothing_of_what_it_was)
{
	uint32_t page;
	struct iol_alloc a;

	for (page = 0; page < 8; page++) {
		ASSERT_EQ(0, make(&self->w, &a, IOL_CHUNK_SIZE));
		memset(self->w.fill + a.offset, PUBLIC, 100);
		EXPECT_FALSE(secrets_in(self->w.fill + a.offset, IOL_CHUNK_SIZE));
	}
}

/* The receiver keeps its mapping, lets go, and looks again when there are secrets where it looked. */
TEST_F(secrets, what_is_filled_again_is_not_seen_by_those_who_had_it_before)
{
	int ends[2], told[2], go[2];
	struct iol_alloc a[2];
	char byte = 0;
	pid_t pid;
	int i, most;

	ASSERT_EQ(0, channel(variant->how, ends));
	ASSERT_EQ(0, pipe(told));
	ASSERT_EQ(0, pipe(go));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, make(&self->w, &a[i], 4 * PAGE));
		memset(self->w.fill + a[i].offset, PUBLIC, 4 * PAGE);
	}
	pid = receiver(ends[0], 8 * PAGE, variant->splice_first, told[1], go[0]);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, give(&self->w, ends[1], &a[i], 0, 4 * PAGE, -1));
	ASSERT_EQ(1, read(told[0], &byte, 1));
	/* One is opened again, the other given back and its memory had anew. A packet may be on its way. */
	most = variant->how == 't' ? 100 : 6000;
	for (i = 0; i < most && ioctl(self->w.fd, IOL_IOC_REOPEN, &a[0]); i++)
		usleep(10000);
	/* TCP may keep a packet until the next comes: then it is refused for as long. */
	EXPECT_TRUE(i < most || variant->how == 't');
	if (i < most)
		plant(self->w.fill + a[0].offset, 4 * PAGE);
	ASSERT_EQ(0, drop(&self->w, a[1].offset, a[1].generation));
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(0, make(&self->w, &a[1], 4 * PAGE));
		plant(self->w.fill + a[1].offset, 4 * PAGE);
	}
	ASSERT_EQ(1, write(go[1], &byte, 1));
	EXPECT_EQ(ALL_PUBLIC, ended(pid));
	close(ends[0]), close(ends[1]), close(told[0]), close(told[1]), close(go[0]), close(go[1]);
}

/* What is in a file for all to read, by a program that reads it by reference. */
static int reads_file(const char *path, size_t size)
{
	pid_t pid = fork();
	struct world w;
	int err, fd;

	if (pid)
		return ended(pid);
	become_nobody();
	fd = open(path, O_RDONLY);
	if (fd < 0 || world_open(&w))
		_exit(NO_WORLD);
	err = take(&w, fd, size, 0);
	_exit(err ? err : look_around(&w));
}

#define IMAGE	"/tmp/iolite.secrets.img"
#define MNT	"/tmp/iolite.secrets"

static int disk(void)
{
	return system("dd if=/dev/zero of=" IMAGE " bs=1M count=16 2>/dev/null && mkdir -p " MNT " && "
		      "mkfs.ext4 -q " IMAGE " && " MODULE_MOUNT(IMAGE, MNT) " && chmod 755 " MNT);
}

FIXTURE(files) {
	struct world w;
	struct iol_alloc mixed;
};

FIXTURE_SETUP(files)
{
	ASSERT_EQ(0, module_load());
	ASSERT_EQ(0, let_nobody_in());
	ASSERT_EQ(0, disk());
	ASSERT_EQ(0, world_open(&self->w));
	ASSERT_EQ(0, plant_spare(&self->w));
	ASSERT_EQ(0, make_mixed(&self->w, &self->mixed));
}

FIXTURE_TEARDOWN(files)
{
	close(self->w.fd);
	EXPECT_EQ(0, system("umount -d " MNT "; rm -f " IMAGE));
}

/* As a server writes its log: ranges of buffers that hold other things, too. */
TEST_F(files, a_log_for_all_to_read_shows_its_lines_only)
{
	int fd = open(MNT "/log", O_RDWR | O_CREAT | O_TRUNC, 0644), round;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, give_mixed(&self->w, fd, &self->mixed));
	for (round = 0; round < 3; round++) {
		EXPECT_EQ(ALL_PUBLIC, reads_file(MNT "/log", mixed_bytes()));
		usleep(100000);
	}
	close(fd);
}

/* It was secret, and was written over before the file was opened to all. */
TEST_F(files, what_was_written_over_is_gone)
{
	static char bytes[4 * IOL_CHUNK_SIZE];
	int fd = open(MNT "/late", O_RDWR | O_CREAT | O_TRUNC, 0600), round;
	struct iol_alloc a;
	uint32_t at;

	ASSERT_LE(0, fd);
	memset(bytes, PUBLIC, sizeof(bytes));
	plant(bytes + 1000, 2 * IOL_CHUNK_SIZE);
	ASSERT_EQ(sizeof(bytes), write(fd, bytes, sizeof(bytes)));
	ASSERT_EQ(0, system("sync; sleep 0.1"));
	for (round = 0; round < 2; round++) {
		struct iol_slice slices[64];
		struct iol_io io = { .fd = fd, .position = 0, .size = sizeof(bytes),
				     .slices = (uintptr_t)slices, .count = 64 };
		unsigned int i;

		/* In the cache by now. */
		ASSERT_EQ(0, ioctl(self->w.fd, IOL_IOC_READ, &io));
		for (i = 0; i < io.count; i++)
			ASSERT_EQ(0, drop(&self->w, slices[i].offset, slices[i].generation));
	}
	ASSERT_EQ(0, make(&self->w, &a, IOL_CHUNK_SIZE));
	memset(self->w.fill + a.offset, PUBLIC, IOL_CHUNK_SIZE);
	for (at = 1000; at < 1000 + 2 * IOL_CHUNK_SIZE; at += 3000)
		ASSERT_EQ(0, give(&self->w, fd, &a, 100, 3000, at));
	ASSERT_EQ(0, fchmod(fd, 0644));
	for (round = 0; round < 3; round++) {
		EXPECT_EQ(ALL_PUBLIC, reads_file(MNT "/late", sizeof(bytes)));
		usleep(100000);
	}
	close(fd);
}

/* Who may read one file, and has nothing of another that was read before into the same memory. */
TEST_F(files, one_file_shows_nothing_of_another)
{
	static char bytes[IOL_CHUNK_SIZE];
	char path[64];
	int fd, i;

	for (i = 0; i < 4; i++) {
		struct iol_slice slices[16];
		struct iol_io io = { .position = 0, .size = sizeof(bytes), .slices = (uintptr_t)slices,
				     .count = 16 };
		unsigned int k;

		io.fd = open(MNT "/own", O_RDWR | O_CREAT | O_TRUNC, 0600);
		plant(bytes, sizeof(bytes));
		ASSERT_EQ(sizeof(bytes), write(io.fd, bytes, sizeof(bytes)));
		snprintf(path, sizeof(path), MNT "/all%d", i);
		fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
		memset(bytes, PUBLIC, sizeof(bytes));
		ASSERT_EQ(5000, write(fd, bytes, 5000));
		close(fd);
		ASSERT_EQ(0, system("sync; sleep 0.1"));
		ASSERT_EQ(0, ioctl(self->w.fd, IOL_IOC_READ, &io));
		EXPECT_TRUE(secrets_in(self->w.window + slices[0].offset, PAGE));
		for (k = 0; k < io.count; k++)
			ASSERT_EQ(0, drop(&self->w, slices[k].offset, slices[k].generation));
		/* What is cached of it goes, and its memory is what is used next; at times a part only. */
		ASSERT_EQ(0, ftruncate(io.fd, i % 2 ? 60000 : 0));
		io = (struct iol_io){ .fd = io.fd, .position = i % 2 ? 60000 : 0, .size = 1,
				      .slices = (uintptr_t)slices, .count = 16 };
		ASSERT_EQ(0, ioctl(self->w.fd, IOL_IOC_READ, &io));
		ASSERT_EQ(0, io.size);
		close(io.fd);
		EXPECT_EQ(ALL_PUBLIC, reads_file(path, 5000));
	}
}

/* A core file is for whoever may read it, and /proc/PID/mem for whoever may trace. */
TEST_F(files, neither_a_core_nor_a_tracer_sees_the_window)
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	static char bytes[PAGE];
	int ready[2], core, mem, i;
	char path[64], *at;
	ssize_t n;
	pid_t pid;

	ASSERT_EQ(0, system("echo " MNT "/core > /proc/sys/kernel/core_pattern; echo 0 > /proc/sys/kernel/core_uses_pid"));
	ASSERT_EQ(0, pipe(ready));
	pid = fork();
	if (!pid) {
		struct iol_alloc a;
		struct world w;

		setrlimit(RLIMIT_CORE, &all);
		if (world_open(&w) || make(&w, &a, IOL_CHUNK_SIZE))
			_exit(1);
		plant(w.fill + a.offset, IOL_CHUNK_SIZE);
		at = w.window + a.offset;
		bytes[0] = *(volatile char *)at;
		if (write(ready[1], &at, sizeof(at)) != sizeof(at))
			_exit(2);
		pause();
		_exit(3);
	}
	ASSERT_EQ(sizeof(at), read(ready[0], &at, sizeof(at)));
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	mem = open(path, O_RDONLY);
	for (i = 0; i < 16; i++)
		EXPECT_GE(0, pread(mem, bytes, PAGE, (uintptr_t)at + i * PAGE));
	close(mem);
	ASSERT_EQ(0, kill(pid, SIGABRT));
	EXPECT_EQ(1000 + SIGABRT, ended(pid));
	core = open(MNT "/core", O_RDONLY);
	ASSERT_LE(0, core);
	ASSERT_LT(0, (n = read(core, bytes, PAGE)));
	for (; n > 0; n = read(core, bytes, PAGE))
		/* The registers that planted it have some bytes. */
		ASSERT_FALSE(row_in(bytes, n, PAGE / 4));
	close(core);
}

TEST(the_device_is_root_s_and_its_group_s)
{
	struct stat st;
	int status;
	pid_t pid;

	ASSERT_EQ(0, module_load());
	ASSERT_EQ(0, stat("/dev/iolite", &st));
	EXPECT_EQ(0660, st.st_mode & 07777);
	EXPECT_EQ(0, st.st_uid);
	pid = fork();
	if (!pid) {
		if (setgroups(0, NULL) || setgid(NOBODY - 1) || setuid(NOBODY))
			_exit(1);
		_exit(open("/dev/iolite", O_RDWR) >= 0 || errno != EACCES ? 2 : 0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

MODULE_UNLOADS

TEST_HARNESS_MAIN
