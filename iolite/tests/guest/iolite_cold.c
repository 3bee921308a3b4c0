// SPDX-License-Identifier: GPL-2.0
/* A file that is not in memory: how it is read ahead, beside what cat and the kernel do. */
/* timeout: 240 */
/* long: debug it takes two minutes there */
#include <fcntl.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "kselftest_harness.h"

#include <iolite.h>
#include "iolite/tests/lib/module.h"

#define MNT	"/tmp/iolite.cold"
#define IMAGE	"/tmp/iolite.cold.img"
#define DISK	"iolite-cold"
#define SIZE	(24u << 20)
#define TURNS	3

FIXTURE(cold) {
	int fd;
	char *bytes;
};

FIXTURE_SETUP(cold)
{
	uint32_t i, *word;

	ASSERT_EQ(0, module_load());
	ASSERT_EQ(0, system("umount -d " MNT " 2>/dev/null; dmsetup remove --retry " DISK " 2>/dev/null; "
			    "rm -f " IMAGE "; mkdir -p " MNT "; truncate -s 64M " IMAGE "; "
			    "mkfs.ext4 -q " IMAGE " && " MODULE_MOUNT(IMAGE, MNT)));
	self->bytes = malloc(SIZE);
	word = (uint32_t *)self->bytes;
	for (i = 0; i < SIZE / 4; i++)
		word[i] = i * 2654435761u;
	self->fd = open(MNT "/f", O_RDWR | O_CREAT, 0644);
	ASSERT_EQ(SIZE, write(self->fd, self->bytes, SIZE));
	ASSERT_EQ(0, fsync(self->fd));
	close(self->fd);
	self->fd = open(MNT "/f", O_RDONLY);
}

FIXTURE_TEARDOWN(cold)
{
	close(self->fd);
	free(self->bytes);
	IOL_flush();
	EXPECT_EQ(0, system("umount -d " MNT));
	unlink(IMAGE);
}

/* Neither cache has anything of it. */
static int make_cold(void)
{
	return system("sync; echo N > /sys/module/iolite/parameters/half_rule; echo 3 > /proc/sys/vm/drop_caches; "
		      "echo Y > /sys/module/iolite/parameters/half_rule");
}

/* Reads that the file's disk has done. */
static unsigned long disk_reads(int fd)
{
	unsigned long reads = 0;
	char name[64];
	struct stat st;
	FILE *file;

	if (fstat(fd, &st))
		return 0;
	snprintf(name, sizeof(name), "/sys/dev/block/%u:%u/stat", major(st.st_dev), minor(st.st_dev));
	file = fopen(name, "r");
	if (!file || fscanf(file, "%lu", &reads) != 1)
		reads = 0;
	if (file)
		fclose(file);
	return reads;
}

/* All of it, or what lies @step apart, @part at a time; -1: not what the file holds. */
static long read_through(int fd, const char *bytes, size_t part, size_t step)
{
	long total = 0;
	size_t at, n;
	IOL_Agg *agg;

	for (at = 0; at < SIZE; at += step) {
		size_t done = 0;

		while (done < part && at + done < SIZE) {
			IOL_Context *context;
			const char *addr;
			size_t len, from = at + done;

			if (IOL_pread(fd, &agg, part - done, from, &n) || !n)
				return -1;
			IOL_gen_start(agg, &context);
			while (bytes && !IOL_gen_nextRd(context, &addr, &len) && len) {
				if (memcmp(addr, bytes + from, len))
					return -1;
				from += len;
			}
			IOL_gen_end(context);
			IOL_destroy(agg);
			done += n;
		}
		total += done;
	}
	return total;
}

TEST_F(cold, who_reads_on_and_on_gets_more_at_a_time_and_the_right_bytes)
{
	unsigned long before;

	ASSERT_EQ(0, make_cold());
	before = disk_reads(self->fd);
	ASSERT_EQ(SIZE, read_through(self->fd, self->bytes, 65536, 65536));
	/* One for each 64 KiB would be 384. */
	TH_LOG("%lu reads of the disk", disk_reads(self->fd) - before);
	EXPECT_GT(96, disk_reads(self->fd) - before);
}

