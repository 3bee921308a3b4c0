// SPDX-License-Identifier: GPL-2.0
#include "app.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <iolite.h>

#include "body.h"
#include "file.h"
#include "hold.h"
#include "input.h"
#include "response.h"

#define TX_HIGH (64 << 10)	/* more than this waiting for the client: stop reading */
#define HEAD_STEP 512		/* of a header, looked for in an aggregate */
#define READ_AGG (1 << 20)
#define PAGE 4096ull
#define RESERVE TX_KEPT		/* of an answer: with it there is progress, however full memory is */
#define FRAMING 512		/* what there is around a program's bytes, at most */
#define BODY_RATE 500		/* bytes of a request body a second, at least */

/* Pages of the body's file, and one for what the kernel needs beside them. */
static size_t body_memory(uint64_t length)
{
	return (length + 2 * PAGE - 1) & -PAGE;
}

void app_body_free(struct conn *c)
{
	body_free(c->body);
	c->body = NULL;
	hold_give(c->w, c->body_held);
	c->body_held = 0;
}

static bool body_hold(struct conn *c, uint64_t length)
{
	size_t need = body_memory(length);

	if (need > c->body_held && !hold_take(c, need - c->body_held))
		return false;
	if (need < c->body_held)
		hold_give(c->w, c->body_held - need);
	c->body_held = need;
	return true;
}

void app_body_drop(struct conn *c)
{
	app_body_free(c);
	list_del(&c->rest);
	conn_deadline(c, 0);
}

/* The program's variables, and what waits for the client with @more bytes behind it. */
static size_t run_memory(const struct app_run *run, size_t more)
{
	size_t tx = tx_memory(&run->tx, more);

	if (!run->tx.lite && tx < RESERVE)
		tx = RESERVE;
	return run->env_cap + tx;
}

static bool run_take(struct app_run *run, size_t more)
{
	size_t need = run_memory(run, more);

	if (need <= run->memory)
		return true;
	if (!hold_try(run->w, need - run->memory))
		return false;
	run->memory = need;
	return true;
}

/* What it took to read more than there was. */
static void run_give(struct app_run *run)
{
	size_t need = run_memory(run, FRAMING);

	if (need >= run->memory)
		return;
	hold_give(run->w, run->memory - need);
	run->memory = need;
}

size_t app_room(struct app_run *run, size_t want)
{
	size_t room;

	if (run_take(run, want + FRAMING))
		return want;
	room = run->memory - run->env_cap - run->tx.len;
	room = room > FRAMING ? room - FRAMING : 0;
	if (!run->head_done)
		room /= 2;		/* a header may come to be longer than it was */
	if (!room) {
		run->full = true;
		conn_deadline(run->c, run->w->conf->send_timeout);
	}
	return room < want ? room : want;
}

/* Nothing is waited for but the client, and he may have to make room. */
static void run_stands(struct app_run *run)
{
	struct conn *c = run->c;

	if (run->tx.lite)		/* pages that are counted elsewhere */
		return;
	if (!run->tx.len || run->taken >= HOLD_STEP) {
		list_del(&c->rest);
		run->taken = 0;
	}
	if (run->tx.len && list_empty(&c->rest))
		hold_slow(c, &c->w->answers);
}

static void answer_free(struct app_run *run)
{
	tx_free(&run->tx);
	run->tx = (struct tx){ 0 };
	hold_give(run->w, run->memory - run->env_cap);
	run->memory = run->env_cap;
}

/*
 * Later the connection: somebody may just be at work for it. That may be tx_send(), of a stream, whose frames
 * need memory; then it is freed behind it.
 */
void app_answer_drop(struct conn *c)
{
	struct app_run *run = c->app;

	if (!run->sending)
		answer_free(run);
	run->dropped = true;
	run->full = true;
	list_del(&c->rest);
	conn_deadline(c, 0);
}

void app_run_free(struct app_run *run)
{
	hold_give(run->w, run->memory);
	free(run->request);
	free(run->script);
	free(run->env);
	free(run->head);
	tx_free(&run->tx);
	free(run);
}

/* In mp and mt of the client, whose socket blocks, nothing but its end is waited for while the program works. */
static void watch_client(struct conn *c, bool works)
{
	if (c->w->blocking)
		loop_del(&c->w->loop, &c->watch);
	if (c->w->blocking && works)
		loop_add(&c->w->loop, &c->watch, EPOLLRDHUP | EPOLLET);
	else
		conn_arm(c);
}

