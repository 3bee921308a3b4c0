// SPDX-License-Identifier: GPL-2.0
/* The access log. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "access.h"
#include "cache.h"
#include "privilege.h"
#include "tools/base/lines.h"
#include "worker.h"

#define MODE		0640
#define TARGET_MAX	1024	/* of a target in a line; what is longer is cut */

/* Guards everything below; a leaf. @json is read without it, and whether there is a log. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lines log_file = { .fd = -1 };
static bool json;
static char buffer[65536];
static size_t buffered;

/*
 * A full disk, or a pipe that nobody empties, costs lines in the end, and never service. What it does
 * not take now stays for the next time, while there is room; what finds none is counted (LardLogLost).
 */
static void flush_locked(void)
{
	size_t done = 0;
	ssize_t n;

	while (done < buffered) {
		n = lines_put(&log_file, buffer + done, buffered - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += n;
	}
	buffered -= done;
	memmove(buffer, buffer + done, buffered);
}

void access_flush(void)
{
	pthread_mutex_lock(&lock);
	if (log_file.fd >= 0)
		flush_locked();
	pthread_mutex_unlock(&lock);
}

int access_prepare(const struct config *config)
{
	return *config->access_log && !geteuid() ? privilege_make(config->access_log, MODE) : 0;
}

int access_try(const struct config *config, struct lines *file)
{
	*file = (struct lines){ .fd = -1 };
	return *config->access_log ? lines_open(file, config->access_log, MODE) : 0;
}

void access_use(const struct config *config, const struct lines *file)
{
	struct lines old;

	pthread_mutex_lock(&lock);
	old = log_file;
	if (old.fd >= 0)
		flush_locked();
	/* What the old one did not take the new one may, but that there is none. */
	if (file->fd < 0)
		buffered = 0;
	__atomic_store_n(&log_file.fd, file->fd, __ATOMIC_RELAXED);
	log_file.stream = file->stream;
	log_file.socket = file->socket;
	__atomic_store_n(&json, config->access_json, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&lock);
	if (old.fd >= 0)
		close(old.fd);
}

void access_forget(const struct lines *file)
{
	if (file->fd >= 0)
		close(file->fd);
}

int access_open(const struct config *config)
{
	struct lines file;
	int err = access_try(config, &file);

	if (!err)
		access_use(config, &file);
	return err;
}

void access_close(void)
{
	static const struct config none;

	access_open(&none);
}

static bool is_on(void)
{
	return __atomic_load_n(&log_file.fd, __ATOMIC_RELAXED) >= 0;
}

static bool is_json(void)
{
	return __atomic_load_n(&json, __ATOMIC_RELAXED);
}

/* Escapes that JSON and logfmt both understand; bytes above ASCII stay, if they are UTF-8 or not. */
static size_t put_text(char *out, size_t room, const char *text, size_t len)
{
	size_t at = 0, i;

	for (i = 0; i < len && at + 7 < room; i++) {
		unsigned char c = text[i];

		if (c == '"' || c == '\\')
			at += sprintf(out + at, "\\%c", c);
		else if (c < ' ' || c > '~')
			at += sprintf(out + at, "\\u%04x", c);
		else
			out[at++] = c;
	}
	out[at] = '\0';
	return at;
}

void access_keep(struct conn *conn)
{
	const struct request *r = &conn->worker->request;
	char target[TARGET_MAX], host[256], method[32];

	if (!is_on())
		return;
	put_text(method, sizeof(method), r->method.at, r->method.len);
	put_text(host, sizeof(host), r->host.at, r->host.len);
	put_text(target, sizeof(target), r->target.at, r->target.len);
	free(conn->line);
	if (asprintf(&conn->line, is_json() ? "\"method\":\"%s\",\"host\":\"%s\",\"target\":\"%s\"" :
		     "method=\"%s\" host=\"%s\" target=\"%s\"", method, host, target) < 0)
		conn->line = NULL;
}

/* False: it is lost. */
static bool put_line(const char *line, size_t len)
{
	bool fits = true;

	pthread_mutex_lock(&lock);
	if (log_file.fd >= 0) {
		if (buffered + len > sizeof(buffer))
			flush_locked();
		fits = buffered + len <= sizeof(buffer);
		if (fits) {
			memcpy(buffer + buffered, line, len);
			buffered += len;
		}
	}
	pthread_mutex_unlock(&lock);
	return fits;
}

__attribute__((format(printf, 4, 5)))
static size_t add(char *line, size_t size, size_t len, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line + len, size - len, format, args);
	va_end(args);
	return n < 0 ? len : len + n >= size ? size - 1 : len + n;
}

static void write_line(struct conn *conn, const char *how, unsigned int status, int64_t bytes,
		       int64_t handoff_us, bool truncated)
{
	struct worker *w = conn->worker;
	char line[4096], peer[ADDRESS_TEXT], when[40], name[LARD_NAME_MAX] = "-";
	struct timespec now;
	bool as_json;
	struct tm tm;
	size_t len;

	if (!is_on())
		return;
	/* A reload may change the format meanwhile: the line goes on as it was begun. */
	as_json = conn->line ? conn->line[0] == '"' : is_json();
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	if (conn->node >= 0) {
		pthread_mutex_lock(&w->lardd->lock);
		strcpy(name, w->lardd->nodes.at[conn->node].name);
		pthread_mutex_unlock(&w->lardd->lock);
	}
	len = add(line, sizeof(line), 0, as_json ?
		  "{\"time\":\"%s.%03ldZ\",\"client\":\"%s\",\"how\":\"%s\",\"node\":\"%s\",\"why\":\"%s\""
		  ",\"total_us\":%" PRIu64 :
		  "time=%s.%03ldZ client=%s how=%s node=%s why=%s total_us=%" PRIu64,
		  when, now.tv_nsec / 1000000, address_text(&conn->peer, peer, sizeof(peer)), how, name,
		  conn->node < 0 ? "-" : lard_reason_name(conn->why), w->loop.now - conn->began_us);
	if (conn->line)
		len = add(line, sizeof(line), len, "%s%s", as_json ? "," : " ", conn->line);
	if (status)
		len = add(line, sizeof(line), len, as_json ? ",\"status\":%u" : " status=%u", status);
	if (bytes >= 0)
		len = add(line, sizeof(line), len, as_json ? ",\"bytes\":%" PRId64 : " bytes=%" PRId64,
			  bytes);
	if (handoff_us >= 0)
		len = add(line, sizeof(line), len,
			  as_json ? ",\"handoff_us\":%" PRId64 : " handoff_us=%" PRId64, handoff_us);
	if (truncated)
		len = add(line, sizeof(line), len, as_json ? ",\"truncated\":true" : " truncated=true");
	len = add(line, sizeof(line), len, as_json ? "}\n" : "\n");
	if (!put_line(line, len))
		count(w, COUNTER_LOG_LOST);
}

void access_handed_off(struct conn *conn, uint32_t usec)
{
	write_line(conn, "handoff", 0, -1, usec, false);
	free(conn->line);
	conn->line = NULL;
}

void access_proxied(struct conn *conn, unsigned int status, uint64_t bytes, const struct entry *cached,
		    bool truncated)
{
	const char *how = cached ? entry_is_fresh(cached, conn->worker->loop.now) ? "cache" : "stale" :
			  conn->refreshes ? "refresh" : conn->fallback ? "proxy-fallback" : "proxy";

	write_line(conn, how, status, bytes, -1, truncated);
}

void access_refused(struct conn *conn, unsigned int status)
{
	write_line(conn, status < 400 ? "redirect" : "refused", status, -1, -1, false);
}
