// SPDX-License-Identifier: GPL-2.0
/* FastCGI: one request at a time on a connection, connections kept for the next. */
#include "fcgi.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <iolite.h>

#include "body.h"
#include "said.h"

#define BODY_STEP (32 << 10)
#define READ_SIZE (32 << 10)
#define RETRY_MS 50		/* after the program's listen queue was full */
#define FCGI_EVENTS (EPOLLIN | EPOLLRDHUP | EPOLLET)

static void fcgi_conn_free(struct grave *g)
{
	struct fcgi *f = container_of(g, struct fcgi, grave);

	free(f->said);
	free(f->out);
	free(f);
}

static void set_unheard(struct fcgi *f, bool yes)
{
	if (f->unheard != yes)
		f->pool->unheard += yes ? 1 : -1;
	f->unheard = yes;
}

static void idle_end(struct fcgi *f)
{
	list_del(&f->node);
	loop_timer_del(&f->timer);
	f->pool->nr_idle -= f->is_idle;
	f->is_idle = false;
}

static void program_said(struct fcgi *f, const char *p, size_t len)
{
	if (!f->said)
		f->said = calloc(1, sizeof(*f->said));
	if (f->said)
		said_add(f->pool->w, f->pool->app->target, f->said, p, len);
}

/* What it says goes with its request: no line spans two. */
static void program_silent(struct fcgi *f)
{
	if (f->said)
		said_end(f->pool->w, f->pool->app->target, f->said);
}

void fcgi_close(struct fcgi *f)
{
	program_silent(f);
	idle_end(f);
	set_unheard(f, false);
	f->pool->nr--;
	loop_close(&f->pool->w->loop, &f->watch);
	loop_bury(&f->pool->w->loop, &f->grave);
	fcgi_pool_serve(f->pool);
}

static void idle_expired(struct timer *t)
{
	fcgi_close(container_of(t, struct fcgi, timer));
}

static void idle_begin(struct fcgi *f)
{
	struct fcgi_pool *p = f->pool;

	list_add(&f->node, &p->idle);
	p->nr_idle++;
	f->is_idle = true;
	loop_timer_set(&p->w->loop, &f->timer,
		       p->w->loop.now + p->w->conf->fastcgi_idle * 1000ull);
}

/* Begin, parameters, their end; and the end of the body when there is none. */
static int encode_request(struct fcgi *f)
{
	const struct app_run *run = f->run;
	size_t i, n, at;
	char *params, *o;

	params = malloc(run->env_len + 8 * run->nr_env + 1);
	if (!params)
		return -1;
	n = put_params(params, run->env, run->env_len);
	free(f->out);
	f->out = malloc(n + HEADER * (n / RECORD_MAX + 5) + 8);
	if (!f->out) {
		free(params);
		return -1;
	}
	o = put_record(f->out, BEGIN, 8);
	memcpy(o, "\0\1\0\0\0\0\0\0", 8);	/* responder */
	o[2] = f->pool->listen >= 0 || f->pool->w->conf->fastcgi_keep;	/* keep the connection */
	o += 8;
	for (at = 0; at < n; at += i) {
		i = n - at < RECORD_MAX ? n - at : RECORD_MAX;
		o = put_record(o, PARAMS, i);
		memcpy(o, params + at, i);
		o += i;
	}
	o = put_record(o, PARAMS, 0);
	free(params);
	f->stdin_done = !run->c->body || !body_length(run->c->body);
	if (f->stdin_done)
		o = put_record(o, STDIN, 0);
	f->out_off = 0;
	f->out_len = o - f->out;
	f->sent = 0;
	return 0;
}

/* The next piece of the body, or its end. */
static int encode_body(struct fcgi *f)
{
	struct body *body = f->run->c->body;
	ssize_t n = 0;
	char *grown = realloc(f->out, 2 * HEADER + BODY_STEP);

	if (!grown)
		return -1;
	f->out = grown;
	f->out_off = 0;
	if (body && f->sent < body_length(body)) {
		n = pread(body_fd(body), f->out + HEADER, BODY_STEP, f->sent);
		if (n <= 0)
			return -1;
	}
	put_record(f->out, STDIN, n);
	f->out_len = HEADER + n;
	f->sent += n;
	f->stdin_done = !n;
	return 0;
}

/* The program hung up or misbehaved. */
static void fcgi_fail(struct fcgi *f)
{
	struct app_run *run = f->run;
	bool again = f->reused && !f->heard;

	f->run = NULL;
	fcgi_close(f);
	if (!run)
		return;
	run->priv = NULL;
	if (again && !fcgi_begin(run, true))
		return;
	app_finish(run, 502);
}

/* Not before the socket is full: it would be news each time that the program has read a little. */
static int want_room(struct fcgi *f)
{
	struct loop *loop = &f->pool->w->loop;

	if (f->watch.events & EPOLLOUT)
		return 0;
	f->watch.events |= EPOLLOUT;
	return watch_again(loop, &f->watch);
}

