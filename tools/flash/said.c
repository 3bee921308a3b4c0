// SPDX-License-Identifier: GPL-2.0
#include "said.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "log.h"
#include "worker.h"

#define RATE (8 << 10)		/* bytes a second to our standard error, in the long run */
#define BURST (64 << 10)
#define SHARE_RATE 512		/* and of one program */
#define SHARE_BURST 4096	/* the longest line */
#define WHO_MAX 200
#define READ_SIZE (16 << 10)	/* of a pipe in a turn of the loop */
#define PACE (256 << 10)	/* of a pipe in a second; then its program has to wait */
#define SECOND 1000		/* ms */

/**
 * struct source - one program's standard error
 * @taken: bytes since @since (ms)
 * @pause: ends when it is read again
 */
struct source {
	struct watch watch;
	struct grave grave;
	struct list node;
	struct timer pause;
	struct worker *w;
	uint64_t since;
	unsigned int taken;
	struct said_line line;
	char who[];
};

/* Nobody waits for who reads our standard error. False: it does not take it now. */
static bool put(const char *p, size_t len)
{
	struct pollfd fd = { .fd = STDERR_FILENO, .events = POLLOUT };

	if (send(STDERR_FILENO, p, len, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return true;
	if (errno != ENOTSOCK)
		return false;
	/* A pipe that has room at all takes this much at once. */
	return poll(&fd, 1, 0) == 1 && fd.revents & POLLOUT && write(STDERR_FILENO, p, len) > 0;
}

static void refill(struct said_room *room, uint64_t now, unsigned int rate, unsigned int burst)
{
	uint64_t more = (now - room->since) * rate / SECOND;

	if (!more)
		return;			/* what is less than a byte is not lost */
	room->since = now;
	room->bytes = more > burst - room->bytes ? burst : room->bytes + more;
}

static uint64_t sum_of(const char *who)
{
	uint64_t sum = 0xcbf29ce484222325;	/* FNV-1a */

	for (; *who; who++)
		sum = (sum ^ (unsigned char)*who) * 0x100000001b3;
	return sum;
}

/* Who has said nothing for so long that his share is whole again gives it to another. */
static struct said_room *share_of(struct worker *w, const char *who)
{
	struct said *said = &w->said;
	struct said_room *free = NULL;
	uint64_t sum = sum_of(who);
	unsigned int i;

	for (i = 0; i < SAID_SHARES; i++) {
		struct said_room *room = &said->shares[i].room;

		refill(room, w->loop.now, SHARE_RATE, SHARE_BURST);
		if (said->shares[i].who == sum)
			return room;
	}
	for (i = 0; i < SAID_SHARES && !free; i++) {
		if (said->shares[i].room.bytes < SHARE_BURST)
			continue;
		said->shares[i].who = sum;
		free = &said->shares[i].room;
	}
	return free;
}

/* Where @len bytes of @who are taken from, NULL: from nowhere. */
static struct said_room *room_for(struct worker *w, const char *who, size_t len)
{
	struct said_room *share;

	refill(&w->said.all, w->loop.now, RATE, BURST);
	if (len <= w->said.all.bytes)
		return &w->said.all;
	share = share_of(w, who);
	return share && len <= share->bytes ? share : NULL;
}

static void tell_left_out(struct worker *w)
{
	struct said *said = &w->said;
	char text[80];
	int n;

	if (!said->left_out)
		return;
	n = snprintf(text, sizeof(text), "flash: %u lines of programs are left out\n",
		     said->left_out);
	if (put(text, n))
		said->left_out = 0;
}

static void tell_expired(struct timer *t)
{
	tell_left_out(container_of(t, struct worker, said.tell));
}

static void leave_out(struct worker *w)
{
	w->said.left_out++;
	stats_add(w->stats, said_lost, 1);
	if (list_empty(&w->said.tell.node))
		loop_timer_set(&w->loop, &w->said.tell, w->loop.now + SECOND);
}

static void pass_on(struct worker *w, const char *who, struct said_line *line)
{
	struct slice name = { who, strnlen(who, WHO_MAX) }, text = { line->text, line->len };
	char out[PIPE_BUF], *end = out + sizeof(out) - 8, *o;
	struct said_room *room;
	size_t len;

	if (!line->len)
		return;
	o = stpcpy(out, "flash: ");
	o = log_escape(o, end, &name);
	o = stpcpy(o, ": ");
	o = log_escape(o, end, &text);
	o = stpcpy(o, line->cut ? "...\n" : "\n");
	len = o - out;
	line->len = 0;
	line->cut = false;
	room = room_for(w, who, len);
	if (!room || !put(out, len)) {
		leave_out(w);
		return;
	}
	room->bytes -= len;
	stats_add(w->stats, said_lines, 1);
}

void said_add(struct worker *w, const char *who, struct said_line *line, const char *p, size_t len)
{
	const char *end = p + len;

	while (p < end) {
		const char *lf = memchr(p, '\n', end - p), *stop = lf ? lf : end;
		size_t n = stop - p, room = SAID_LINE - line->len;

		line->cut |= n > room;
		n = n < room ? n : room;
		memcpy(line->text + line->len, p, n);
		line->len += n;
		if (!lf)
			break;
		pass_on(w, who, line);
		p = lf + 1;
	}
}

void said_end(struct worker *w, const char *who, struct said_line *line)
{
	pass_on(w, who, line);
}

static void source_free(struct grave *g)
{
	free(container_of(g, struct source, grave));
}

static void source_end(struct source *s)
{
	said_end(s->w, s->who, &s->line);
	loop_close(&s->w->loop, &s->watch);
	loop_timer_del(&s->pause);
	list_del(&s->node);
	loop_bury(&s->w->loop, &s->grave);
}

/* Once: others have their turn. False: it has ended. */
static bool source_read(struct source *s)
{
	char buf[READ_SIZE];
	ssize_t n = read(s->watch.fd, buf, sizeof(buf));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0)
		return false;
	s->taken += n;
	said_add(s->w, s->who, &s->line, buf, n);
	return true;
}

static void source_ready(struct watch *watch, uint32_t events)
{
	struct source *s = container_of(watch, struct source, watch);
	struct loop *loop = &s->w->loop;

	(void)events;
	if (loop->now - s->since >= SECOND) {
		s->since = loop->now;
		s->taken = 0;
	}
	if (!source_read(s)) {
		source_end(s);
	} else if (s->taken >= PACE) {
		loop_del(loop, watch);
		loop_timer_set(loop, &s->pause, s->since + SECOND);
	}
}

static void pause_expired(struct timer *t)
{
	struct source *s = container_of(t, struct source, pause);

	if (loop_add(&s->w->loop, &s->watch, EPOLLIN))
		source_end(s);
}

void said_watch(struct worker *w, const char *who, int fd)
{
	struct source *s = calloc(1, sizeof(*s) + strlen(who) + 1);

	if (!s)
		goto undo_fd;
	strcpy(s->who, who);
	s->w = w;
	s->since = w->loop.now;
	s->grave.free = source_free;
	s->pause.expired = pause_expired;
	list_init(&s->pause.node);
	s->watch.ready = source_ready;
	s->watch.fd = fd;
	s->watch.nonblocking = true;
	/* Not by edges: what is not read in this turn is in the next one. */
	if (loop_add(&w->loop, &s->watch, EPOLLIN))
		goto undo_source;
	list_add(&s->node, &w->said.sources);
	return;

undo_source:
	free(s);
undo_fd:
	close(fd);
}

void said_init(struct worker *w)
{
	unsigned int i;

	list_init(&w->said.sources);
	list_init(&w->said.tell.node);
	w->said.tell.expired = tell_expired;
	w->said.all.bytes = BURST;
	for (i = 0; i < SAID_SHARES; i++)
		w->said.shares[i].room.bytes = SHARE_BURST;
}

void said_exit(struct worker *w)
{
	while (!list_empty(&w->said.sources)) {
		struct source *s = list_entry(w->said.sources.next, struct source, node);

		source_read(s);
		source_end(s);
	}
	loop_timer_del(&w->said.tell);
	tell_left_out(w);
}
