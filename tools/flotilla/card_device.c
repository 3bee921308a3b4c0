// SPDX-License-Identifier: GPL-2.0
/*
 * What flotilla card sees of a block device before it is exported, and the kernel's
 * module does not: the file under a loop device, the UUID of a logical volume or an array,
 * the serial number of a virtual disk. Of these an identity is made. Where nothing is
 * found the kernel looks for the disk's own number.
 *
 * And its twins: loop devices over the same file, or over the device itself, and the device
 * that a loop device lies on. The block layer does not know that they are the same storage.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "card.h"

#ifndef FS_IOC_GETFSUUID
struct fsuuid2 {
	unsigned char len;
	unsigned char uuid[16];
};
#define FS_IOC_GETFSUUID _IOR(0x15, 0, struct fsuuid2)
#endif

#define SEED_MAX 1024
/* Loop devices over block devices over loop devices... */
#define DEPTH_MAX 8

bool uuid_read(const char *text, unsigned char uuid[CARD_UUID_LEN])
{
	unsigned int n;

	for (n = 0; n < CARD_UUID_LEN; n++) {
		unsigned int byte;

		if (n == 4 || n == 6 || n == 8 || n == 10) {
			if (*text++ != '-')
				return false;
		}
		if (!isxdigit((unsigned char)text[0]) || !isxdigit((unsigned char)text[1]) ||
		    sscanf(text, "%2x", &byte) != 1)
			return false;
		uuid[n] = byte;
		text += 2;
	}
	return !*text;
}

void uuid_write(const void *uuid, char text[UUID_TEXT])
{
	const unsigned char *byte = uuid;
	unsigned int n;

	for (n = 0; n < CARD_UUID_LEN; n++)
		text += sprintf(text, n == 4 || n == 6 || n == 8 || n == 10 ? "-%02x" : "%02x",
				byte[n]);
}

/* FNV-1a of 128 bits: nobody attacks it, whoever may export may also name the identity. */
static void uuid_of_seed(const char *seed, unsigned char uuid[CARD_UUID_LEN])
{
	const unsigned __int128 prime = ((unsigned __int128)1 << 88) + 0x13b;
	unsigned __int128 hash = ((unsigned __int128)0x6c62272e07bb0142 << 64) + 0x62b821756295c58d;

	for (; *seed; seed++)
		hash = (hash ^ (unsigned char)*seed) * prime;
	for (unsigned int n = 0; n < CARD_UUID_LEN; n++)
		uuid[n] = hash >> (8 * n);
	uuid[6] = (uuid[6] & 0x0f) | 0x80;	/* version 8: as we like; RFC 9562 */
	uuid[8] = (uuid[8] & 0x3f) | 0x80;
}

/* False: there is no room, and half a seed is none. */
__attribute__((format(printf, 2, 3)))
static bool seed_add(char seed[SEED_MAX], const char *format, ...)
{
	size_t have = strlen(seed);
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(seed + have, SEED_MAX - have, format, args);
	va_end(args);
	return n > 0 && (size_t)n < SEED_MAX - have;
}

/* A line of /sys/dev/block/MAJOR:MINOR/@name. False: there is none, or nothing in it. */
static bool sys_line(dev_t dev, const char *name, char *line, size_t size)
{
	char path[128];
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s", major(dev), minor(dev), name);
	f = fopen(path, "re");
	if (!f)
		return false;
	ok = fgets(line, size, f);
	fclose(f);
	if (!ok)
		return false;
	line[strcspn(line, "\n")] = '\0';
	return line[0];
}

