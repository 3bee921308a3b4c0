// SPDX-License-Identifier: GPL-2.0
#include "hold.h"

#include "app.h"
#include "http2.h"

#define STALLED 1000		/* ms, for who brings nothing before others may have his place */

static uint64_t all_held(const struct worker *w)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < w->nr_stats; i++)
		sum += __atomic_load_n(&w->all_stats[i].held_bytes, __ATOMIC_RELAXED);
	return sum;
}

/* Said before it is looked whether it is too much: two workers do not take the same room. */
bool hold_try(struct worker *w, size_t bytes)
{
	stats_add(w->stats, held_bytes, bytes);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (all_held(w) <= w->conf->held_memory)
		return true;
	stats_add(w->stats, held_bytes, -bytes);
	return false;
}

/* The first of @list, which are in the order of their age, but for @c. */
static struct conn *stalled(const struct worker *w, const struct conn *c, const struct list *list)
{
	struct list *n = list->next;
	struct conn *other;

	if (c && n == &c->rest)
		n = n->next;
	if (n == list)
		return NULL;
	other = list_entry(n, struct conn, rest);
	return w->loop.now - other->since >= STALLED ? other : NULL;
}

static bool make_room(struct worker *w, const struct conn *c)
{
	struct conn *slow = stalled(w, c, &w->slow), *body = stalled(w, c, &w->bodies);
	struct conn *answer = stalled(w, c, &w->answers);

	if (slow && slow->http2)
		http2_drop(slow);
	else if (slow)
		conn_close(slow);
	else if (body)
		app_body_drop(body);
	else if (answer && answer->http2)
		http2_drop(answer);
	else if (answer)
		app_answer_drop(answer);
	else
		return false;
	stats_add(w->stats, held_dropped, 1);
	return true;
}

/* Has another worker had no room for somebody since we last looked? */
static bool is_wanted(const struct worker *w)
{
	uint64_t at;
	unsigned int i;

	for (i = 0; i < w->nr_stats; i++) {
		at = __atomic_load_n(&w->all_stats[i].held_wanted, __ATOMIC_RELAXED);
		if (&w->all_stats[i] != w->stats && at && w->loop.now < at + 2 * STALLED)
			return true;
	}
	return false;
}

static void look_later(struct worker *w)
{
	if (w->nr_stats > 1 && list_empty(&w->room.node))
		loop_timer_set(&w->loop, &w->room, w->loop.now + STALLED);
}

/* What stands still here is in the way of all workers' clients. */
static void look(struct timer *t)
{
	struct worker *w = container_of(t, struct worker, room);

	if (is_wanted(w))
		while (all_held(w) > w->conf->held_memory / 4 * 3 && make_room(w, NULL))
			;
	if (!list_empty(&w->slow) || !list_empty(&w->bodies) || !list_empty(&w->answers))
		look_later(w);
}

void hold_init(struct worker *w)
{
	list_init(&w->slow);
	list_init(&w->bodies);
	list_init(&w->answers);
	list_init(&w->room.node);
	w->room.expired = look;
	w->stats->held_bytes = 0;	/* what a predecessor had is gone */
	w->stats->held_wanted = 0;
}

void hold_exit(struct worker *w)
{
	loop_timer_del(&w->room);
}

bool hold_take(struct conn *c, size_t bytes)
{
	while (!hold_try(c->w, bytes)) {
		if (make_room(c->w, c))
			continue;
		__atomic_store_n(&c->w->stats->held_wanted, c->w->loop.now, __ATOMIC_RELAXED);
		stats_add(c->w->stats, held_refused, 1);
		return false;
	}
	return true;
}

void hold_give(struct worker *w, size_t bytes)
{
	stats_add(w->stats, held_bytes, -bytes);
}

void hold_slow(struct conn *c, struct list *where)
{
	c->since = c->w->loop.now;
	list_del(&c->rest);
	list_add_tail(&c->rest, where);
	look_later(c->w);
}
