/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The event loop: descriptors, timers, the time, and a way for helpers to wake it.
 *
 * A loop belongs to one thread; only loop_wake() may be called by others and by signal handlers.
 * Watches are edge-triggered: a callback must go on until the descriptor would block, or remember
 * that it did not. Listening sockets are level-triggered, so that workers can share the work.
 */
#ifndef FLASH_LOOP_H
#define FLASH_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "httpdate.h"
#include "tools/base/list.h"

struct loop;

struct watch {
	void (*ready)(struct watch *w, uint32_t events);
	int fd;
	uint32_t events;	/* asked for; 0: not watched */
	uint32_t token;		/* io_uring: which arming of the slot an event belongs to */
	struct list node;	/* direct backend */
	bool nonblocking;	/* direct backend: its calls do not wait, poll() must */
};

struct timer {
	struct list node;
	uint64_t deadline;	/* ms; may be moved later by a plain store */
	uint64_t armed;		/* the wheel looks at it no later than this */
	void (*expired)(struct timer *t);
};

/* One event mechanism. All return 0 or a negative errno. */
struct loop_backend {
	const char *name;
	int (*init)(struct loop *loop);
	void (*exit)(struct loop *loop);
	int (*add)(struct loop *loop, struct watch *w);
	void (*del)(struct loop *loop, struct watch *w);
	/* As del, for a descriptor that is closed next; NULL: nothing needs to be done then. */
	void (*closing)(struct loop *loop, struct watch *w);
	/* Waits and calls the callbacks; at most @timeout ms, -1 for ever. */
	int (*wait)(struct loop *loop, int timeout);
};

extern const struct loop_backend loop_epoll, loop_uring, loop_uselect, loop_direct;

#define LOOP_TICK 64		/* ms a wheel slot stands for */
#define LOOP_SLOTS 256
#define LOOP_STALL_BUCKETS 32	/* powers of two of a microsecond */

struct loop {
	const struct loop_backend *backend;
	void *priv;			/* of the backend */
	uint64_t now;			/* ms, coarse, monotonic */
	time_t wall;			/* s */
	char date[HTTPDATE_LEN + 1];	/* of @wall */
	bool stop;
	/*
	 * Programs are started: between fork and exec they hold our descriptors too, and closing
	 * ours then does not end the watch. (vfork's parent goes on before exec closes them.)
	 */
	bool spawns;
	int wake_fd;
	struct watch wake;
	void (*woken)(struct loop *loop);	/* on the loop's thread, after loop_wake() */
	bool (*turn)(struct loop *loop);	/* after each batch; true: again at once */
	bool again;

	uint64_t next_tick;		/* first time a slot is worth a look; UINT64_MAX: none */
	uint64_t done_tick;		/* slots up to this one have been looked at */
	struct list slots[LOOP_SLOTS];

	struct list graveyard;		/* freed only after the batch of events */
	uint64_t *stalls;		/* histogram, or NULL */
	uint64_t *stall_max;		/* us, of the longest turn; with @stalls */
	uint64_t stall_start;
};

/* Something events of the running batch may still point to. */
struct grave {
	struct list node;
	void (*free)(struct grave *g);
};

int loop_init(struct loop *loop, const struct loop_backend *backend);
void loop_exit(struct loop *loop);
int loop_run(struct loop *loop);
void loop_wake(struct loop *loop);
void loop_bury(struct loop *loop, struct grave *g);

static inline int loop_add(struct loop *loop, struct watch *w, uint32_t events)
{
	int err;

	w->events = events;
	err = loop->backend->add(loop, w);
	if (err)
		w->events = 0;
	return err;
}

static inline void loop_del(struct loop *loop, struct watch *w)
{
	if (!w->events)
		return;
	loop->backend->del(loop, w);
	w->events = 0;
}

/* By edges: what is ready already is news once more, when others have had their turn. */
static inline int watch_again(struct loop *loop, struct watch *w)
{
	uint32_t events = w->events;

	loop_del(loop, w);
	return loop_add(loop, w, events);
}

/* Stops watching and closes the descriptor. */
static inline void loop_close(struct loop *loop, struct watch *w)
{
	if (w->events && loop->spawns)
		loop->backend->del(loop, w);
	else if (w->events && loop->backend->closing)
		loop->backend->closing(loop, w);
	w->events = 0;
	close(w->fd);
	w->fd = -1;
}

/* Arms @t; an armed one moves. Moving later needs only a store to @t->deadline. */
void loop_timer_set(struct loop *loop, struct timer *t, uint64_t deadline);

static inline void loop_timer_del(struct timer *t)
{
	list_del(&t->node);
}

/* For backends: the clocks after a wait, the stall measurement around it. */
void loop_clock(struct loop *loop);
void loop_stall_begin(struct loop *loop);
void loop_stall_end(struct loop *loop);

#endif
