/* SPDX-License-Identifier: MIT */
/* A list of what is ready: under uselect_loop_*(), and in part under the preload library's epoll. */
#ifndef USELECT_LOOP_H
#define USELECT_LOOP_H

#include <pthread.h>

#include "internal.h"

#define USL_TRACKED	1	/* by the set */
#define USL_OTHER	2	/* by the epoll */
#define USL_QUEUED	4

#define USL_MODES	(EPOLLET | EPOLLONESHOT | EPOLLWAKEUP | EPOLLEXCLUSIVE)

/**
 * struct usl_fd - interest in one descriptor
 * @gen:    usel_fd.gen of what it was added for; another one: that is closed
 * @events: EPOLL*; only modes after a oneshot
 */
struct usl_fd {
	uint64_t data;
	uint32_t events;
	uint32_t gen;
	uint32_t flags;
};

/**
 * struct usl_loop - interest, and what is ready of it
 * @lock:   all of it; not held while sleeping
 * @epfd:   epoll of what is not tracked, and of the set's descriptor
 * @set:    NULL: nothing is tracked
 * @epoch:  usl_epoch of its making
 * @limit:  size of @fds and @queue, a power of two
 * @fds:    by descriptor; memory comes as it is touched
 * @queue:  descriptors to look at, from @head to @tail, each once
 * @seq:    of the set when it was last looked at
 * @taken:  entries of the kernel's ring that were taken
 * @overflows: as last seen
 * @others: descriptors in the epoll, at least
 * @nested: somebody else may sleep on @epfd
 * @edges:  the epoll watches the set's descriptor by edges, which saves it a second look:
 *	    not @nested, and no two threads were in usl_loop_wait() at a time yet
 * @asleep: threads that sleep in usl_loop_wait()
 * @shadow: of the preload library: the epoll has all that is here, too
 */
struct usl_loop {
	pthread_mutex_t lock;
	int epfd;
	struct usl_set *set;
	unsigned int epoch;
	unsigned int limit;
	struct usl_fd *fds;
	uint32_t *queue;
	uint32_t head;
	uint32_t tail;
	uint64_t seq;
	uint32_t taken;
	uint32_t ring_mask;
	uint64_t overflows;
	unsigned int others;
	bool nested;
	bool edges;
	unsigned int asleep;
	bool shadow;
	struct usl_pass pass;
};

/* False with errno; @epfd stays the caller's. @edges: nobody else sleeps on it until usl_loop_nest(). */
bool usl_loop_init(struct usl_loop *loop, int epfd, bool edges);
void usl_loop_nest(struct usl_loop *loop);
void usl_loop_done(struct usl_loop *loop);
int usl_loop_add(struct usl_loop *loop, int fd, uint32_t events, uint64_t data);
int usl_loop_mod(struct usl_loop *loop, int fd, uint32_t events, uint64_t data);
int usl_loop_del(struct usl_loop *loop, int fd);
int usl_loop_threshold(struct usl_loop *loop, int fd, uint32_t rx_bytes);
int usl_loop_wait(struct usl_loop *loop, struct epoll_event *out, int max, int timeout,
		  const sigset_t *mask);

/* --- what is ready; under @lock --- */

unsigned int usl_loop_limit(void);
void usl_enqueue(struct usl_loop *loop, unsigned int fd);
/* @events: EPOLL*; 0: nothing is wanted. */
void usl_want(struct usl_loop *loop, unsigned int fd, uint32_t events);
void usl_unwant(struct usl_loop *loop, unsigned int fd);
/* Closed, and perhaps another by now; or no longer tracked, and the epoll's. */
void usl_lost(struct usl_loop *loop, unsigned int fd);
/* What is of interest of a descriptor, 0: nothing. @now: and not only what the last event said. */
uint32_t usl_look(struct usl_loop *loop, unsigned int fd, bool now);
/* Takes what the kernel's ring has, and says what is ready; what does not fit is queued. */
int usl_harvest(struct usl_loop *loop, struct epoll_event *out, int max);

#endif
