// SPDX-License-Identifier: GPL-2.0
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUFFER (64 << 10)
#define LINE_MAX_LEN 8192
#define FLUSH_MS 1000

/**
 * struct log - access log of one worker
 * @buf:     lines not yet written; the loop's
 * @writing: handed to a helper while @busy
 * @lost:    lines dropped because the disk did not keep up
 */
struct log {
	struct worker *w;
	int fd, reopened;
	char *buf, *writing;
	size_t len, writing_len;
	bool busy;
	uint64_t lost;
	struct job job;
	struct timer flush;
};

static void write_all(int fd, const char *p, size_t len)
{
	ssize_t n;

	while (len) {
		n = write(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;		/* a full disk must not stop the service */
		p += n;
		len -= n;
	}
}

static void job_run(struct job *job)
{
	struct log *log = container_of(job, struct log, job);

	write_all(log->fd, log->writing, log->writing_len);
}

static void job_done(struct job *job)
{
	struct log *log = container_of(job, struct log, job);

	log->busy = false;
	if (log->len && list_empty(&log->flush.node))
		loop_timer_set(&log->w->loop, &log->flush, log->w->loop.now + FLUSH_MS);
}

static void flush(struct log *log)
{
	char *swap = log->writing;

	if (!log->len || log->busy)
		return;
	log->writing = log->buf;
	log->writing_len = log->len;
	log->buf = swap;
	log->len = 0;
	if (!log->w->helpers) {
		job_run(&log->job);
		return;
	}
	log->busy = true;
	helper_submit(log->w->helpers, &log->job);
}

static void flush_expired(struct timer *t)
{
	flush(container_of(t, struct log, flush));
}

static int open_file(const char *path)
{
	if (!strcmp(path, "-"))
		return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
}

struct log *log_open(struct worker *w)
{
	struct log *log = calloc(1, sizeof(*log));

	if (!log)
		return NULL;
	log->w = w;
	log->buf = malloc(BUFFER);
	log->writing = malloc(BUFFER);
	log->fd = open_file(w->conf->access_log);
	if (!log->buf || !log->writing || log->fd < 0) {
		fprintf(stderr, "flash: cannot write %s: %s\n", w->conf->access_log,
			strerror(errno));
		free(log->buf);
		free(log->writing);
		free(log);
		return NULL;
	}
	log->job.kind = JOB_READ;
	log->job.run = job_run;
	log->job.done = job_done;
	log->flush.expired = flush_expired;
	list_init(&log->flush.node);
	return log;
}

/* No helper runs any more. */
void log_close(struct log *log)
{
	write_all(log->fd, log->buf, log->len);
	loop_timer_del(&log->flush);
	close(log->fd);
	free(log->buf);
	free(log->writing);
	free(log);
}

void log_reopen(struct log *log, int count)
{
	int fd;

	if (count == log->reopened || log->busy)
		return;
	log->reopened = count;
	flush(log);
	fd = open_file(log->w->conf->access_log);
	if (fd < 0)
		return;
	dup3(fd, log->fd, O_CLOEXEC);	/* a helper may hold the number */
	close(fd);
}

static bool plain(uint8_t c)
{
	return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

/* Quotes, backslashes and what does not print become \xHH (Combined) or \u00HH (JSON). */
static char *put_escaped(char *o, const char *end, const struct slice *s, bool json)
{
	static const char digits[] = "0123456789abcdef";
	uint32_t i = 0, run;

	while (i < s->len && end - o > 8) {
		uint8_t c;

		for (run = i; run < s->len && plain(s->p[run]) && end - o - 8 > run - i; run++)
			;
		o = mempcpy(o, s->p + i, run - i);
		i = run;
		if (i == s->len || end - o <= 8)
			break;
		c = s->p[i++];
		o = stpcpy(o, json ? "\\u00" : "\\x");
		*o++ = digits[c >> 4];
		*o++ = digits[c & 15];
	}
	return o;
}

/* printf() takes a thousand instructions for it. */
static char *put_number(char *o, uint64_t n)
{
	char text[20], *p = text + sizeof(text);

	do
		*--p = '0' + n % 10;
	while (n /= 10);
	return mempcpy(o, p, text + sizeof(text) - p);
}

static char *put_field(char *o, const char *end, const char *before, const struct slice *s,
		       bool json)
{
	o = stpcpy(o, before);
	if (s && s->p)
		return put_escaped(o, end - 64, s, json);
	*o++ = '-';
	return o;
}

/* The time as text; formatting it costs more than all the rest, so once a second must do. */
static const char *stamp(long now, bool json)
{
	static __thread char text[40];
	static __thread long at = -1;
	static __thread bool as_json;
	struct tm tm;

	if (now != at || json != as_json) {
		if (json)
			strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
		else
			strftime(text, sizeof(text), "%d/%b/%Y:%H:%M:%S %z",
				 localtime_r(&now, &tm));
		at = now;
		as_json = json;
	}
	return text;
}

size_t log_format_line(char *out, size_t size, unsigned int format, const struct log_entry *e)
{
	bool json = format == LOG_JSON;
	const char *end = out + size;
	const char *when = stamp(e->time, json);
	char *o = out;

	if (json) {
		o = stpcpy(stpcpy(o, "{\"time\":\""), when);
		o = stpcpy(stpcpy(o, "\",\"client\":\""), e->address);
		o = put_number(stpcpy(o, "\",\"status\":"), e->status);
		o = put_number(stpcpy(o, ",\"bytes\":"), e->bytes);
		o = put_field(o, end, ",\"request\":\"", e->req ? &e->req->line : NULL, true);
		o = put_field(o, end, "\",\"host\":\"", e->req ? &e->req->host_port : NULL, true);
	} else {
		o = stpcpy(stpcpy(o, e->address), " - - [");
		o = stpcpy(stpcpy(o, when), "]");
		o = put_field(o, end, " \"", e->req ? &e->req->line : NULL, false);
		o = put_number(stpcpy(o, "\" "), e->status);
		*o++ = ' ';
		o = put_number(o, e->bytes);
	}
	o = put_field(o, end, json ? "\",\"referer\":\"" : " \"", e->req ? &e->req->referer : NULL,
		      json);
	o = put_field(o, end, json ? "\",\"agent\":\"" : "\" \"",
		      e->req ? &e->req->user_agent : NULL, json);
	o = stpcpy(o, json ? "\"}\n" : "\"\n");
	return o - out;
}

void log_request(struct conn *c, const struct request *req, int status, uint64_t bytes)
{
	struct log *log = c->w->log;
	struct log_entry e = {
		.address = conn_address(c), .req = req, .status = status,
		.bytes = bytes, .time = c->w->loop.wall,
	};

	if (log->len > BUFFER - LINE_MAX_LEN)
		flush(log);
	if (log->len > BUFFER - LINE_MAX_LEN) {
		log->lost++;
		return;
	}
	log->len += log_format_line(log->buf + log->len, LINE_MAX_LEN, c->w->conf->log_format, &e);
	if (list_empty(&log->flush.node))
		loop_timer_set(&c->w->loop, &log->flush, c->w->loop.now + FLUSH_MS);
}