/* Lets go of the program and answers in its place; the connection ends. */
static enum verdict run_refuse(struct app_run *run, int status)
{
	struct request none = { 0 }, *request = run->request;
	struct conn *c = run->c;
	enum verdict v;

	stats_add(c->w->stats, app_errors, 1);
	list_del(&c->rest);
	if (!request)
		request = &none;
	request->flags = REQ_CLOSE | (run->is_head ? REQ_HEAD : 0);
	run->request = NULL;
	c->app = NULL;
	run->c = NULL;
	run->ops->release(run);
	app_body_free(c);
	v = respond_status(c, request, status, status == 503 ? RETRY_AFTER : NULL, true);
	if (request != &none)
		free(request);
	if (v == BLOCKED)
		c->state = CONN_SEND;
	return v;
}

static enum verdict run_start(struct app_run *run)
{
	struct conn *c = run->c;
	char length[24];
	int err = 0;

	snprintf(length, sizeof(length), "%llu",
		 c->body ? (unsigned long long)body_length(c->body) : 0);
	if (app_env(run, "CONTENT_LENGTH", length, strlen(length)))
		err = -431;
	else if (!run_take(run, 0))
		err = -503;
	c->state = CONN_APP;
	conn_deadline(c, c->w->conf->app_timeout);
	watch_client(c, true);
	if (!err)
		err = run->ops->start(run);
	if (err) {
		c->close = true;
		c->state = CONN_READ;
		watch_client(c, false);
		return run_refuse(run, -err);
	}
	return BLOCKED;
}

/* What the log will say about the request when the answer is complete. */
static int remember(struct app_run *run, const struct request *req)
{
	const struct slice *from[] = { &req->line, &req->host_port, &req->referer,
				       &req->user_agent };
	struct slice *to[4];
	size_t i, len = sizeof(struct request);
	char *p;

	for (i = 0; i < 4; i++)
		len += from[i]->len;
	run->request = malloc(len);
	if (!run->request)
		return -1;
	memset(run->request, 0, sizeof(*run->request));
	to[0] = &run->request->line;
	to[1] = &run->request->host_port;
	to[2] = &run->request->referer;
	to[3] = &run->request->user_agent;
	p = (char *)(run->request + 1);
	for (i = 0; i < 4; i++) {
		if (!from[i]->p)
			continue;
		memcpy(p, from[i]->p, from[i]->len);
		to[i]->p = p;
		to[i]->len = from[i]->len;
		p += from[i]->len;
	}
	return 0;
}

/* @req, as one whose body will not be read: the answer is the last. */
static const struct request *closing(const struct request *req, struct request *last)
{
	*last = *req;
	if (req->flags & REQ_BODY)
		last->flags |= REQ_CLOSE;
	return last;
}

enum verdict app_begin(struct conn *c, const struct request *req, const struct path *p, bool more)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct app_run *run;
	struct request last;
	int err;

	if (req->method == METHOD_OTHER)
		return respond_status(c, req, 501, NULL, more);
	if (req->content_length > c->w->conf->max_body)
		return respond_status(c, closing(req, &last), 413, NULL, true);
	run = calloc(1, sizeof(*run));
	if (!run)
		return respond_status(c, closing(req, &last), 503, NULL, more);
	list_init(&run->wait);
	run->c = c;
	run->w = c->w;
	run->body_since = c->w->loop.now;
	run->app = p->app;
	run->ops = p->app->kind == APP_CGI ? &cgi_ops : &fcgi_ops;
	run->tx.lite = app_lite(c->w) && !conn_is_secure(c);
	run->is_head = req->flags & REQ_HEAD;
	run->no_body = run->is_head;
	run->safe = req->method == METHOD_GET || run->is_head || req->method == METHOD_OPTIONS;
	/* A stream's end delimits what has no length. */
	run->http10 = req->flags & REQ_HTTP10 || c->stream;
	run->close = req->flags & REQ_CLOSE;
	c->close = run->close;
	c->linger = false;
	err = app_env_build(run, req, p);
	if (err) {
		app_run_free(run);
		return respond_status(c, closing(req, &last), -err, NULL, more);
	}
	if (c->w->log && remember(run, req)) {
		app_run_free(run);
		return CLOSE;
	}
	c->app = run;
	run->memory = run_memory(run, 0);
	if (!hold_take(c, run->memory)) {
		run->memory = 0;
		run->close = true;
		return run_refuse(run, 503);
	}
	if (!(req->flags & REQ_BODY))
		return run_start(run);
	if (body_hold(c, 0))
		c->body = body_new(req, c->w->conf->max_body);
	if (!c->body)
		return run_refuse(run, 503);
	if (c->stream)
		body_take_all(c->body);
	c->state = CONN_BODY;
	hold_slow(c, &c->w->bodies);
	conn_deadline(c, c->w->conf->body_timeout);
	if (req->flags & REQ_EXPECT && !more &&
	    conn_send(c, go_on, sizeof(go_on) - 1, false) < 0)
		return CLOSE;
	return BODY;
}

