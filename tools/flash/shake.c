// SPDX-License-Identifier: GPL-2.0
#include "shake.h"

#include "conn.h"
#include "lard/tls/host.h"
#include "secure.h"

#define TURN_US 500	/* of handshakes, then others have theirs; a signature by RSA takes as long */

void shake_leave(struct conn *c)
{
	list_del(&c->turn);
	list_del(&c->rest);
	c->w->nr_shakes--;
}

static void failed(struct conn *c)
{
	stats_add(c->w->stats, tls_failed, 1);
	secure_free(c);
	/* An alert may be on its way, which a reset would overtake. */
	conn_linger(c);
}

static void step(struct conn *c)
{
	int over;

	if (c->state != CONN_SHAKE) {
		conn_go_on(c);
		return;
	}
	list_del(&c->turn);
	/* What it needs is made in its turn, too: many may come at once. */
	if (!c->tls && secure_new(c)) {
		stats_add(c->w->stats, tls_failed, 1);
		conn_close(c);
		return;
	}
	over = secure_shake(c);
	if (!over) {
		conn_arm(c);
		return;
	}
	shake_leave(c);
	if (over > 0)
		conn_begin(c);
	else
		failed(c);
}

/* At the end of a batch: for a while, and one step at least. True: there is more. */
static bool turn(struct loop *loop)
{
	struct worker *w = container_of(loop, struct worker, loop);
	uint64_t until;

	if (list_empty(&w->turns))
		return false;
	until = tls_host_clock() + TURN_US;
	do {
		step(list_entry(w->turns.next, struct conn, turn));
	} while (!list_empty(&w->turns) && tls_host_clock() < until);
	return !list_empty(&w->turns);
}

void shake_init(struct worker *w)
{
	list_init(&w->turns);
	list_init(&w->shakes);
	w->loop.turn = turn;
}

void shake_begin(struct conn *c)
{
	struct worker *w = c->w;

	c->state = CONN_SHAKE;
	list_del(&c->rest);
	list_add_tail(&c->rest, &w->shakes);
	w->nr_shakes++;
	/* Time that it waits for its turn is its time: a client gives up as well. */
	conn_deadline(c, w->conf->handshake_timeout);
	shake_ready(c);
}

void shake_ready(struct conn *c)
{
	if (c->w->blocking)
		step(c);
	else if (list_empty(&c->turn))
		list_add_tail(&c->turn, &c->w->turns);
}

void shake_expired(struct conn *c)
{
	shake_leave(c);
	stats_add(c->w->stats, timeouts_handshake, 1);
	failed(c);
}

void shake_make_room(struct worker *w)
{
	unsigned int most = w->conf->max_handshakes / (w->nr_stats ? w->nr_stats : 1);
	struct conn *c;

	if (w->nr_shakes <= (most ? most : 1))
		return;
	c = list_entry(w->shakes.next, struct conn, rest);
	stats_add(w->stats, recycled, 1);
	stats_add(w->stats, tls_failed, 1);
	conn_close(c);
}
