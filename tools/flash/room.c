// SPDX-License-Identifier: GPL-2.0
#include "room.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "http2.h"
#include "send.h"

#define DEAF_MS 5000		/* a lost packet or two take less */
#define DEAF_BYTES 2500		/* in that time */
#define LOOKS_MAX 64		/* for one who can go */

/* What is in the socket is not taken yet, and may be much: it has room only when a third of that has gone. */
static int64_t taken(const struct conn *c)
{
	int unsent = 0;

	if (!c->response)	/* a stream's, of which all was taken that there is */
		return 0;
	if (!c->stream)
		ioctl(c->watch.fd, SIOCOUTQ, &unsent);
	return (int64_t)c->response->sent - unsent;
}

void room_stands(struct conn *c)
{
	c->taken = taken(c);
	c->since = c->w->loop.now;
	list_del(&c->rest);
	list_add_tail(&c->rest, &c->w->sending);
}

static struct conn *stands_still(const struct worker *w, const struct list *list)
{
	struct conn *c = list_entry(list->next, struct conn, rest);

	return !list_empty(list) && w->loop.now - c->since >= DEAF_MS ? c : NULL;
}

/* Who can go; of those who are being served, one who has brought or taken next to nothing for a while. */
static struct conn *dispensable(struct worker *w)
{
	const struct list *idle = !list_empty(&w->idle) ? &w->idle : !list_empty(&w->shakes) ? &w->shakes : &w->slow;
	unsigned int looks = 0;
	struct conn *c;

	if (!list_empty(idle))
		return list_entry(idle->next, struct conn, rest);
	while ((c = stands_still(w, &w->sending)) && ++looks < LOOKS_MAX) {
		if (taken(c) - c->taken < DEAF_BYTES)
			return c;
		room_stands(c);
	}
	c = stands_still(w, &w->answers);
	return c ? c : stands_still(w, &w->bodies);
}

bool room_make(struct worker *w)
{
	struct conn *c = w->blocking ? NULL : dispensable(w);

	if (!c)
		return false;
	stats_add(w->stats, recycled, 1);
	if (c->http2)
		http2_drop(c);
	else
		conn_close(c);
	return true;
}