/* Nothing is read that was not asked for, or that is cached. */
TEST_F(cold, who_reads_here_and_there_gets_no_more_than_he_asks_for)
{
	unsigned long long misses;
	IOL_Agg *agg;
	size_t n;

	ASSERT_EQ(0, make_cold());
	misses = counter("FileMisses");
	/* One in five, so that who goes on comes to some in the middle of what he would be read ahead. */
	ASSERT_LT(0, read_through(self->fd, self->bytes, 4096, 5 * 65536));
	EXPECT_EQ((SIZE / 65536 + 4) / 5, counter("FileMisses") - misses);
	ASSERT_EQ(SIZE, read_through(self->fd, self->bytes, 65536, 65536));
	EXPECT_EQ(SIZE >> 16, counter("FileMisses") - misses);
	ASSERT_EQ(0, make_cold());
	misses = counter("FileMisses");
	ASSERT_EQ(0, posix_fadvise(self->fd, 0, 0, POSIX_FADV_RANDOM));
	ASSERT_EQ(3 * 65536, read_through(self->fd, self->bytes, 3 * 65536, SIZE));
	EXPECT_EQ(3, counter("FileMisses") - misses);
	/* Nor who goes on, when he has said that he will not. */
	ASSERT_EQ(0, IOL_pread(self->fd, &agg, 65536, 3 * 65536, &n));
	EXPECT_EQ(4, counter("FileMisses") - misses);
	IOL_destroy(agg);
	ASSERT_EQ(0, posix_fadvise(self->fd, 0, 0, POSIX_FADV_NORMAL));
	ASSERT_EQ(0, IOL_pread(self->fd, &agg, 65536, 4 * 65536, &n));
	EXPECT_LT(5, counter("FileMisses") - misses);
	IOL_destroy(agg);
}

static double seconds_of(const char *command)
{
	struct timespec from, to;

	if (make_cold())
		return -1;
	clock_gettime(CLOCK_MONOTONIC, &from);
	if (system(command))
		return -1;
	clock_gettime(CLOCK_MONOTONIC, &to);
	return to.tv_sec - from.tv_sec + (to.tv_nsec - from.tv_nsec) / 1e9;
}

static int by_size(const void *a, const void *b)
{
	return *(const double *)a < *(const double *)b ? -1 : 1;
}

/* What a read takes from here on; the files are the same. */
static int disk_takes(int milliseconds)
{
	char command[500];

	snprintf(command, sizeof(command),
		 "umount " MNT " && loop=$(losetup -j " IMAGE " | cut -d: -f1) && "
		 "if [ %d = 0 ]; then dmsetup remove --retry " DISK " && mount $loop " MNT "; "
		 "else modprobe dm-delay; echo \"0 131072 delay $loop 0 %d\" | dmsetup create --noudevsync " DISK " && "
		 "dmsetup mknodes && mount /dev/mapper/" DISK " " MNT "; fi", milliseconds, milliseconds);
	return system(command);
}

/* Of a disk that is waited for, so that it is its reads that count; in turns, since other jobs come and go. */
TEST_F_TIMEOUT(cold, a_cold_file_takes_no_longer_than_cat_takes, 120)
{
	double ratio[TURNS], cat, ours;
	int turn;

	close(self->fd);
	ASSERT_EQ(0, disk_takes(20));
	for (turn = 0; turn < TURNS; turn++) {
		cat = seconds_of("cat " MNT "/f > /dev/null");
		ours = seconds_of("iol-cat " MNT "/f > /dev/null");
		ASSERT_LT(0, cat);
		ASSERT_LT(0, ours);
		ratio[turn] = ours / cat;
		TH_LOG("cat %.3f s, iol-cat %.3f s, ratio %.2f", cat, ours, ratio[turn]);
	}
	qsort(ratio, TURNS, sizeof(*ratio), by_size);
	TH_LOG("median %.2f, from %.2f to %.2f", ratio[TURNS / 2], ratio[0], ratio[TURNS - 1]);
	EXPECT_GT(1.0, ratio[TURNS / 2]);
	EXPECT_EQ(0, disk_takes(0));
	self->fd = open(MNT "/f", O_RDONLY);
}

MODULE_UNLOADS

TEST_HARNESS_MAIN