/* The file system's UUID and the file's handle, which has its generation: a number is used again. */
static bool seed_of_file(int fd, const struct stat *st, char seed[SEED_MAX])
{
	_Alignas(struct file_handle) unsigned char space[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	struct file_handle *handle = (void *)space;
	const unsigned char *byte = space + sizeof(*handle);
	struct fsuuid2 fs;
	char text[UUID_TEXT];
	unsigned int i;
	int mount;

	if (!ioctl(fd, FS_IOC_GETFSUUID, &fs) && fs.len == CARD_UUID_LEN) {
		uuid_write(fs.uuid, text);
		if (!seed_add(seed, "fs %s", text))
			return false;
	} else if (!seed_add(seed, "dev %u:%u", major(st->st_dev), minor(st->st_dev))) {
		return false;
	}
	if (!seed_add(seed, " file %llu", (unsigned long long)st->st_ino))
		return false;
	handle->handle_bytes = MAX_HANDLE_SZ;
	if (name_to_handle_at(fd, "", handle, &mount, AT_EMPTY_PATH))
		return true;
	for (i = 0; i < handle->handle_bytes; i++)
		if (!seed_add(seed, "%s%02x", i ? "" : " handle ", byte[i]))
			return false;
	return true;
}

static bool seed_of_device(int fd, dev_t dev, char seed[SEED_MAX], unsigned int depth);

static bool seed_of_loop(int fd, dev_t dev, char seed[SEED_MAX], unsigned int depth)
{
	struct loop_info64 info;
	struct stat st;
	char line[4096];
	bool ok = false;
	int under;

	if (ioctl(fd, LOOP_GET_STATUS64, &info) || !seed_add(seed, "loop %llu ",
							     (unsigned long long)info.lo_offset) ||
	    !sys_line(dev, "loop/backing_file", line, sizeof(line)))
		return false;
	under = open(line, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (under < 0)
		return false;
	/* The name may be another file's by now. */
	if (fstat(under, &st) || st.st_ino != info.lo_inode)
		ok = false;
	else if (S_ISBLK(st.st_mode))
		ok = seed_of_device(under, st.st_rdev, seed, depth + 1);
	else
		ok = seed_of_file(under, &st, seed);
	close(under);
	return ok;
}

static bool seed_of_device(int fd, dev_t dev, char seed[SEED_MAX], unsigned int depth)
{
	static const char *const names[] = { "dm/uuid", "md/uuid", "wwid", "device/wwid", "serial" };
	char line[512], of[32];
	unsigned int i, ma, mi;

	if (depth > DEPTH_MAX)
		return false;
	if (sys_line(dev, "loop/backing_file", line, sizeof(line)))
		return seed_of_loop(fd, dev, seed, depth);
	if (sys_line(dev, "partition", line, sizeof(line)))
		return sys_line(dev, "start", line, sizeof(line)) &&
		       sys_line(dev, "../dev", of, sizeof(of)) &&
		       sscanf(of, "%u:%u", &ma, &mi) == 2 &&
		       seed_add(seed, "from %s of ", line) &&
		       seed_of_device(fd, makedev(ma, mi), seed, depth + 1);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (sys_line(dev, names[i], line, sizeof(line)))
			return seed_add(seed, "%s %s", names[i], line);
	return false;
}

/* The number of a file that is a device, and of the disk that a partition is on. */
static dev_t whole_of(dev_t dev)
{
	unsigned int ma, mi;
	char line[32];

	if (sys_line(dev, "partition", line, sizeof(line)) &&
	    sys_line(dev, "../dev", line, sizeof(line)) && sscanf(line, "%u:%u", &ma, &mi) == 2)
		return makedev(ma, mi);
	return dev;
}

static void twin_add(struct card_device *device, dev_t dev)
{
	uint32_t twin = major(dev) << 20 | minor(dev);
	unsigned int i;

	for (i = 0; i < device->nr_twins; i++)
		if (device->twins[i] == twin)
			return;
	if (device->nr_twins < CARD_CLAIMS_MAX)
		device->twins[device->nr_twins++] = twin;
}

/* What a loop device lies on. False: it is none, or has none. */
static bool loop_under(dev_t dev, struct stat *st)
{
	char line[4096];

	return sys_line(dev, "loop/backing_file", line, sizeof(line)) && !stat(line, st);
}

static bool ranges_meet(const struct loop_info64 *a, const struct loop_info64 *b)
{
	uint64_t a_end = a->lo_sizelimit ? a->lo_offset + a->lo_sizelimit : UINT64_MAX;
	uint64_t b_end = b->lo_sizelimit ? b->lo_offset + b->lo_sizelimit : UINT64_MAX;

	return a->lo_offset < b_end && b->lo_offset < a_end;
}

static bool loop_info(const char *name, struct loop_info64 *info)
{
	char path[64];
	int fd, err;

	snprintf(path, sizeof(path), "/dev/%.32s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	err = ioctl(fd, LOOP_GET_STATUS64, info);
	close(fd);
	return !err;
}

/*
 * Of @dev, a whole disk: all loop devices that lead to it, or to the same file, or to the
 * device below it, and that one. One of them that is claimed already, or read-only and
 * not ours to care for, is for the kernel to judge.
 */
static void twins_find(dev_t dev, struct card_device *device)
{
	struct stat mine, st;
	struct loop_info64 own = {}, other = {};
	bool loop = loop_under(dev, &mine);
	struct dirent *entry;
	char line[32], name[64];
	unsigned int ma, mi;
	DIR *dir;

	if (loop && S_ISBLK(mine.st_mode))
		twin_add(device, mine.st_rdev);
	dir = opendir("/sys/block");
	if (!dir)
		return;
	if (loop) {
		snprintf(name, sizeof(name), "loop%u", minor(dev));
		sys_line(dev, "uevent", line, sizeof(line));
		loop = loop_info(name, &own);
	}
	while ((entry = readdir(dir))) {
		char path[300];
		dev_t that;
		FILE *f;
		bool ok;

		if (strncmp(entry->d_name, "loop", 4))
			continue;
		snprintf(path, sizeof(path), "/sys/block/%s/dev", entry->d_name);
		f = fopen(path, "re");
		ok = f && fscanf(f, "%u:%u", &ma, &mi) == 2;
		if (f)
			fclose(f);
		that = makedev(ma, mi);
		if (!ok || that == dev || !loop_under(that, &st))
			continue;
		if (S_ISBLK(st.st_mode) && whole_of(st.st_rdev) == dev)
			twin_add(device, that);
		else if (loop && loop_info(entry->d_name, &other) && ranges_meet(&own, &other) &&
			 (S_ISBLK(st.st_mode) ? st.st_rdev == mine.st_rdev :
			  st.st_dev == mine.st_dev && st.st_ino == mine.st_ino))
			twin_add(device, that);
	}
	closedir(dir);
}

void card_device_look(const char *path, struct card_device *device)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char seed[SEED_MAX] = "";
	struct stat st;

	memset(device, 0, sizeof(*device));
	if (fd < 0)
		return;
	if (!fstat(fd, &st) && S_ISBLK(st.st_mode)) {
		twins_find(whole_of(st.st_rdev), device);
		if (seed_of_device(fd, st.st_rdev, seed, 0)) {
			uuid_of_seed(seed, device->uuid);
			device->known = true;
		}
	}
	close(fd);
}
