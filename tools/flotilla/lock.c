// SPDX-License-Identifier: GPL-2.0
/* One apply at a time, and one rebalance: what one has read of the kernel, another must not change before the first is done. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "lock.h"

#define LOCK_DIRECTORY	"/run/flotilla"
#define LOCK_FILE	LOCK_DIRECTORY "/apply.lock"
#define REBALANCE_FILE	LOCK_DIRECTORY "/rebalance.lock"
#define WAIT_MS		10000
#define STEP_MS		50

/* Who has it has written its number; "" when it has not yet. */
static const char *holder(int fd, char *text, size_t size)
{
	char number[16];
	ssize_t len = pread(fd, number, sizeof(number) - 1, 0);

	number[len > 0 ? len : 0] = '\0';
	number[strspn(number, "0123456789")] = '\0';
	snprintf(text, size, number[0] ? " (process %s)" : "", number);
	return text;
}

static int try(int fd)
{
	const struct timespec step = { 0, STEP_MS * 1000000L };
	int waited;

	for (waited = 0; flock(fd, LOCK_EX | LOCK_NB); waited += STEP_MS) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (waited >= WAIT_MS)
			return -EWOULDBLOCK;
		nanosleep(&step, NULL);
	}
	return 0;
}

static int open_lock(struct cli *cli, const char *path)
{
	int fd;

	/* systemd-tmpfiles has made it at boot, if there is one. */
	mkdir(LOCK_DIRECTORY, 0755);
	/* Nobody else may open it: who can open it can lock it. */
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (fd < 0)
		cli_fail(cli, "%s cannot be opened, which keeps two from changing things at once: %s", path,
			 strerror(errno));
	return fd;
}

int apply_lock(struct cli *cli)
{
	int fd = open_lock(cli, LOCK_FILE), err;
	char text[32];

	if (fd < 0)
		return -1;
	err = try(fd);
	if (err == -EWOULDBLOCK)
		cli_fail(cli, "another one%s has been at it for %d seconds", holder(fd, text, sizeof(text)),
			 WAIT_MS / 1000);
	else if (err)
		cli_fail(cli, "%s cannot be locked: %s", LOCK_FILE, strerror(-err));
	if (err) {
		close(fd);
		return -1;
	}
	/* For people who wait; without it they are told less. */
	if (!ftruncate(fd, 0))
		dprintf(fd, "%d\n", getpid());
	return fd;
}

void apply_unlock(int fd)
{
	if (fd < 0)
		return;
	close(fd);
}

int rebalance_lock(struct cli *cli)
{
	/* A byte for each network namespace, all of which may share the file. */
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	struct stat net;
	int fd = open_lock(cli, REBALANCE_FILE);

	if (fd < 0)
		return -1;
	if (!stat("/proc/self/ns/net", &net))
		lock.l_start = net.st_ino;
	if (!fcntl(fd, F_OFD_SETLK, &lock))
		return fd;
	if (errno == EAGAIN || errno == EACCES)
		cli_fail(cli, "another one is at it just now");
	else
		cli_fail(cli, "%s cannot be locked: %s", REBALANCE_FILE, strerror(errno));
	close(fd);
	return -1;
}