/* A byte now and then does not keep a connection: there is a least speed, after body_timeout. */
static unsigned int body_time(const struct conn *c)
{
	uint64_t until = c->app->body_since + c->w->conf->body_timeout * 1000ull +
			 body_length(c->body) * 1000 / BODY_RATE;
	uint64_t left = until > c->w->loop.now ? (until - c->w->loop.now) / 1000 : 0;

	return left < c->w->conf->body_timeout ? left : c->w->conf->body_timeout;
}

enum verdict app_body(struct conn *c, char *buf, size_t len)
{
	uint64_t before = c->body ? body_length(c->body) : 0;
	size_t used = len;
	int n = -503;

	if (c->body && body_hold(c, before + len))
		n = body_feed(c->body, buf, &used);
	if (!n && c->stream && c->peer_done)
		n = 1;
	if (n < 0) {
		list_del(&c->rest);
		return run_refuse(c->app, -n);
	}
	body_hold(c, body_length(c->body));
	if (body_length(c->body) / HOLD_STEP != before / HOLD_STEP)
		hold_slow(c, &c->w->bodies);
	if (!input_keep(c, buf + used, len - used))
		return CLOSE;
	if (!n) {
		conn_deadline(c, body_time(c));
		return BODY;
	}
	list_del(&c->rest);
	return run_start(c->app);
}

/* Everything is in the socket's hands. */
static int run_complete(struct app_run *run)
{
	struct conn *c = run->c;

	list_del(&c->rest);
	c->app = NULL;
	c->close = c->close || run->close;
	respond_account(c, run->request, run->status, run->sent);
	app_body_free(c);
	run->c = NULL;
	run->ops->release(run);
	watch_client(c, false);
	conn_response_done(c, true);
	return -1;
}

static int run_broken(struct app_run *run)
{
	stats_add(run->w->stats, app_errors, 1);
	conn_close(run->c);
	return -1;
}

