/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The event loop of one worker: descriptors, timers, and what is to be done at a batch's end.
 * A loop belongs to one thread.
 */
#ifndef LARD_LOOP_H
#define LARD_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include "tools/base/list.h"

/**
 * struct source - something with a descriptor
 * @fd:    -1 when closed; events still in the batch are then dropped
 * @ready: called with EPOLL* bits; 0 after loop_again()
 * @bury:  frees it, at the end of the batch
 */
struct source {
	int fd;
	bool again;
	bool dead;
	void (*ready)(struct source *s, uint32_t events);
	void (*bury)(struct source *s);
	struct source *next_again;
	struct source *next_dead;
};

struct timer {
	struct list link;
	uint64_t when;
};

/* Timers of one purpose. Near-equal durations make starting one O(1). */
struct timer_queue {
	struct list timers;
	struct list link;
	void (*expired)(struct timer *t);
};

struct uselect_loop;

/**
 * struct loop - see above
 * @epoll_fd: -1 when there is @list
 * @list:  readiness from memory, see uselect/; NULL: by epoll
 * @now:   microseconds of CLOCK_MONOTONIC at the start of the batch
 * @alarm: timerfd for the first timer. A time-out of epoll_wait() would set up and cancel a kernel
 *	   timer each time the loop sleeps; this one is set when the first timer is sooner than it.
 * @rings: when it expires; UINT64_MAX: not set
 */
struct loop {
	int epoll_fd;
	struct uselect_loop *list;
	struct source alarm;
	uint64_t rings;
	bool stop;
	uint64_t now;
	struct list queues;
	struct source *again;
	struct source *dead;
};

/*
 * Registers the process with uselect.ko, before any socket is made and after the last fork().
 * 0 or -errno: loops go by epoll then.
 */
int loop_register(void);
/* @by_uselect: loop_register() has succeeded. */
int loop_init(struct loop *loop, bool by_uselect);
void loop_exit(struct loop *loop);
/* Until loop->stop. @batch_end, if not NULL, is called after each batch. */
void loop_run(struct loop *loop, void (*batch_end)(void *arg), void *arg);
uint64_t loop_clock(void);

/* 0 or -errno. */
int loop_add(struct loop *loop, struct source *s, uint32_t events);
int loop_modify(struct loop *loop, struct source *s, uint32_t events);
void loop_remove(struct loop *loop, struct source *s);
/* Call s->ready(s, 0) in the next batch, without waiting. */
void loop_again(struct loop *loop, struct source *s);
/* Close s->fd now, call bury() when nothing in this batch can refer to it any more. */
void loop_bury(struct loop *loop, struct source *s, void (*bury)(struct source *s));

void timer_queue_init(struct loop *loop, struct timer_queue *q, void (*expired)(struct timer *t));
void timer_init(struct timer *t);
/* Restarts a running one. */
void timer_start(struct loop *loop, struct timer_queue *q, struct timer *t, uint64_t after_us);
void timer_stop(struct timer *t);

#endif
