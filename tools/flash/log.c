// SPDX-License-Identifier: GPL-2.0
#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/base/lines.h"

#define MODE 0644
#define BUFFER (64 << 10)
#define BUFFER_MAX (4 << 20)	/* what waits for a busy disk; more is lost, and counted */
#define LINE_MAX_LEN 8192	/* of a line, escapes included */
#define FLUSH_MS 1000

/**
 * struct log - access log of one worker
 * @buf:     lines not yet written; the loop's
 * @writing: handed to a helper while @busy; what it could not write stays from @written on
 * @file:    of a stream, whose reader may stop, the loop writes what fits; a helper would wait for ever
 */
struct log {
	struct worker *w;
	struct lines file;
	int reopened;
	char *buf, *writing;
	size_t size, writing_size;
	size_t len, writing_len, written;
	bool busy;
	struct job job;
	struct timer flush;
};

static size_t write_all(int fd, const char *p, size_t len)
{
	size_t done = 0;
	ssize_t n;

	while (done < len) {
		n = write(fd, p + done, len - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;		/* a full disk must not stop the service: later again */
		done += n;
	}
	return done;
}

static void job_run(struct job *job)
{
	struct log *log = container_of(job, struct log, job);

	log->written += write_all(log->file.fd, log->writing + log->written,
				  log->writing_len - log->written);
}

static void flush_later(struct log *log)
{
	if (list_empty(&log->flush.node))
		loop_timer_set(&log->w->loop, &log->flush, log->w->loop.now + FLUSH_MS);
}

static void job_done(struct job *job)
{
	struct log *log = container_of(job, struct log, job);

	log->busy = false;
	if (log->written == log->writing_len)
		log->writing_len = 0;
	if (log->len || log->writing_len)
		flush_later(log);
}

static void flush_stream(struct log *log)
{
	size_t off = 0;
	ssize_t n;

	while (off < log->len) {
		n = lines_put(&log->file, log->buf + off, log->len - off);
		if (n <= 0)
			break;
		off += n;
	}
	log->len -= off;
	memmove(log->buf, log->buf + off, log->len);
	if (log->len)
		flush_later(log);
}

static void flush(struct log *log)
{
	char *swap = log->writing;
	size_t size = log->writing_size;

	if (log->file.stream) {
		flush_stream(log);
		return;
	}
	if (log->busy || (!log->len && !log->writing_len))
		return;
	if (!log->writing_len) {
		log->writing = log->buf;
		log->writing_size = log->size;
		log->writing_len = log->len;
		log->written = 0;
		log->buf = swap;
		log->size = size;
		log->len = 0;
	}
	if (!log->w->helpers) {
		job_run(&log->job);
		job_done(&log->job);
		return;
	}
	log->busy = true;
	helper_submit(log->w->helpers, &log->job);
}

static void flush_expired(struct timer *t)
{
	flush(container_of(t, struct log, flush));
}

static int open_log(const char *path, struct lines *file)
{
	return strcmp(path, "-") ? lines_open(file, path, MODE) : lines_open_fd(file, STDOUT_FILENO);
}

int log_prepare(const struct conf *conf, uid_t uid, gid_t gid)
{
	if (!conf->access_log || !strcmp(conf->access_log, "-") || geteuid())
		return 0;
	return lines_make(conf->access_log, MODE, uid, gid);
}

struct log *log_open(struct worker *w)
{
	struct log *log = calloc(1, sizeof(*log));
	int err;

	if (!log)
		return NULL;
	log->w = w;
	log->size = BUFFER;
	log->writing_size = BUFFER;
	log->buf = malloc(log->size);
	log->writing = malloc(log->writing_size);
	err = open_log(w->conf->access_log, &log->file);
	if (!log->buf || !log->writing || err) {
		fprintf(stderr, "flash: cannot write %s: %s\n", w->conf->access_log, strerror(err ? -err : ENOMEM));
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
	if (log->file.stream) {
		flush_stream(log);
	} else {
		write_all(log->file.fd, log->writing + log->written, log->writing_len - log->written);
		write_all(log->file.fd, log->buf, log->len);
	}
	loop_timer_del(&log->flush);
	close(log->file.fd);
	free(log->buf);
	free(log->writing);
	free(log);
}

void log_reopen(struct log *log, int count)
{
	struct lines file;
	int err;

	if (count == log->reopened || log->busy)
		return;
	log->reopened = count;
	err = open_log(log->w->conf->access_log, &file);
	if (err) {
		fprintf(stderr, "flash: cannot write %s: %s; going on in the former file\n",
			log->w->conf->access_log, strerror(-err));
		return;
	}
	close(log->file.fd);
	log->file = file;
	flush(log);
}

static bool plain(uint8_t c, bool quoted)
{
	return c >= ' ' && c < 0x7f && c != '\\' && (c != '"' || !quoted);
}

/* Backslashes and what does not print become \xHH (Combined) or \u00HH (JSON), @quoted quotes, too. */
static char *put_escaped(char *o, const char *end, const struct slice *s, bool json, bool quoted)
{
	static const char digits[] = "0123456789abcdef";
	uint32_t i = 0, run;

	while (i < s->len && end - o > 8) {
		uint8_t c;

		for (run = i; run < s->len && plain(s->p[run], quoted) && end - o - 8 > run - i; run++)
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

char *log_escape(char *o, char *end, const struct slice *s)
{
	return put_escaped(o, end, s, false, false);
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
		return put_escaped(o, end - 64, s, json, true);
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

/* The file is written by a helper, who may have to wait for his turn of the CPU or for the disk. */
static bool grow(struct log *log)
{
	char *buf;

	if (log->file.stream || log->size >= BUFFER_MAX)
		return false;
	buf = realloc(log->buf, log->size * 2);
	if (!buf)
		return false;
	log->buf = buf;
	log->size *= 2;
	return true;
}

/* What a stream asks is written down as HTTP/1.1, which it is not. */
static void tell_http2(struct request *req, char *line)
{
	static const char version[] = "HTTP/2.0";
	size_t len = sizeof(version) - 1;

	if (req->line.len < len)
		return;
	memcpy(line, req->line.p, req->line.len);
	memcpy(line + req->line.len - len, version, len);
	req->line.p = line;
}

void log_request(struct conn *c, const struct request *req, int status, uint64_t bytes)
{
	struct log *log = c->w->log;
	char line[LINE_MAX_LEN];
	struct request told;
	struct log_entry e = {
		.address = conn_address(c), .req = req, .status = status,
		.bytes = bytes, .time = c->w->loop.wall,
	};

	if (c->stream && req && req->line.len <= sizeof(line)) {
		told = *req;
		tell_http2(&told, line);
		e.req = &told;
	}
	if (log->len > log->size - LINE_MAX_LEN)
		flush(log);
	if (log->len > log->size - LINE_MAX_LEN && !grow(log)) {
		stats_add(c->w->stats, log_lost, 1);
		return;
	}
	log->len += log_format_line(log->buf + log->len, LINE_MAX_LEN, c->w->conf->log_format, &e);
	if (list_empty(&log->flush.node))
		loop_timer_set(&c->w->loop, &log->flush, c->w->loop.now + FLUSH_MS);
}
