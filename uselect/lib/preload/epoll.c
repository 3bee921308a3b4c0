// SPDX-License-Identifier: GPL-2.0
/* epoll: each has a list of what is ready beside it, see loop.h. */

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "uselect/lib/loop.h"
#include "preload.h"

#define USL_EPOLLS	65536

enum { USL_FREE, USL_BUSY, USL_LIVE, USL_CLOSED };

/**
 * struct usl_epoll - the list of one number
 * @state: made (BUSY), in use (LIVE), its descriptor closed while somebody was in it
 * @users: who is in it
 *
 * The memory stays for the number's next epoll, so that a closer need not wait for a sleeper.
 */
struct usl_epoll {
	struct usl_loop loop;
	_Atomic int state;
	_Atomic int users;
};

static struct usl_epoll *_Atomic usl_epolls[USL_EPOLLS];
static _Atomic bool usl_any;
/* A child takes over one at a time. */
static pthread_mutex_t usl_adopt_lock = PTHREAD_MUTEX_INITIALIZER;

static void usl_epoll_bury(struct usl_epoll *ep)
{
	int closed = USL_CLOSED;

	if (!ep->users && atomic_compare_exchange_strong(&ep->state, &closed, USL_BUSY)) {
		usl_loop_done(&ep->loop);
		ep->state = USL_FREE;
	}
}

static void usl_epoll_put(struct usl_epoll *ep)
{
	if (ep && atomic_fetch_sub(&ep->users, 1) == 1 && ep->state == USL_CLOSED)
		usl_epoll_bury(ep);
}

/*
 * After fork() what the epoll itself knows is still the parent's: the child gets another one
 * under the same number, and a list of its own.
 */
static void usl_epoll_fill(struct usl_loop *loop, const struct usl_loop *old)
{
	unsigned int fd;

	for (fd = 0; fd < old->limit; fd++)
		if (old->fds[fd].flags & (USL_TRACKED | USL_OTHER))
			usl_loop_add(loop, fd, old->fds[fd].events, old->fds[fd].data);
}

static void usl_epoll_adopt(struct usl_epoll *ep, int epfd)
{
	struct usl_loop old = ep->loop;
	int flags = fcntl(epfd, F_GETFD), fresh;

	usl_preload_register(true);
	fresh = syscall(SYS_epoll_create1, EPOLL_CLOEXEC);
	if (fresh < 0 || flags < 0 ||
	    syscall(SYS_dup3, fresh, epfd, flags & FD_CLOEXEC ? O_CLOEXEC : 0) < 0 ||
	    !usl_loop_init(&ep->loop, epfd, false)) {
		ep->state = USL_CLOSED;
	} else {
		usl_epoll_fill(&ep->loop, &old);
		usl_loop_done(&old);
	}
	if (fresh >= 0)
		usl_sys_close(fresh);
}

/* NULL: an epoll without a list, or none at all. */
static struct usl_epoll *usl_epoll_get(int epfd)
{
	struct usl_epoll *ep;

	if ((unsigned int)epfd >= USL_EPOLLS)
		return NULL;
	ep = usl_epolls[epfd];
	if (!ep)
		return NULL;
	ep->users++;
	if (ep->state == USL_LIVE && ep->loop.epoch != usl_epoch) {
		pthread_mutex_lock(&usl_adopt_lock);
		if (ep->loop.epoch != usl_epoch)
			usl_epoll_adopt(ep, epfd);
		pthread_mutex_unlock(&usl_adopt_lock);
	}
	if (ep->state == USL_LIVE)
		return ep;
	usl_epoll_put(ep);
	return NULL;
}

