/* SPDX-License-Identifier: GPL-2.0 */
/* Structured log: one line an event, `key=value`, values with spaces quoted. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stddef.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_set_level(enum log_level level);
/*
 * Nobody waits for who reads the log: what a pipe, terminal or socket does not take at once is lost,
 * and counted in the next line. At start, with the rights that standard error was opened with.
 */
void log_start(void);
/* -EINVAL: not the name of a level. */
int log_parse_level(const char *name, enum log_level *level);

/* @event: a stable word; the rest: "node=%s port=%u". */
__attribute__((format(printf, 3, 4)))
void log_event(enum log_level level, const char *event, const char *format, ...);

/* What strangers can cause at will; at most LOG_CLIENT_RATE lines a second, the rest counted. */
#define LOG_CLIENT_RATE 100
__attribute__((format(printf, 2, 3)))
void log_client(const char *event, const char *format, ...);

/* In place, for a terminal: what is not printable becomes a question mark. */
char *log_printable(char *text);
/* Text of a stranger as a quoted value, shortened to fit; returns @out. */
const char *log_quote(const char *text, size_t len, char *out, size_t size);

#define log_error(...) log_event(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_event(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_event(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_event(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
