/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One HTTP request, whose connection is standard input and output, as systemd gives it to a service of a socket
 * with Accept=yes. Nobody keeps the process for longer than STATS_HTTP_SECONDS.
 */
#ifndef FLOTILLA_STATS_HTTP_H
#define FLOTILLA_STATS_HTTP_H

#include <stddef.h>

#define STATS_HTTP_SECONDS	10
#define STATS_HTTP_OK		"200 OK"

/* Reads it; the status that it earns: STATS_HTTP_OK for GET and HEAD of /metrics. */
const char *stats_http_read(void);
/* @text NULL: none. */
void stats_http_answer(const char *status, const char *text, size_t len);

#endif
