// SPDX-License-Identifier: GPL-2.0
/* Structured log on stderr; under systemd with priorities instead of times. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "log.h"

static const char *const level_names[] = { "error", "warn", "info", "debug" };
static const int journal_priority[] = { 3, 4, 6, 7 };
static enum log_level threshold = LOG_LEVEL_INFO;

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
	/* One write: lines of several threads do not mix. A full log must not stop the service. */
	if (write(STDERR_FILENO, line, len) < 0)
		return;
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
	va_list args;

	if (level > threshold)
		return;
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
	va_start(args, format);
	write_line(LOG_LEVEL_INFO, event, format, args);
	va_end(args);
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