/* Sends what is waiting. -1: the run is gone. */
static int tx_flush(struct app_run *run)
{
	struct conn *c = run->c;
	unsigned int tries = 0;
	ssize_t n;

	if (run->dropped)
		return 0;
	while (run->tx.len && !run->held) {
		run->sending = true;
		n = tx_send(&run->tx, c);
		run->sending = false;
		if (run->dropped) {
			answer_free(run);
			return 0;
		}
		if (n > 0) {
			run->moved = true;
			run->taken += n;
			stats_add(c->w->stats, bytes_sent, n);
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return run_broken(run);
		if (!c->w->blocking)
			break;
		if (++tries > c->w->conf->send_timeout)
			return run_broken(run);
	}
	if (!run->tx.len && run->done)
		return run_complete(run);
	if (!run->tx.len)
		tx_shrink(&run->tx);
	if (!run->held)
		run_give(run);
	run_stands(run);
	/* Who keeps us waiting, the program or the client? */
	run->full = run->tx.len > TX_HIGH || (run->full && run->tx.len > TX_HIGH / 2);
	if (run->moved)
		conn_deadline(c, run->full || run->done ? c->w->conf->send_timeout :
							   c->w->conf->app_timeout);
	run->moved = false;
	return 0;
}

/* Part of the program's answer: in memory, or in an aggregate. */
struct part {
	const char *p;
	struct IOL_Agg *agg;
	size_t start, len;
};

int app_put(struct app_run *run, const char *p, size_t len)
{
	return run_take(run, len) ? tx_add(&run->tx, p, len) : -1;
}

static int add_part(struct app_run *run, const struct part *part, size_t len)
{
	if (part->agg)
		return tx_add_agg(&run->tx, part->agg, part->start, len);
	return app_put(run, part->p + part->start, len);
}

static int add_body(struct app_run *run, const struct part *part)
{
	size_t len = part->len;
	char size[24];
	int n, err = 0;

	if (run->no_body)
		return 0;
	if (run->has_length) {
		if (len > run->left)
			len = run->left;
		run->left -= len;
	}
	if (!len)
		return 0;
	run->sent += len;
	if (run->chunked) {
		n = sprintf(size, "%zx\r\n", len);
		err = app_put(run, size, n);
	}
	if (!err)
		err = add_part(run, part, len);
	if (!err && run->chunked)
		err = app_put(run, "\r\n", 2);
	return err;
}

static int output(struct app_run *run, struct part *part)
{
	char head[HEAD_STEP];
	ssize_t used;
	size_t n;

	/* What belongs to no answer is as good as silence. */
	if (run->dropped)
		return 0;
	if (run->head_done && (run->no_body || (run->has_length && !run->left)))
		return 0;
	run->moved = true;
	while (!run->head_done && part->len) {
		if (part->agg) {
			n = IOL_copy_out(part->agg, part->start, head, sizeof(head));
			used = app_head_take(run, head, n);
		} else {
			used = app_head_take(run, part->p + part->start, part->len);
		}
		if (used < 0)
			return -1;
		part->start += used;
		part->len -= used;
	}
	if (part->len && add_body(run, part))
		return run_broken(run);
	return tx_flush(run);
}

int app_output(struct app_run *run, const char *p, size_t len)
{
	struct part part = { .p = p, .len = len };

	return output(run, &part);
}

int app_output_agg(struct app_run *run, struct IOL_Agg *agg, size_t start, size_t len)
{
	struct part part = { .agg = agg, .start = start, .len = len };

	return output(run, &part);
}

ssize_t app_read_agg(int fd, struct IOL_Agg **agg)
{
	size_t n;
	int err;

	err = IOL_read(fd, agg, READ_AGG, &n);
	if (err) {
		errno = -err;
		return -1;
	}
	if (!n)
		IOL_destroy(*agg);
	return n;
}

void app_hold(struct app_run *run)
{
	run->held = true;
}

int app_let_go(struct app_run *run)
{
	run->held = false;
	return tx_flush(run);
}

int app_finish(struct app_run *run, int status)
{
	struct conn *c = run->c;
	enum verdict v;

	run->held = false;
	if (run->dropped)
		return run_broken(run);
	if (!run->head_done) {
		watch_client(c, false);
		v = run_refuse(run, status ? status : 502);
		c->close = true;
		c->linger = true;
		if (v == BLOCKED) {
			c->state = CONN_SEND;
			conn_arm(c);
		} else {
			conn_response_done(c, true);
		}
		return -1;
	}
	/* Too short, or broken off in the middle: the client must be able to tell. */
	if (status || (run->has_length && run->left && !run->no_body))
		return run_broken(run);
	if (run->chunked && !run->no_body && app_put(run, "0\r\n\r\n", 5))
		return run_broken(run);
	run->done = true;
	run->moved = true;
	return tx_flush(run);
}

void app_client_ready(struct conn *c, uint32_t events)
{
	struct app_run *run = c->app;
	bool was_full = run->full;

	if (!(events & EPOLLOUT) || !run->tx.len)
		return;
	if (!tx_flush(run) && was_full && !run->full && !run->done)
		run->ops->resume(run);
}

void app_expired(struct conn *c)
{
	if (!c->app->dropped)
		stats_add(c->w->stats, timeouts_app, 1);
	app_finish(c->app, 504);
}

bool app_is_cut(const struct conn *c)
{
	const struct app_run *run = c->app;

	return run->head_done && !run->chunked && !run->has_length && !run->no_body;
}

bool app_is_sent(const struct conn *c)
{
	const struct app_run *run = c->app;

	return run->head_done && !run->tx.len && (run->no_body || (run->has_length && !run->left));
}

void app_abort(struct conn *c)
{
	struct app_run *run = c->app;

	c->app = NULL;
	run->c = NULL;
	run->ops->release(run);
}
