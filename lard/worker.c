// SPDX-License-Identifier: GPL-2.0
/* A worker: its listeners, its tick, what it does at the end of a batch. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "access.h"
#include "backend.h"
#include "caching.h"
#include "dispatch.h"
#include "early.h"
#include "exchange.h"
#include "floor.h"
#include "http2_host.h"
#include "proxy.h"
#include "shake.h"
#include "splice.h"
#include "status.h"
#include "takeover.h"
#include "visitor.h"
#include "worker.h"

#define TICK_US 1000000

void worker_wake(struct worker *w)
{
	uint64_t one = 1;

	if (write(w->wake.fd, &one, sizeof(one)) < 0)
		return;		/* it is full: the worker is awake */
}

static void wake_ready(struct source *s, uint32_t events)
{
	uint64_t times;

	(void)events;
	if (read(s->fd, &times, sizeof(times)) < 0)
		return;
}

static void tick(struct timer *t)
{
	struct worker *w = container_of(t, struct worker, tick);
	bool had = give_ready(&w->give);

	timer_start(&w->loop, &w->tick_timers, t, TICK_US);
	if (w->config->mode == MODE_AUTO && !had && !give_open(&w->give, w))
		log_info("mode", "mode=handoff worker=%u", w->index);
	/* The module may come later. */
	if (w->splicer < 0)
		w->splicer = splice_open();
	access_flush();
	proxy_hasten(w);
	proxy_relieve(w);
	if (w->index)
		return;
	floor_tick(w->lardd->floor);
	status_tick(w->lardd->status);
	nodes_tick(w->lardd, w->loop.now);
	early_tick(w->lardd);
}

uint64_t workers_count(const struct lardd *lardd, enum counter which)
{
	uint64_t sum = 0;
	unsigned int w;

	for (w = 0; w < lardd->workers; w++)
		sum += atomic_load_explicit(&lardd->worker[w]->counters[which],
					    memory_order_relaxed);
	return sum;
}

uint64_t workers_live(const struct lardd *lardd, enum conn_state state)
{
	uint64_t sum = 0;
	unsigned int w;

	for (w = 0; w < lardd->workers; w++)
		sum += atomic_load_explicit(&lardd->worker[w]->live[state], memory_order_relaxed);
	return sum;
}

struct worker *worker_new(struct lardd *lardd, unsigned int index)
{
	struct worker *w = calloc(1, sizeof(*w));
	int slot;

	if (!w)
		return NULL;
	w->lardd = lardd;
	w->index = index;
	w->splicer = -1;
	w->wake = (struct source){ .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
				   .ready = wake_ready };
	list_init(&w->shaking);
	list_init(&w->mail);
	list_init(&w->parked);
	list_init(&w->pool.free);
	list_init(&w->charged);
	for (slot = 0; slot < LARD_MAX_NODES; slot++)
		list_init(&w->backends[slot]);
	if (loop_init(&w->loop, lardd->by_uselect) || w->wake.fd < 0 || loop_add(&w->loop, &w->wake, EPOLLIN)) {
		worker_free(w);
		return NULL;
	}
	timer_queue_init(&w->loop, &w->shake_timers, shake_expired);
	timer_queue_init(&w->loop, &w->header_timers, conn_header_expired);
	timer_queue_init(&w->loop, &w->prelude_timers, conn_prelude_expired);
	timer_queue_init(&w->loop, &w->idle_timers, conn_header_expired);
	timer_queue_init(&w->loop, &w->queue_timers, conn_queue_expired);
	timer_queue_init(&w->loop, &w->park_timers, conn_park_expired);
	timer_queue_init(&w->loop, &w->connect_timers, proxy_connect_expired);
	timer_queue_init(&w->loop, &w->io_timers, proxy_io_expired);
	timer_queue_init(&w->loop, &w->linger_timers, conn_linger_expired);
	timer_queue_init(&w->loop, &w->backend_timers, backend_idle_expired);
	timer_queue_init(&w->loop, &w->listen_timers, listener_pause_expired);
	timer_queue_init(&w->loop, &w->service_timers, service_pause_expired);
	timer_queue_init(&w->loop, &w->tick_timers, tick);
	timer_queue_init(&w->loop, &w->room_timers, dispatch_room_expired);
	timer_init(&w->room_timer);
	timer_init(&w->tick);
	timer_start(&w->loop, &w->tick_timers, &w->tick, TICK_US);
	w->config = config_get(lardd->config);
	w->splicer = splice_open();
	return w;
}

