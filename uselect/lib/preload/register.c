// SPDX-License-Identifier: MIT
/* When a process registers, and when it is better not helped any more. */

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload.h"

#define USL_AFTER	32
/* Below what select() can have, above what programs count on; if the limit lets us. */
#define USL_FLOOR	960

/* @usl_try_lock: @usl_tried. */
static pthread_mutex_t usl_try_lock = PTHREAD_MUTEX_INITIALIZER;
/* usl_epoch of the process that has tried, and one. */
static _Atomic unsigned int usl_tried;
static _Atomic unsigned int usl_waits;
static _Atomic pid_t usl_owner;
static _Atomic bool usl_never;
/* usl_epoch of the process that does without, and one. */
static _Atomic unsigned int usl_without;
static _Atomic unsigned long usl_answers;

unsigned long uselect_preload_answers(void)
{
	return usl_answers;
}

/* Two threads at once count as one: nothing depends on it, and it costs less. */
void usl_preload_answered(void)
{
	atomic_store_explicit(&usl_answers,
			      atomic_load_explicit(&usl_answers, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

void usl_preload_block(struct usl_blocked *old)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old->signals);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old->cancel);
}

void usl_preload_unblock(const struct usl_blocked *old)
{
	pthread_setcancelstate(old->cancel, NULL);
	pthread_sigmask(SIG_SETMASK, &old->signals, NULL);
}

bool usl_preload_is_owner(void)
{
	return usl_owner == getpid();
}

/* Also while a thread registers, and before: it would be for one table of several. */
void usl_preload_off(void)
{
	if (!usl_region.head || usl_preload_is_owner())
		usl_without = usl_epoch + 1;
	if (usl_preload_is_owner())
		usl_region.nfds = 0;
}

void usl_preload_never(void)
{
	usl_never = true;
	usl_region.nfds = 0;
}

/*
 * Sockets that were there before, listening ones above all: their connections follow. Without
 * opendir(), which takes memory that the interrupted program may just be giving.
 */
static void usl_track_old(void)
{
	char buf[4096] __attribute__((aligned(8)));
	int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct dirent64 *entry;
	long size, at, fd;
	char *end;

	if (dir < 0)
		return;
	while ((size = getdents64(dir, buf, sizeof(buf))) > 0) {
		for (at = 0; at < size; at += entry->d_reclen) {
			entry = (const struct dirent64 *)(buf + at);
			fd = strtol(entry->d_name, &end, 10);
			if (!*end && fd != dir)
				uselect_track(fd);
		}
	}
	usl_sys_close(dir);
}

static unsigned int usl_after(void)
{
	static _Atomic long after = -1;
	const char *value;

	if (after < 0) {
		value = getenv("USELECT_PRELOAD_AFTER");
		after = value ? labs(strtol(value, NULL, 0)) : USL_AFTER;
	}
	return after;
}

static void usl_choose_floor(void)
{
	struct rlimit nofile;

	if (getrlimit(RLIMIT_NOFILE, &nofile))
		return;
	usl_device_floor = nofile.rlim_cur > USL_FLOOR ? USL_FLOOR : nofile.rlim_cur * 15 / 16;
	if (usl_device_floor <= STDERR_FILENO)
		usl_device_floor = STDERR_FILENO + 1;
}

static bool usl_does_without(void)
{
	return usl_never || usl_without == usl_epoch + 1;
}

/*
 * Numbers that are only guessed are not good enough for a program that does not know of us; and
 * other threads wait meanwhile, who must not see a region that goes again.
 */
static void usl_try_locked(void)
{
	const uint32_t needed = USEL_FEATURE_TRACE_FD | USEL_FEATURE_WATCH;
	static bool handles_fork;

	usl_choose_floor();
	usl_owner = getpid();
	if (usl_does_without() || usl_register(0))
		return;
	/* After the library's own, which has to run before it. */
	handles_fork = handles_fork || !pthread_atfork(NULL, NULL, usl_shadow_forget);
	if (!handles_fork || (usl_region.features & needed) != needed) {
		usl_unregister();
		return;
	}
	usl_track_old();
	usl_region_show();
	usl_fence();
	if (usl_does_without())
		usl_region.nfds = 0;
}

static void usl_try(void)
{
	struct usl_blocked mask;
	int err = errno;

	if (usl_never)
		return;
	usl_preload_block(&mask);
	/* Who comes a moment too early is not helped this once. */
	if (!pthread_mutex_trylock(&usl_try_lock)) {
		if (usl_tried != usl_epoch + 1) {
			usl_try_locked();
			usl_tried = usl_epoch + 1;
		}
		pthread_mutex_unlock(&usl_try_lock);
	}
	usl_preload_unblock(&mask);
	errno = err;
}

bool usl_preload_waits(void)
{
	if (usl_preload_on())
		return true;
	if (usl_tried == usl_epoch + 1)
		return false;
	if (usl_waits++ < usl_after())
		return false;
	usl_try();
	return usl_preload_on();
}

bool usl_preload_adds(int fd)
{
	socklen_t size = sizeof(int);
	int protocol, err = errno;

	if (usl_preload_on())
		return true;
	if (usl_never || usl_tried == usl_epoch + 1)
		return false;
	if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size)) {
		errno = err;
		return false;
	}
	if (protocol == IPPROTO_TCP)
		usl_try();
	return usl_preload_on();
}
