// SPDX-License-Identifier: GPL-2.0
#include "hold.h"

#include "app.h"

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
static struct conn *stalled(struct conn *c, const struct list *list)
{
	struct list *n = list->next;
	struct conn *other;

	if (n == &c->rest)
		n = n->next;
	if (n == list)
		return NULL;
	other = list_entry(n, struct conn, rest);
	return c->w->loop.now - other->since >= STALLED ? other : NULL;
}

static bool make_room(struct conn *c)
{
	struct conn *slow = stalled(c, &c->w->slow), *body = stalled(c, &c->w->bodies);
	struct conn *answer = stalled(c, &c->w->answers);

	if (slow)
		conn_close(slow);
	else if (body)
		app_body_drop(body);
	else if (answer)
		app_answer_drop(answer);
	else
		return false;
	stats_add(c->w->stats, held_dropped, 1);
	return true;
}

bool hold_take(struct conn *c, size_t bytes)
{
	while (!hold_try(c->w, bytes)) {
		if (make_room(c))
			continue;
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
}
