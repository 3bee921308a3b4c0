// SPDX-License-Identifier: MIT
/* This process's domain. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

/* Where the window goes if nothing is there: the same pointers in every process that can. */
#define IOL_WINDOW_HINT		((void *)0x600000000000UL)

struct iol_process iol_process = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.fd = -1,
};

/* Of the device that iol_process.fd was opened as. */
static dev_t iol_device_number;

static void *iol_map(void *hint, size_t size, int prot, uint64_t offset)
{
	void *at = mmap(hint, size, prot, MAP_SHARED | (hint ? MAP_FIXED_NOREPLACE : 0),
			iol_process.fd, offset);

	if (at == MAP_FAILED && hint)
		at = mmap(NULL, size, prot, MAP_SHARED, iol_process.fd, offset);
	return at;
}

/* The pipe through which UNIX sockets are read; without one they are read by copy. */
static void iol_scratch_open(int ends[2])
{
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) {
		ends[0] = -1;
		ends[1] = -1;
	}
}

static void iol_scratch_close(const int ends[2])
{
	if (ends[0] < 0)
		return;
	close(ends[0]);
	close(ends[1]);
}

static int iol_init(struct iol_init *init)
{
	int ends[2], err;

	iol_scratch_open(ends);
	init->version = IOL_VERSION;
	init->scratch = ends[0];
	err = ioctl(iol_process.fd, IOL_IOC_INIT, init);
	iol_scratch_close(ends);
	return err;
}

static bool iol_domain_open(void)
{
	struct iol_init init = { 0 };
	const char *off = getenv("IOLITE");
	struct stat st;

	if (off && !strcmp(off, "off"))
		return false;
	iol_process.fd = open("/dev/iolite", O_RDWR | O_CLOEXEC);
	if (iol_process.fd < 0 || fstat(iol_process.fd, &st))
		return false;
	iol_device_number = st.st_rdev;
	if (iol_init(&init))
		return false;
	iol_process.window = iol_map(IOL_WINDOW_HINT, init.window, PROT_READ, 0);
	if (iol_process.window == MAP_FAILED)
		return false;
	iol_process.fill = iol_map(NULL, init.window, PROT_READ | PROT_WRITE, init.fill);
	if (iol_process.fill == MAP_FAILED) {
		munmap(iol_process.window, init.window);
		return false;
	}
	iol_process.domain = init.domain;
	iol_process.pool.pool = init.pool;
	return true;
}

/* A page that the kernel empties in every child, however it was made. */
static void iol_mark_set(void)
{
	size_t page = sysconf(_SC_PAGESIZE);

	if (!iol_process.mark) {
		bool *mark = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (mark == MAP_FAILED)
			return;
		if (madvise(mark, page, MADV_WIPEONFORK)) {
			munmap(mark, page);
			return;
		}
		iol_process.mark = mark;
	}
	*iol_process.mark = true;
}

/* The program may have closed it in the child, and have something of its own under its number. */
static void iol_close_parents(int fd)
{
	struct stat st;

	if (!fstat(fd, &st) && S_ISCHR(st.st_mode) && st.st_rdev == iol_device_number)
		close(fd);
}

/* The parent's buffers are not ours; nothing of them is given back. */
static void iol_process_start(void)
{
	if (iol_process.pid && iol_process.fd >= 0)
		iol_close_parents(iol_process.fd);
	iol_buffers_forget();
	iol_process.fd = -1;
	iol_process.domain = 0;
	iol_process.pool = (struct IOL_Allocator){ 0 };
	iol_process.pid = getpid();
	iol_process.life++;
	iol_process.pool.life = iol_process.life;
	iol_mark_set();
	if (!iol_domain_open() && iol_process.fd >= 0) {
		close(iol_process.fd);
		iol_process.fd = -1;
	}
}

/* open() and close() are where a thread that was cancelled ends, and the lock would stay behind. */
void iol_lock(void)
{
	int keep = errno, cancel;

	pthread_mutex_lock(&iol_process.lock);
	if (iol_process_new()) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
		iol_process_start();
		pthread_setcancelstate(cancel, NULL);
	}
	errno = keep;
}

void iol_unlock(void)
{
	pthread_mutex_unlock(&iol_process.lock);
}

/* A child of one thread must not find the lock held by another, which it does not have. */
static void iol_before_fork(void)
{
	pthread_mutex_lock(&iol_process.lock);
}

static void iol_after_fork(void)
{
	pthread_mutex_unlock(&iol_process.lock);
}

static void __attribute__((constructor)) iol_fork_watch(void)
{
	pthread_atfork(iol_before_fork, iol_after_fork, iol_after_fork);
}

uint64_t IOL_domain(void)
{
	uint64_t domain;

	iol_lock();
	domain = iol_process.domain;
	iol_unlock();
	return domain;
}
