/* SPDX-License-Identifier: MIT */
/*
 * libuselect-preload: under the names of the C library, for programs that know nothing of us.
 *
 * It says from the region that something is ready, and no more than that. Whatever changes
 * something, and whatever sleeps, is the program's own call, made as the program made it, so that
 * the kernel's epolls are at all times what they would be without us; whoever reaches them past
 * this library finds them so. In doubt it is not there.
 */
#ifndef USELECT_PRELOAD_H
#define USELECT_PRELOAD_H

#include <sched.h>
#include <stdbool.h>

#include "uselect/lib/internal.h"

/* --- the functions whose names we have; before our constructor they are system calls --- */

int usl_real_poll(struct pollfd *fds, nfds_t nfds, int timeout);
int usl_real_ppoll(struct pollfd *fds, nfds_t nfds, const struct timespec *timeout,
		   const sigset_t *mask);
int usl_real_select(int nfds, fd_set *rd, fd_set *wr, fd_set *ex, struct timeval *timeout);
int usl_real_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev);
int usl_real_epoll_wait(int epfd, struct epoll_event *events, int max, int timeout);
int usl_real_epoll_pwait(int epfd, struct epoll_event *events, int max, int timeout,
			 const sigset_t *mask);
int usl_real_epoll_pwait2(int epfd, struct epoll_event *events, int max,
			  const struct timespec *timeout, const sigset_t *mask);
int usl_real_close(int fd);
int usl_real_close_range(unsigned int first, unsigned int last, int flags);
int usl_real_dup2(int old, int fresh);
int usl_real_dup3(int old, int fresh, int flags);
int usl_real_unshare(int flags);
int usl_real_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
int usl_real_clone(int (*fn)(void *), void *stack, int flags, void *arg, pid_t *parent, void *tls,
		   pid_t *child);

/* --- registration --- */

/* The process has a region that can be relied upon. */
static inline bool usl_preload_on(void)
{
	return usl_region.nfds;
}

/* It has, if need be from now on: once it has waited so often that it looks like a server. */
bool usl_preload_waits(void);
/* It has, if need be from now on, because it waits for this TCP socket by levels. */
bool usl_preload_adds(int fd);
/* Something was done that we cannot follow: no answers any more, until exec(). */
void usl_preload_off(void);
/* The program makes a sandbox for itself: from now on no system call but its own. */
void usl_preload_never(void);
/* The calling process is the one that registered, and not one that shares its memory. */
bool usl_preload_is_owner(void);
/**
 * struct usl_blocked - how the thread was before usl_preload_block()
 * @signals: its mask
 * @cancel:  whether it may be cancelled
 */
struct usl_blocked {
	sigset_t signals;
	int cancel;
};

/* While it is so no signal handler runs that could come back to us, and nobody ends the thread. */
void usl_preload_block(struct usl_blocked *old);
void usl_preload_unblock(const struct usl_blocked *old);

/* --- shadow.c --- */

/* What is ready, without a call; 0: the kernel is to be asked. */
int usl_shadow_answer(int epfd, struct epoll_event *out, int max);
/* epoll_ctl(), of which the shadow takes notice. */
int usl_shadow_ctl(int epfd, int op, int fd, struct epoll_event *ev);
/* The number is closed, or comes to name something else. */
void usl_shadow_closing(int fd);
void usl_shadow_closing_range(unsigned int first, unsigned int last);
/* In a child of fork(): the parent's are forgotten. */
void usl_shadow_forget(void);

/* --- for tests --- */

/* Answers that were given without a call, about. */
unsigned long uselect_preload_answers(void);
void usl_preload_answered(void);

#endif
