// SPDX-License-Identifier: GPL-2.0
/* Structured log on stderr; under systemd with priorities instead of times. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "tools/base/log.h"

static const char *const level_names[] = { "error", "warn", "info", "debug" };
static const int journal_priority[] = { 3, 4, 6, 7 };
static enum log_level threshold = LOG_LEVEL_INFO;

/* Standard error, or a description of it that does not wait: that one is shared with others. */
static int log_fd = STDERR_FILENO;
static bool is_socket, is_stream;
static _Atomic unsigned int lost;

/* Guards the rate of log_client(). */
static pthread_mutex_t rate_lock = PTHREAD_MUTEX_INITIALIZER;

void log_set_level(enum log_level level)
{
	threshold = level;
}

int log_parse_level(const char *name, enum log_level *level)
{
	unsigned int i;

	for (i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
		if (!strcmp(name, level_names[i])) {
			*level = i;
			return 0;
		}
	}
	return -EINVAL;
}

void log_start(void)
{
	struct stat st;
	int fd;

	if (fstat(STDERR_FILENO, &st) || S_ISREG(st.st_mode))
		return;
	is_stream = true;
	is_socket = S_ISSOCK(st.st_mode);
	if (is_socket)
		return;
	fd = open("/proc/self/fd/2", O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0)
		log_fd = fd;
}

/* One write: lines of several threads do not mix. */
static bool put(const char *line, size_t len)
{
	struct pollfd p = { .fd = log_fd, .events = POLLOUT };

	if (is_socket)
		return send(log_fd, line, len, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
	/* Where it could not be opened anew, the next best: there is room now. */
	if (is_stream && log_fd == STDERR_FILENO && poll(&p, 1, 0) != 1)
		return false;
	return write(log_fd, line, len) >= 0;
}

static size_t put_prefix(char *line, size_t size, enum log_level level)
{
	struct timespec now;
	struct tm tm;
	size_t len;

	if (getenv("JOURNAL_STREAM"))
		return snprintf(line, size, "<%d>", journal_priority[level]);
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	len = strftime(line, size, "time=%Y-%m-%dT%H:%M:%S", &tm);
	return len + snprintf(line + len, size - len, ".%03ldZ level=%s ", now.tv_nsec / 1000000,
			      level_names[level]);
}

__attribute__((format(printf, 3, 0)))
static void write_line(enum log_level level, const char *event, const char *format, va_list args)
{
	char line[2048];
	size_t len = put_prefix(line, sizeof(line), level);

	len += snprintf(line + len, sizeof(line) - len, "event=%s ", event);
	len += vsnprintf(line + len, sizeof(line) - len, format, args);
	if (len > sizeof(line) - 1)
		len = sizeof(line) - 1;
	line[len++] = '\n';
	if (!put(line, len))
		lost++;
}

__attribute__((format(printf, 1, 2)))
static void write_lost(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	write_line(LOG_LEVEL_WARN, "log-lost", format, args);
	va_end(args);
}

/* Before the line after them. If this one is lost too, they all are. */
static void tell_lost(void)
{
	unsigned int n = atomic_load(&lost) ? atomic_exchange(&lost, 0) : 0;

	if (!n)
		return;
	write_lost("lines=%u", n);
	/* This one was lost too: it is no line of theirs. */
	if (atomic_load(&lost))
		lost += n - 1;
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
	va_list args;

	if (level > threshold)
		return;
	tell_lost();
	va_start(args, format);
	write_line(level, event, format, args);
	va_end(args);
}

void log_client(const char *event, const char *format, ...)
{
	static unsigned int lines, suppressed;
	static time_t second;
	time_t now = time(NULL);
	unsigned int report = 0;
	va_list args;
	int quiet;

	if (threshold < LOG_LEVEL_INFO)
		return;
	pthread_mutex_lock(&rate_lock);
	if (now != second) {
		report = suppressed;
		suppressed = lines = 0;
		second = now;
	}
	quiet = lines >= LOG_CLIENT_RATE;
	if (quiet)
		suppressed++;
	else
		lines++;
	pthread_mutex_unlock(&rate_lock);

	if (report)
		log_event(LOG_LEVEL_WARN, "log-suppressed", "lines=%u", report);
	if (quiet)
		return;
	tell_lost();
	va_start(args, format);
	write_line(LOG_LEVEL_INFO, event, format, args);
	va_end(args);
}

char *log_printable(char *text)
{
	char *at;

	for (at = text; *at; at++)
		if ((unsigned char)*at < ' ' || (unsigned char)*at > '~')
			*at = '?';
	return text;
}

const char *log_quote(const char *text, size_t len, char *out, size_t size)
{
	size_t at = 0, i;

	out[at++] = '"';
	for (i = 0; i < len && at + 6 < size; i++) {
		unsigned char c = text[i];

		if (c == '"' || c == '\\')
			at += sprintf(out + at, "\\%c", c);
		else if (c < ' ' || c > '~')
			at += sprintf(out + at, "\\x%02x", c);
		else
			out[at++] = c;
	}
	out[at++] = '"';
	out[at] = '\0';
	return out;
}