static int fcgi_write(struct fcgi *f)
{
	ssize_t n;

	for (;;) {
		if (!f->out_len) {
			if (f->stdin_done)
				return 0;
			if (encode_body(f))
				return -1;
		}
		n = send(f->watch.fd, f->out + f->out_off, f->out_len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == ENOTCONN))
			return want_room(f);
		if (n < 0)
			return -1;
		f->out_off += n;
		f->out_len -= n;
	}
}

/* The event of what is there, its end above all, may be past: nobody would tell the next request. */
static bool is_silent(const struct fcgi *f)
{
	return recv(f->watch.fd, &(char){ 0 }, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* END_REQUEST has come: the connection is free for another request. */
static int request_ended(struct fcgi *f, bool more)
{
	struct app_run *run = f->run;
	bool ok = f->end_len == sizeof(f->end) && !f->end[4];

	f->run = NULL;
	run->priv = NULL;
	set_unheard(f, false);
	/* It did not want all of the body, or says more than it was asked. */
	if (f->out_len || !f->stdin_done || more || !fcgi_pool_may_keep(f->pool) ||
	    !is_silent(f)) {
		fcgi_close(f);
	} else {
		program_silent(f);
		idle_begin(f);
		fcgi_pool_serve(f->pool);
	}
	app_finish(run, ok ? 0 : 503);
	return -1;
}

/* One step through received bytes. Returns how many it used, 0 at the end of the request. */
static size_t take(struct fcgi *f, const char *p, size_t len)
{
	unsigned int type = f->head[1], n;

	if (f->head_len < HEADER) {
		n = HEADER - f->head_len < len ? HEADER - f->head_len : len;
		memcpy(f->head + f->head_len, p, n);
		f->head_len += n;
		if (f->head_len == HEADER) {
			f->left = f->head[4] << 8 | f->head[5];
			f->pad = f->head[6];
			f->end_len = 0;
		}
		return n;
	}
	if (f->left) {
		n = f->left < len ? f->left : len;
		f->left -= n;
		if (type == STDOUT && app_output(f->run, p, n))
			return 0;
		if (type == STDERR)
			program_said(f, p, n);
		if (type == END && f->end_len + n <= sizeof(f->end)) {
			memcpy(f->end + f->end_len, p, n);
			f->end_len += n;
		}
		return n;
	}
	n = f->pad < len ? f->pad : len;
	f->pad -= n;
	return n;
}

static bool record_done(const struct fcgi *f)
{
	return f->head_len == HEADER && !f->left && !f->pad;
}

/* The same of an aggregate: content goes on by reference, and what is looked at is copied. */
static size_t take_agg(struct fcgi *f, struct IOL_Agg *agg, size_t at, size_t len)
{
	char buf[256];
	size_t n;

	if (f->head_len == HEADER && f->left && f->head[1] == STDOUT) {
		n = f->left < len ? f->left : len;
		f->left -= n;
		return app_output_agg(f->run, agg, at, n) ? 0 : n;
	}
	if (f->head_len < HEADER)
		len = HEADER - f->head_len < len ? HEADER - f->head_len : len;
	n = IOL_copy_out(agg, at, buf, len < sizeof(buf) ? len : sizeof(buf));
	return take(f, buf, n);
}

/* All that was received: bytes, or an aggregate. */
static int take_all(struct fcgi *f, const char *p, struct IOL_Agg *agg, size_t len)
{
	size_t at = 0;

	/* What came together goes on together, header and body for one. */
	app_hold(f->run);
	while (at < len || record_done(f)) {
		/* A whole record, perhaps an empty one, has been taken. */
		if (record_done(f)) {
			f->head_len = 0;
			if (f->head[1] == END) {
				request_ended(f, at < len);
				return 0;
			}
			continue;
		}
		at += agg ? take_agg(f, agg, at, len - at) : take(f, p + at, len - at);
		if (!f->run)
			return 0;	/* the client went away meanwhile */
		/* Of another version, or about a request that was not made. */
		if (f->head_len == HEADER && (f->head[0] != 1 || f->head[2] || f->head[3] != 1))
			return -1;
	}
	app_let_go(f->run);
	return 0;
}

/* Once from the program to the client. Bytes, 0 at the end, -1 and errno. */
static ssize_t fcgi_pass(struct fcgi *f)
{
	struct IOL_Agg *agg = NULL;
	char buf[READ_SIZE];
	size_t room = app_room(f->run, sizeof(buf));
	ssize_t n;

	if (!room) {
		errno = EAGAIN;		/* goes on with fcgi_resume() */
		return -1;
	}
	if (f->run->tx.lite)
		n = app_read_agg(f->watch.fd, &agg);
	else
		n = recv(f->watch.fd, buf, room, 0);
	if (n <= 0)
		return n;
	f->heard = true;
	set_unheard(f, false);
	if (take_all(f, buf, agg, n)) {
		errno = EPROTO;
		n = -1;
	}
	if (agg)
		IOL_destroy(agg);
	return n;
}

static void fcgi_read(struct fcgi *f)
{
	unsigned int reads = 0;
	ssize_t n;

	while (f->run && !f->run->full) {
		if (++reads > APP_READS) {
			if (watch_again(&f->pool->w->loop, &f->watch))
				fcgi_fail(f);
			return;
		}
		n = fcgi_pass(f);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			fcgi_fail(f);
			return;
		}
	}
}

static void fcgi_ready(struct watch *watch, uint32_t events)
{
	struct fcgi *f = container_of(watch, struct fcgi, watch);

	if (!f->run) {			/* idle: the only news is its end */
		if (events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP))
			fcgi_close(f);
		return;
	}
	if (events & EPOLLOUT && fcgi_write(f)) {
		fcgi_fail(f);
		return;
	}
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP))
		fcgi_read(f);
}

