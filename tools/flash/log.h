/* SPDX-License-Identifier: GPL-2.0 */
/* Access log: Combined or one JSON object a line. Written by a helper, never by the loop. */
#ifndef FLASH_LOG_H
#define FLASH_LOG_H

#include "conn.h"

/*
 * In the master, before privileges are dropped: the file, if there is none, for the workers' user.
 * 0, or a negative errno.
 */
int log_prepare(const struct conf *conf, uid_t uid, gid_t gid);

struct log *log_open(struct worker *w);
void log_close(struct log *log);
/* Opens the file anew when @count differs from the last call (after rotation). */
void log_reopen(struct log *log, int count);

/* @req may be NULL when the head was not understood. */
void log_request(struct conn *c, const struct request *req, int status, uint64_t bytes);

/*
 * What does not print, and backslashes, become \xHH. Some bytes before @end it stops; returns where.
 */
char *log_escape(char *o, char *end, const struct slice *s);

/* For tests: one line into @out, with its LF. Returns its length. */
struct log_entry {
	const char *address;
	const struct request *req;	/* or NULL */
	int status;
	uint64_t bytes;
	long time;
};
size_t log_format_line(char *out, size_t size, unsigned int format, const struct log_entry *e);

#endif
