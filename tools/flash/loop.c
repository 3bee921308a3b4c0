// SPDX-License-Identifier: GPL-2.0
/* The event loop without its event mechanism: time, timers, wake-ups. */
#include "loop.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

static uint64_t coarse_ms(clockid_t id, time_t *seconds)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	*seconds = ts.tv_sec;
	return (uint64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void loop_clock(struct loop *loop)
{
	time_t wall, mono;

	/* The coarse clocks are read from memory: no instruction that a guest would trap on. */
	loop->now = coarse_ms(CLOCK_MONOTONIC_COARSE, &mono);
	coarse_ms(CLOCK_REALTIME_COARSE, &wall);
	if (wall != loop->wall) {
		loop->wall = wall;
		httpdate_format(wall, loop->date);
	}
}

static uint64_t precise_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

void loop_stall_begin(struct loop *loop)
{
	if (loop->stalls)
		loop->stall_start = precise_us();
}

void loop_stall_end(struct loop *loop)
{
	uint64_t us;
	int bucket;

	if (!loop->stalls || !loop->stall_start)
		return;
	us = precise_us() - loop->stall_start;
	bucket = us ? 64 - __builtin_clzll(us) : 0;
	if (us > *loop->stall_max)
		*loop->stall_max = us;
	loop->stalls[bucket < LOOP_STALL_BUCKETS ? bucket : LOOP_STALL_BUCKETS - 1]++;
}

static void wake_ready(struct watch *w, uint32_t events)
{
	struct loop *loop = container_of(w, struct loop, wake);
	uint64_t n;

	(void)events;
	if (read(w->fd, &n, sizeof(n)) < 0 && errno != EAGAIN && errno != EINTR)
		loop->stop = true;
	if (loop->woken)
		loop->woken(loop);
}

void loop_wake(struct loop *loop)
{
	uint64_t one = 1;
	int saved = errno;
	ssize_t n = write(loop->wake_fd, &one, sizeof(one));

	(void)n;		/* EAGAIN: the counter is full, so it will wake anyway */
	errno = saved;
}

int loop_init(struct loop *loop, const struct loop_backend *backend)
{
	int i, err;

	loop->backend = backend;
	loop->stop = false;
	for (i = 0; i < LOOP_SLOTS; i++)
		list_init(&loop->slots[i]);
	list_init(&loop->graveyard);
	loop_clock(loop);
	loop->next_tick = UINT64_MAX;
	loop->done_tick = loop->now / LOOP_TICK;
	loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->wake_fd < 0)
		return -errno;
	err = backend->init(loop);
	if (err)
		goto undo_fd;
	loop->wake.ready = wake_ready;
	loop->wake.fd = loop->wake_fd;
	err = loop_add(loop, &loop->wake, EPOLLIN | EPOLLET);
	if (err)
		goto undo_backend;
	return 0;

undo_backend:
	backend->exit(loop);
undo_fd:
	close(loop->wake_fd);
	return err;
}

static void bury_all(struct loop *loop)
{
	while (!list_empty(&loop->graveyard)) {
		struct grave *g = list_entry(loop->graveyard.next, struct grave, node);

		list_del(&g->node);
		g->free(g);
	}
}

void loop_exit(struct loop *loop)
{
	bury_all(loop);
	loop_del(loop, &loop->wake);
	loop->backend->exit(loop);
	close(loop->wake_fd);
}

void loop_bury(struct loop *loop, struct grave *g)
{
	list_add_tail(&g->node, &loop->graveyard);
}

void loop_timer_set(struct loop *loop, struct timer *t, uint64_t deadline)
{
	uint64_t tick = deadline / LOOP_TICK + 1;

	if (tick <= loop->done_tick)
		tick = loop->done_tick + 1;
	t->deadline = deadline;
	t->armed = deadline;
	list_del(&t->node);
	list_add_tail(&t->node, &loop->slots[tick % LOOP_SLOTS]);
	if (tick < loop->next_tick)
		loop->next_tick = tick;
}

/* The first tick from @from on whose slot holds something; it may be for a later lap. */
static uint64_t next_busy(struct loop *loop, uint64_t from)
{
	uint64_t tick;

	for (tick = from; tick < from + LOOP_SLOTS; tick++)
		if (!list_empty(&loop->slots[tick % LOOP_SLOTS]))
			return tick;
	return UINT64_MAX;
}

static void run_timers(struct loop *loop)
{
	uint64_t now_tick = loop->now / LOOP_TICK, tick;
	struct list due;

	if (now_tick < loop->next_tick)
		return;
	tick = loop->done_tick + 1;
	if (now_tick - loop->done_tick > LOOP_SLOTS)
		tick = now_tick - LOOP_SLOTS + 1;
	loop->done_tick = now_tick;
	loop->next_tick = UINT64_MAX;
	for (; tick <= now_tick; tick++) {
		list_take(&loop->slots[tick % LOOP_SLOTS], &due);
		while (!list_empty(&due)) {
			struct timer *t = list_entry(due.next, struct timer, node);

			list_del(&t->node);
			if (t->deadline > loop->now)
				loop_timer_set(loop, t, t->deadline);
			else
				t->expired(t);
		}
	}
	loop->next_tick = next_busy(loop, now_tick + 1);
}

static int timeout(const struct loop *loop)
{
	uint64_t at;

	if (loop->again)
		return 0;
	if (loop->next_tick == UINT64_MAX)
		return -1;
	at = loop->next_tick * LOOP_TICK;
	return at > loop->now ? (int)(at - loop->now) : 0;
}

int loop_run(struct loop *loop)
{
	int err;

	while (!loop->stop) {
		err = loop->backend->wait(loop, timeout(loop));
		if (err && err != -EINTR)
			return err;
		run_timers(loop);
		if (loop->turn)
			loop->again = loop->turn(loop);
		if (!list_empty(&loop->graveyard))
			bury_all(loop);
	}
	return 0;
}
