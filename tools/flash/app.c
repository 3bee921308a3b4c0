// SPDX-License-Identifier: GPL-2.0
#include "app.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include <iolite.h>

#include "body.h"
#include "file.h"
#include "response.h"

#define HEAD_MAX 16384		/* header of a program's answer */
#define TX_HIGH (64 << 10)	/* more than this waiting for the client: stop reading */
#define HEAD_STEP 512		/* of it, looked for in an aggregate */
#define READ_AGG (1 << 20)

void app_run_free(struct app_run *run)
{
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

static enum verdict run_start(struct app_run *run)
{
	struct conn *c = run->c;
	char length[24];
	int err = 0;

	snprintf(length, sizeof(length), "%llu",
		 c->body ? (unsigned long long)body_length(c->body) : 0);
	if (app_env(run, "CONTENT_LENGTH", length, strlen(length)))
		err = -431;
	c->state = CONN_APP;
	conn_deadline(c, c->w->conf->app_timeout);
	watch_client(c, true);
	if (!err)
		err = run->ops->start(run);
	if (err) {
		c->app = NULL;
		c->close = true;
		c->state = CONN_READ;
		watch_client(c, false);
		run->ops->release(run);
		stats_add(c->w->stats, app_errors, 1);
		return respond_status(c, NULL, -err, NULL, true);
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

enum verdict app_begin(struct conn *c, const struct request *req, const struct path *p, bool more)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct app_run *run;
	int err;

	if (req->method == METHOD_OTHER)
		return respond_status(c, req, 501, NULL, more);
	if (req->content_length > c->w->conf->max_body)
		return respond_status(c, NULL, 413, NULL, true);
	run = calloc(1, sizeof(*run));
	if (!run)
		return respond_status(c, req, 503, NULL, more);
	run->c = c;
	run->w = c->w;
	run->app = p->app;
	run->ops = p->app->kind == APP_CGI ? &cgi_ops : &fcgi_ops;
	run->tx.lite = app_lite(c->w);
	run->no_body = req->flags & REQ_HEAD;
	run->http10 = req->flags & REQ_HTTP10;
	run->close = req->flags & REQ_CLOSE;
	c->close = run->close;
	c->linger = false;
	err = app_env_build(run, req, p);
	if (err) {
		app_run_free(run);
		return respond_status(c, req->flags & REQ_BODY ? NULL : req, -err, NULL, more);
	}
	if (c->w->log && remember(run, req)) {
		app_run_free(run);
		return CLOSE;
	}
	c->app = run;
	if (!(req->flags & REQ_BODY))
		return run_start(run);
	c->body = body_new(req, c->w->conf->max_body);
	if (!c->body)
		return CLOSE;
	c->state = CONN_BODY;
	conn_deadline(c, c->w->conf->body_timeout);
	if (req->flags & REQ_EXPECT && !more &&
	    send(c->watch.fd, go_on, sizeof(go_on) - 1, MSG_NOSIGNAL) < 0)
		return CLOSE;
	return BODY;
}

enum verdict app_body(struct conn *c, char *buf, size_t len)
{
	size_t used = len;
	int n = body_feed(c->body, buf, &used);

	if (n < 0) {
		struct app_run *run = c->app;

		c->app = NULL;
		run->ops->release(run);
		return respond_status(c, NULL, -n, NULL, true);
	}
	if (!conn_keep(c, buf + used, len - used))
		return CLOSE;
	if (!n) {
		conn_deadline(c, c->w->conf->body_timeout);
		return BODY;
	}
	return run_start(c->app);
}

/* Everything is in the socket's hands. */
static int run_complete(struct app_run *run)
{
	struct conn *c = run->c;

	c->app = NULL;
	c->close = c->close || run->close;
	respond_account(c, run->request, run->status, run->sent);
	body_free(c->body);
	c->body = NULL;
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

	while (run->tx.len && !run->held) {
		n = tx_send(&run->tx, c->watch.fd);
		if (n > 0) {
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
	/* Who keeps us waiting, the program or the client? */
	run->full = run->tx.len > TX_HIGH || (run->full && run->tx.len > TX_HIGH / 2);
	conn_deadline(c, run->full || run->done ? c->w->conf->send_timeout :
						   c->w->conf->app_timeout);
	return 0;
}

/* Part of the program's answer: in memory, or in an aggregate. */
struct part {
	const char *p;
	struct IOL_Agg *agg;
	size_t start, len;
};

static int add_part(struct app_run *run, const struct part *part, size_t len)
{
	if (part->agg)
		return tx_add_agg(&run->tx, part->agg, part->start, len);
	return tx_add(&run->tx, part->p + part->start, len);
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
		err = tx_add(&run->tx, size, n);
	}
	if (!err)
		err = add_part(run, part, len);
	if (!err && run->chunked)
		err = tx_add(&run->tx, "\r\n", 2);
	return err;
}

static bool is(const char *line, size_t len, const char *name)
{
	size_t n = strlen(name);

	return len > n && line[n] == ':' && !strncasecmp(line, name, n);
}

/* The program's header as a response header. @end: behind its empty line. */
static int answer_head(struct app_run *run, char *end)
{
	struct conn *c = run->c;
	struct request req = { .flags = run->close ? REQ_CLOSE : 0 };
	char out[2 * HEAD_MAX], *p, *lf, *reason = NULL;
	const char *text;
	int status = 0, n, fields = 0;

	if (run->http10)
		req.flags |= REQ_HTTP10;
	for (p = run->head; p < end; p = lf + 1) {
		lf = memchr(p, '\n', end - p);
		*lf = '\0';
		if (is(p, lf - p, "Status")) {
			status = atoi(p + 7);
			reason = strchr(p + 7 + strspn(p + 7, " "), ' ');
		}
		if (is(p, lf - p, "Location") && !status)
			status = 302;
		*lf = '\n';
	}
	if (!status)
		status = 200;
	if (status < 200 || status > 599)
		return -1;
	run->status = status;
	text = status_text(status);
	n = sprintf(out, "HTTP/1.1 %d ", status);
	if (reason)
		n += snprintf(out + n, 64, "%.*s", (int)strcspn(reason + 1, "\r\n"), reason + 1);
	else
		n += sprintf(out + n, "%s", text);
	if (n > 80)
		n = 80;
	n += sprintf(out + n, "\r\nDate: %s\r\nServer: flash\r\n", c->w->loop.date);
	for (p = run->head; p < end; p = lf + 1) {
		size_t len;

		lf = memchr(p, '\n', end - p);
		len = lf - p - (lf > p && lf[-1] == '\r');
		if (!len || is(p, len, "Status") || is(p, len, "Connection") ||
		    is(p, len, "Keep-Alive") || is(p, len, "Transfer-Encoding") ||
		    is(p, len, "Date") || is(p, len, "Server"))
			continue;
		if (!memchr(p, ':', len) || *p == ' ' || *p == '\t' || memchr(p, '\0', len))
			return -1;
		if (is(p, len, "Content-Length")) {
			run->has_length = true;
			run->left = strtoull(p + 15, NULL, 10);
		}
		memcpy(out + n, p, len);
		n += len;
		memcpy(out + n, "\r\n", 2);
		n += 2;
		fields++;
	}
	if (!fields)
		return -1;
	if (status == 204 || status == 304)
		run->no_body = true;
	else if (!run->has_length && !run->http10)
		run->chunked = true;
	else if (!run->has_length)
		run->close = true;
	if (run->close)
		req.flags |= REQ_CLOSE;
	n += sprintf(out + n, "%s%s\r\n", connection_header(&req),
		     run->chunked ? "Transfer-Encoding: chunked\r\n" : "");
	run->head_done = true;
	return tx_add(&run->tx, out, n);
}

/* End of the header in what has come, behind the empty line; NULL when it has not. */
static char *head_end(char *p, size_t len)
{
	char *end = p + len, *lf;

	while ((lf = memchr(p, '\n', end - p))) {
		p = lf + 1;
		if (p < end && *p == '\n')
			return p + 1;
		if (p + 1 < end && p[0] == '\r' && p[1] == '\n')
			return p + 2;
	}
	return NULL;
}

/* Bytes of the program's header. Return: how many of them are header, -1: the run is gone. */
static ssize_t take_head(struct app_run *run, const char *p, size_t len)
{
	size_t before = run->head_len, take;
	char *end;

	if (!run->head)
		run->head = malloc(HEAD_MAX);
	if (!run->head)
		return app_finish(run, 503);
	take = len < HEAD_MAX - before ? len : HEAD_MAX - before;
	memcpy(run->head + before, p, take);
	run->head_len += take;
	end = head_end(run->head, run->head_len);
	if (!end)
		return run->head_len == HEAD_MAX ? app_finish(run, 502) : (ssize_t)take;
	if (answer_head(run, end))
		return app_finish(run, 502);
	return end - run->head - before;
}

static int output(struct app_run *run, struct part *part)
{
	char head[HEAD_STEP];
	ssize_t used;
	size_t n;

	conn_deadline(run->c, run->w->conf->app_timeout);
	while (!run->head_done && part->len) {
		if (part->agg) {
			n = IOL_copy_out(part->agg, part->start, head, sizeof(head));
			used = take_head(run, head, n);
		} else {
			used = take_head(run, part->p + part->start, part->len);
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
	if (!run->head_done) {
		stats_add(run->w->stats, app_errors, 1);
		c->app = NULL;
		run->c = NULL;
		run->ops->release(run);
		body_free(c->body);
		c->body = NULL;
		watch_client(c, false);
		v = respond_status(c, NULL, status ? status : 502, NULL, true);
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
	if (run->chunked && !run->no_body && tx_add(&run->tx, "0\r\n\r\n", 5))
		return run_broken(run);
	run->done = true;
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
	stats_add(c->w->stats, timeouts_app, 1);
	app_finish(c->app, 504);
}

void app_abort(struct conn *c)
{
	struct app_run *run = c->app;

	c->app = NULL;
	run->c = NULL;
	run->ops->release(run);
}