/* Without memory, or while the number's last one is still in use: it is an epoll like any. */
static void usl_epoll_new(int epfd)
{
	struct usl_epoll *ep, *none = NULL;
	int was_free = USL_FREE, err = errno;

	if (epfd < 0 || epfd >= USL_EPOLLS || !usl_preload_register(true))
		goto out;
	ep = usl_epolls[epfd];
	if (!ep) {
		ep = calloc(1, sizeof(*ep));
		if (!ep)
			goto out;
		if (!atomic_compare_exchange_strong(&usl_epolls[epfd], &none, ep)) {
			free(ep);
			ep = none;
		}
	}
	if (!atomic_compare_exchange_strong(&ep->state, &was_free, USL_BUSY))
		goto out;
	usl_any = true;
	ep->state = usl_loop_init(&ep->loop, epfd, false) ? USL_LIVE : USL_FREE;
out:
	errno = err;
}

void usl_preload_nested(int fd)
{
	struct usl_epoll *ep = usl_any ? usl_epoll_get(fd) : NULL;

	if (ep)
		usl_loop_nest(&ep->loop);
	usl_epoll_put(ep);
}

void usl_preload_closing(int fd)
{
	struct usl_epoll *ep;
	int live = USL_LIVE;

	if (!usl_any || (unsigned int)fd >= USL_EPOLLS)
		return;
	ep = usl_epolls[fd];
	if (ep && atomic_compare_exchange_strong(&ep->state, &live, USL_CLOSED))
		usl_epoll_bury(ep);
}

void usl_preload_closing_range(unsigned int first, unsigned int last)
{
	for (; usl_any && first <= last && first < USL_EPOLLS; first++)
		usl_preload_closing(first);
}

int epoll_create1(int flags)
{
	int epfd = syscall(SYS_epoll_create1, flags);

	usl_epoll_new(epfd);
	return epfd;
}

int epoll_create(int size)
{
	if (size <= 0) {
		errno = EINVAL;
		return -1;
	}
	return epoll_create1(0);
}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	struct usl_epoll *ep = usl_epoll_get(epfd);
	int ret;

	if (op == EPOLL_CTL_ADD)
		usl_preload_nested(fd);
	if (!ep || (!ev && op != EPOLL_CTL_DEL)) {
		ret = usl_sys_epoll_ctl(epfd, op, fd, ev);
	} else if (op == EPOLL_CTL_ADD) {
		ret = usl_loop_add(&ep->loop, fd, ev->events, ev->data.u64);
	} else if (op == EPOLL_CTL_MOD) {
		ret = usl_loop_mod(&ep->loop, fd, ev->events, ev->data.u64);
	} else if (op == EPOLL_CTL_DEL) {
		ret = usl_loop_del(&ep->loop, fd);
	} else {
		errno = EINVAL;
		ret = -1;
	}
	usl_epoll_put(ep);
	return ret;
}

int epoll_pwait(int epfd, struct epoll_event *events, int max, int timeout,
			   const sigset_t *mask)
{
	struct usl_epoll *ep = usl_epoll_get(epfd);
	int n;

	if (ep)
		n = usl_loop_wait(&ep->loop, events, max, timeout, mask);
	else
		n = usl_sys_epoll_pwait(epfd, events, max, timeout, mask);
	usl_epoll_put(ep);
	return n;
}

int epoll_wait(int epfd, struct epoll_event *events, int max, int timeout)
{
	return epoll_pwait(epfd, events, max, timeout, NULL);
}

/* To the millisecond, and not before the time. */
int epoll_pwait2(int epfd, struct epoll_event *events, int max,
			    const struct timespec *timeout, const sigset_t *mask)
{
	struct usl_epoll *ep = usl_epoll_get(epfd);
	int n, ms = -1;

	if (timeout)
		ms = timeout->tv_sec >= INT_MAX / 1000 ? INT_MAX :
		     timeout->tv_sec * 1000 + (timeout->tv_nsec + 999999) / 1000000;
	if (ep)
		n = usl_loop_wait(&ep->loop, events, max, ms, mask);
	else
		n = syscall(SYS_epoll_pwait2, epfd, events, max, timeout, mask, _NSIG / 8);
	usl_epoll_put(ep);
	return n;
}
