/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The daemon's two central structs: what a worker owns alone, and what all share.
 *
 * A worker is a thread with its own loop, listeners (SO_REUSEPORT), handoff device, connections
 * and counters. Worker 0 is the main thread; it alone also has the control socket, the node table's
 * events and health checks.
 */
#ifndef LARD_WORKER_H
#define LARD_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include "config.h"
#include "conn.h"
#include "counter.h"
#include "fetch.h"
#include "give.h"
#include "hot.h"
#include "kernel_cache.h"
#include "listener.h"
#include "loop.h"
#include "nodes.h"
#include "policy.h"
#include "request.h"
#include "tally.h"

/* More than addresses: after a takeover by fewer workers one has several sockets of an address. */
#define WORKER_LISTENERS_MAX (4 * CONFIG_LISTEN_MAX)

/**
 * struct worker - one thread's world; touched by that thread alone, except
 * @mail:      connections of this worker that another one took off the queue; under lardd->lock
 * @counters:  written by the worker, read by worker 0
 * @live:      likewise; connections that exist, by state
 * @tally:     likewise
 * @fresh:     listeners that it is to start with its next configuration; under lardd->lock
 *
 * @peek, @request: the request being looked at; valid until the loop's next event
 */
struct worker {
	struct lardd *lardd;
	unsigned int index;
	pthread_t thread;
	struct loop loop;
	struct config *config;
	struct listener *listeners[WORKER_LISTENERS_MAX];
	struct listener *fresh;
	struct give give;
	int splicer;				/* /dev/sksplice, or -1 */
	struct conn_pool pool;
	struct timer_queue shake_timers;	/* TLS handshakes */
	struct timer_queue header_timers;	/* request expected or incomplete */
	struct timer_queue prelude_timers;	/* likewise, of HTTP/2 that may be handed off */
	struct timer_queue idle_timers;		/* kept clients that have sent nothing yet */
	struct timer_queue queue_timers;	/* waits for room */
	struct timer_queue park_timers;		/* waits for another's answer */
	struct timer_queue connect_timers;	/* to back-ends */
	struct timer_queue io_timers;		/* proxying without progress */
	struct timer_queue linger_timers;	/* refused: reads until the client has read */
	struct timer_queue backend_timers;	/* idle connections to back-ends */
	struct timer_queue tick_timers;
	struct timer tick;			/* once a second */
	struct timer_queue room_timers;
	struct timer room_timer;		/* looks for room that the kernel has, while somebody waits */
	bool room_watched;			/* it runs */
	struct timer_queue listen_timers;	/* listeners that pause */
	struct timer_queue service_timers;	/* likewise, of control and metrics */
	struct list backends[LARD_MAX_NODES];	/* idle connections, by node, the longest idle first */
	unsigned int idle_backends[LARD_MAX_NODES];	/* how many */
	uint64_t distrust_until[LARD_MAX_NODES];	/* see backend_distrust() */
	struct list charged;			/* exchanges with a place at a node, the oldest first */
	struct exchange *spare;			/* exchanges to reuse */
	unsigned int spares;
	struct source wake;			/* eventfd */
	struct list shaking;			/* whose handshake can go on, the first come first */
	struct list mail;
	struct list parked;			/* who waits for another's answer */
	_Atomic bool unpark;			/* it is there, or will not be: look at @parked; set by any worker */
	bool room;				/* load was released: look at the queue */
	_Atomic uint64_t counters[COUNTERS];
	_Atomic uint32_t live[CONN_STATES];
	struct tally tally;
	struct hot *hot;			/* has its own lock; NULL: there is no status page */
	char peek[REQUEST_HEADER_MAX + 1];
	struct request request;
};

/**
 * struct lardd - what the workers share
 * @lock:     guards @engine, @nodes, @waiting and every worker's @mail. A leaf; never held across
 *            a system call that can block.
 * @waiting:  connections beyond the admission limit, first come first served
 * @waiters:  their number; may be read without the lock as a hint
 * @tunnels:  WebSockets that are open; they are no load
 * @config:   the newest; each worker moves to it at the end of a batch
 * @others:   workers that run beside worker 0, which goes last: it has the signals and the control socket
 * @settling: workers that have not moved to @config yet; under @lock. @settled is told when none is
 */
struct lardd {
	pthread_mutex_t lock;
	pthread_cond_t settled;
	unsigned int settling;
	struct lard *engine;
	struct early *early;		/* see early.h */
	struct cache *cache;		/* has its own lock */
	struct kernel_cache *kernel;	/* likewise */
	struct fetches *fetches;	/* likewise */
	struct crowd *crowd;		/* likewise */
	struct nodes nodes;
	struct list waiting;
	_Atomic unsigned int waiters;
	_Atomic unsigned int tunnels;
	_Atomic unsigned int others;
	_Atomic(struct config *) config;
	const char *config_path;
	struct takeover *takeover;	/* sockets of a predecessor, while starting */
	bool by_uselect;		/* the loops go by uselect.ko */
	unsigned int workers;
	struct worker *worker[CONFIG_WORKERS_MAX];
	struct timer_queue health_timers;	/* worker 0 */
	struct floor *floor;
	struct control *control;
	struct pages *metrics;
	struct status *status;
	struct share *share;		/* NULL: other front-ends are told nothing */
	uint64_t started_us;
	uint64_t reloads, reload_failures;
	bool stopping;
	_Atomic uint64_t stop_by_us;
};

static inline void count(struct worker *w, enum counter which)
{
	uint64_t n = atomic_load_explicit(&w->counters[which], memory_order_relaxed);

	/* One writer: no locked instruction. */
	atomic_store_explicit(&w->counters[which], n + 1, memory_order_relaxed);
}

static inline void count_by(struct worker *w, enum counter which, uint64_t more)
{
	uint64_t n = atomic_load_explicit(&w->counters[which], memory_order_relaxed);

	atomic_store_explicit(&w->counters[which], n + more, memory_order_relaxed);
}

static inline bool lardd_stopping(const struct worker *w)
{
	return __atomic_load_n(&w->lardd->stopping, __ATOMIC_RELAXED);
}

/* A worker's part of a limit that is the process's. */
static inline unsigned int worker_share(const struct worker *w, unsigned int limit)
{
	unsigned int workers = __atomic_load_n(&w->lardd->workers, __ATOMIC_RELAXED);

	return (limit + workers - 1) / workers;
}

/* Of all workers. */
uint64_t workers_count(const struct lardd *lardd, enum counter which);
uint64_t workers_live(const struct lardd *lardd, enum conn_state state);

struct worker *worker_new(struct lardd *lardd, unsigned int index);
void worker_free(struct worker *w);
/* At start: 0 or -errno after a sentence; a predecessor's sockets are used. */
int worker_listen(struct worker *w, char *error, size_t size);
/* One listener more. 0 or -ENOSPC. */
int worker_add_listener(struct worker *w, struct listener *listener);
/* Moves on to the newest configuration, with the listeners that came with it. */
void worker_adopt(struct worker *w);
void worker_run(struct worker *w);
void worker_wake(struct worker *w);
/* Out of descriptors: closes something idle, or slow. False: nothing is. */
bool worker_relieve(struct worker *w);

#endif
