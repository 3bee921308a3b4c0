// SPDX-License-Identifier: GPL-2.0
/* The event loop. */
#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include "uselect.h"
#include "loop.h"

#define BATCH 256

uint64_t loop_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000ULL + ts.tv_nsec / 1000;
}

/* It has rung: the timers themselves are looked at after every batch. */
static void alarm_ready(struct source *s, uint32_t events)
{
	(void)events;
	container_of(s, struct loop, alarm)->rings = UINT64_MAX;
}

int loop_register(void)
{
	return uselect_init_edges() ? -errno : 0;
}

int loop_init(struct loop *loop, bool by_uselect)
{
	*loop = (struct loop){
		.epoll_fd = by_uselect ? -1 : epoll_create1(EPOLL_CLOEXEC),
		.list = by_uselect ? uselect_loop_new() : NULL,
		.now = loop_clock(),
		.rings = UINT64_MAX,
		.alarm = {
			.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC),
			.ready = alarm_ready,
		},
	};
	list_init(&loop->queues);
	if ((loop->epoll_fd < 0 && !loop->list) || loop->alarm.fd < 0)
		return -errno;
	/* Edge-triggered: setting it anew is enough, it need not be read. */
	return loop_add(loop, &loop->alarm, EPOLLIN | EPOLLET);
}

static void bury_dead(struct loop *loop)
{
	while (loop->dead) {
		struct source *s = loop->dead;

		loop->dead = s->next_dead;
		s->bury(s);
	}
}

void loop_exit(struct loop *loop)
{
	bury_dead(loop);
	if (loop->alarm.fd >= 0)
		close(loop->alarm.fd);
	if (loop->epoll_fd >= 0)
		close(loop->epoll_fd);
	uselect_loop_free(loop->list);
	loop->list = NULL;
	loop->epoll_fd = loop->alarm.fd = -1;
}

int loop_add(struct loop *loop, struct source *s, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = s };

	if (loop->list)
		return uselect_loop_add(loop->list, s->fd, events, e.data.u64) ? -errno : 0;
	return epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, s->fd, &e) ? -errno : 0;
}

int loop_modify(struct loop *loop, struct source *s, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = s };

	if (loop->list)
		return uselect_loop_mod(loop->list, s->fd, events, e.data.u64) ? -errno : 0;
	return epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, s->fd, &e) ? -errno : 0;
}

void loop_remove(struct loop *loop, struct source *s)
{
	if (loop->list)
		uselect_loop_del(loop->list, s->fd);
	else
		epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
}

void loop_again(struct loop *loop, struct source *s)
{
	if (s->again || s->dead)
		return;
	s->again = true;
	s->next_again = loop->again;
	loop->again = s;
}

void loop_bury(struct loop *loop, struct source *s, void (*bury)(struct source *s))
{
	struct source **at;

	if (s->dead)
		return;
	for (at = &loop->again; s->again && *at; at = &(*at)->next_again) {
		if (*at == s) {
			*at = s->next_again;
			break;
		}
	}
	/* uselect_close() tells the kernel what it may not see; without a region it is close(). */
	if (s->fd >= 0)
		uselect_close(s->fd);
	s->fd = -1;
	s->dead = true;
	s->bury = bury;
	s->next_dead = loop->dead;
	loop->dead = s;
}

void timer_queue_init(struct loop *loop, struct timer_queue *q, void (*expired)(struct timer *t))
{
	list_init(&q->timers);
	list_add_tail(&q->link, &loop->queues);
	q->expired = expired;
}

void timer_init(struct timer *t)
{
	list_init(&t->link);
}

void timer_start(struct loop *loop, struct timer_queue *q, struct timer *t, uint64_t after_us)
{
	struct list *at = &q->timers;

	list_del(&t->link);
	t->when = loop->now + after_us;
	while (at->prev != &q->timers && container_of(at->prev, struct timer, link)->when > t->when)
		at = at->prev;
	list_add_tail(&t->link, at);
}

void timer_stop(struct timer *t)
{
	list_del(&t->link);
}

static void run_timers(struct loop *loop)
{
	struct list *l;

	for (l = loop->queues.next; l != &loop->queues; l = l->next) {
		struct timer_queue *q = container_of(l, struct timer_queue, link);

		while (!list_empty(&q->timers)) {
			struct timer *t = container_of(q->timers.next, struct timer, link);

			if (t->when > loop->now)
				break;
			timer_stop(t);
			q->expired(t);
		}
	}
}

/* The alarm rings for the first timer, or earlier. */
static void set_alarm(struct loop *loop)
{
	uint64_t first = UINT64_MAX;
	struct itimerspec at = { 0 };
	const struct list *l;

	for (l = loop->queues.next; l != &loop->queues; l = l->next) {
		struct timer_queue *q = container_of(l, struct timer_queue, link);

		if (!list_empty(&q->timers)) {
			uint64_t when = container_of(q->timers.next, struct timer, link)->when;

			if (when < first)
				first = when;
		}
	}
	if (first >= loop->rings)
		return;
	/* Zero would disarm it; what is past rings at once. */
	at.it_value.tv_sec = first / 1000000;
	at.it_value.tv_nsec = first % 1000000 * 1000 + 1;
	if (!timerfd_settime(loop->alarm.fd, TFD_TIMER_ABSTIME, &at, NULL))
		loop->rings = first;
}

static int wait_for(struct loop *loop, struct epoll_event *events, int timeout)
{
	if (loop->list)
		return uselect_loop_wait(loop->list, events, BATCH, timeout);
	return epoll_wait(loop->epoll_fd, events, BATCH, timeout);
}

static void run_again(struct loop *loop)
{
	struct source *s = loop->again, *next;

	loop->again = NULL;
	for (; s; s = next) {
		next = s->next_again;
		s->again = false;
		if (!s->dead)
			s->ready(s, 0);
	}
}

void loop_run(struct loop *loop, void (*batch_end)(void *arg), void *arg)
{
	struct epoll_event events[BATCH];
	int n, i;

	while (!loop->stop) {
		set_alarm(loop);
		n = wait_for(loop, events, loop->again ? 0 : -1);
		loop->now = loop_clock();
		run_again(loop);
		for (i = 0; i < n; i++) {
			struct source *s = events[i].data.ptr;

			if (!s->dead)
				s->ready(s, events[i].events);
		}
		run_timers(loop);
		if (batch_end)
			batch_end(arg);
		bury_dead(loop);
	}
}