void worker_free(struct worker *w)
{
	unsigned int i;

	if (!w)
		return;
	for (i = 0; i < WORKER_LISTENERS_MAX; i++)
		if (w->listeners[i])
			listener_close(w->listeners[i]);
	listener_drop(w->fresh);
	give_close(&w->give);
	conn_each(w, conn_abandon);
	splice_close(w->splicer);
	backend_exit(w);
	loop_exit(&w->loop);
	exchange_exit(w);
	conn_pool_exit(&w->pool);
	hot_free(w->hot);
	if (w->wake.fd >= 0)
		close(w->wake.fd);
	config_put(w->config);
	free(w);
}

static void set_door(const struct worker *w, struct listener *l)
{
	l->door = config_door(w->config, &l->address);
	l->http2 = config_http2(w->config, &l->address);
	l->miss = config_miss(w->config, &l->address);
	l->site = kernel_cache_site(w->lardd->kernel, &l->address);
}

/* Closes what the configuration no longer names, if @all everything; the others go on as it says. */
static void close_listeners(struct worker *w, bool all)
{
	unsigned int i;

	for (i = 0; i < WORKER_LISTENERS_MAX; i++) {
		if (!w->listeners[i] ||
		    (!all && config_listens_on(w->config, &w->listeners[i]->address))) {
			if (w->listeners[i])
				set_door(w, w->listeners[i]);
			continue;
		}
		listener_close(w->listeners[i]);
		w->listeners[i] = NULL;
	}
}

int worker_add_listener(struct worker *w, struct listener *l)
{
	unsigned int slot;

	for (slot = 0; slot < WORKER_LISTENERS_MAX; slot++) {
		if (w->listeners[slot])
			continue;
		w->listeners[slot] = l;
		set_door(w, l);
		listener_start(l, w);
		return 0;
	}
	return -ENOSPC;
}

int worker_listen(struct worker *w, char *error, size_t size)
{
	char text[ADDRESS_TEXT];
	struct listener *l;
	unsigned int i;
	int err;

	for (i = 0; i < w->config->listens; i++) {
		const union address *address = &w->config->listen[i];

		err = listener_new(address, takeover_take(w->lardd->takeover, address), &l);
		if (!err) {
			err = listener_listen(l, w->config->backlog);
			err = err ? err : worker_add_listener(w, l);
			if (err)
				listener_drop(l);
		}
		if (err) {
			snprintf(error, size, "cannot listen on %s: %s",
				 address_text(address, text, sizeof(text)), strerror(-err));
			return err;
		}
	}
	return 0;
}

bool worker_relieve(struct worker *w)
{
	return backend_recycle(w) || conn_recycle(w);
}

void worker_adopt(struct worker *w)
{
	struct config *old = w->config;
	struct lardd *lardd = w->lardd;
	struct listener *fresh, *next;

	pthread_mutex_lock(&lardd->lock);
	w->config = config_get(lardd->config);
	fresh = w->fresh;
	w->fresh = NULL;
	pthread_mutex_unlock(&lardd->lock);
	config_put(old);
	close_listeners(w, false);
	for (; fresh; fresh = next) {
		next = fresh->next;
		fresh->next = NULL;
		if (worker_add_listener(w, fresh)) {
			log_error("listen", "worker=%u text=\"too many sockets\"", w->index);
			listener_drop(fresh);
		}
	}
	conn_each(w, http2_reconsider);
	pthread_mutex_lock(&lardd->lock);
	if (!--lardd->settling)
		pthread_cond_signal(&lardd->settled);
	pthread_mutex_unlock(&lardd->lock);
}

/* Nothing left that needs this process? Handed-off connections go on without it. */
static bool is_quiet(const struct worker *w)
{
	return !w->live[CONN_WAIT] && !w->live[CONN_PARK] && !w->live[CONN_GIVEN] && !w->live[CONN_PROXY] &&
	       !w->live[CONN_HTTP2] && !w->live[CONN_LINGER] && !w->live[CONN_READ] && !w->live[CONN_SHAKE];
}

static bool is_last(const struct worker *w)
{
	return w->index || !atomic_load(&w->lardd->others);
}

static void batch_end(void *arg)
{
	struct worker *w = arg;

	/* First: what has ended makes room for who waits. */
	give_batch_end(&w->give);
	caching_batch_end(w);
	dispatch_batch_end(w);
	early_batch_end(w);
	shake_turn(w);
	if (w->config != atomic_load_explicit(&w->lardd->config, memory_order_relaxed))
		worker_adopt(w);
	if (lardd_stopping(w)) {
		close_listeners(w, true);
		conn_each(w, conn_close_idle);
		w->loop.stop = (is_quiet(w) && is_last(w)) ||
			       w->loop.now > w->lardd->stop_by_us;
	}
	/* Somebody whom others wait for has ended just now. */
	if (w->unpark)
		worker_wake(w);
}

void worker_run(struct worker *w)
{
	loop_run(&w->loop, batch_end, w);
}