static struct fcgi *fcgi_connect(struct fcgi_pool *p)
{
	struct fcgi *f = calloc(1, sizeof(*f));
	int one = 1, err;

	if (!f)
		return NULL;
	f->pool = p;
	f->grave.free = fcgi_conn_free;
	f->watch.ready = fcgi_ready;
	f->watch.nonblocking = true;
	f->timer.expired = idle_expired;
	list_init(&f->node);
	list_init(&f->timer.node);
	f->watch.fd = socket(p->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (f->watch.fd < 0)
		goto undo_alloc;
	if (p->addr.ss_family != AF_UNIX)
		setsockopt(f->watch.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(f->watch.fd, (struct sockaddr *)&p->addr, p->addr_len) && errno != EINPROGRESS)
		goto undo_fd;
	if (loop_add(&p->w->loop, &f->watch, FCGI_EVENTS))
		goto undo_fd;
	stats_add(p->w->stats, fastcgi_connects, 1);
	p->nr++;
	return f;

undo_fd:
	err = errno;
	close(f->watch.fd);
	errno = err;
undo_alloc:
	free(f);
	return NULL;
}

/* A kept one; NULL: none. What came since the last event would be taken for the answer. */
static struct fcgi *idle_take(struct fcgi_pool *p)
{
	while (!list_empty(&p->idle)) {
		struct fcgi *f = list_entry(p->idle.next, struct fcgi, node);

		if (is_silent(f)) {
			idle_end(f);
			return f;
		}
		fcgi_close(f);
	}
	return NULL;
}

int fcgi_begin(struct app_run *run, bool fresh)
{
	struct fcgi_pool *p = fcgi_pool_get(run->w, run->app);
	struct fcgi *f;

	if (!p)
		return -503;
	run->priv = NULL;
	/* What must not be done twice does not go where a kept connection may just be ending. */
	if (!run->safe && !list_empty(&p->idle)) {
		fcgi_close(list_entry(p->idle.next, struct fcgi, node));
		fresh = true;
	}
	f = fresh ? NULL : idle_take(p);
	if (f) {
		f->reused = true;
	} else if (p->nr >= p->w->conf->fastcgi_connections) {
		list_add_tail(&run->wait, &p->waiting);
		return 0;
	} else {
		f = fcgi_connect(p);
		if (!f && errno == EAGAIN) {	/* its listen queue is full */
			list_add_tail(&run->wait, &p->waiting);
			loop_timer_set(&p->w->loop, &p->retry, p->w->loop.now + RETRY_MS);
			return 0;
		}
		if (!f)
			return -502;
	}
	f->run = run;
	f->heard = false;
	f->head_len = 0;
	f->left = 0;
	f->pad = 0;
	set_unheard(f, true);
	run->priv = f;
	if (encode_request(f) || (fcgi_write(f) && !f->reused)) {
		f->run = NULL;
		run->priv = NULL;
		fcgi_close(f);
		return -502;
	}
	return 0;
}

static int fcgi_start(struct app_run *run)
{
	stats_add(run->w->stats, fastcgi_requests, 1);
	return fcgi_begin(run, false);
}

static void fcgi_resume(struct app_run *run)
{
	if (run->priv)
		fcgi_read(run->priv);
}

/* The request is over for us; for the program perhaps not, so its connection cannot be kept. */
static void fcgi_release(struct app_run *run)
{
	struct fcgi *f = run->priv;

	list_del(&run->wait);
	if (f) {
		f->run = NULL;
		fcgi_close(f);
	}
	app_run_free(run);
}

const struct app_ops fcgi_ops = {
	.start = fcgi_start,
	.resume = fcgi_resume,
	.release = fcgi_release,
};
