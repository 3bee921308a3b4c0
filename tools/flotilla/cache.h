/* SPDX-License-Identifier: GPL-2.0 */
/* What "flotilla afpa" and "flotilla cache" share. */
#ifndef FLOTILLA_CLI_CACHE_H
#define FLOTILLA_CLI_CACHE_H

#include <afpa.h>
#include "cli.h"

/**
 * struct cache_url - an object as it is typed: http://HOST[:PORT]/PATH, or without "http://"
 * @host: "*" for any
 * @port: 80 if none is given
 * @path: with its query
 */
struct cache_url {
	char host[AFPA_HOST_MAX + 1];
	uint16_t port;
	const char *path;
};

/* flotilla afpa log */
int afpa_log_command(struct cli *cli, int argc, char **argv);

/* A descriptor; negative after saying why there is none. */
int cache_device(struct cli *cli);
/* CLI_OK, or CLI_FAILED after a sentence on what an errno of the device means. */
int cache_result(struct cli *cli, int err);

/* ADDRESS:PORT or [ADDRESS6]:PORT. Each says what is wrong with @text: CLI_USAGE; or 0. */
int value_site(struct cli *cli, const char *text, struct afpa_site *site);
int value_url(struct cli *cli, const char *text, struct cache_url *url);
/* Seconds of an Age: 0, 5s, 3m, 2h, 1d. */
int value_age(struct cli *cli, const char *text, uint32_t *seconds);
int value_ticket(struct cli *cli, const char *text, uint64_t *ticket);
/* 10ms, 5s, 5 (seconds), 3m, 2h, 1d; "never" is 0. In milliseconds. */
int value_time(struct cli *cli, const char *what, const char *text, uint32_t *ms);
/* 4096, 64K, 3M, 2G. */
int value_bytes(struct cli *cli, const char *what, const char *text, uint64_t *bytes);

void human_bytes(const json_t *value, char *text, size_t size);
/* As human_duration(), but that 0 is "never". */
void human_life(const json_t *value, char *text, size_t size);
/* Seconds, or null. */
void human_age(const json_t *value, char *text, size_t size);

/**
 * struct cache_body - what is read of a file or of standard input
 * @bytes: malloc()
 */
struct cache_body {
	char *bytes;
	size_t len;
};

/* CLI_OK, or CLI_FAILED after saying why; at most @max bytes. "-": standard input. */
int cache_read(struct cli *cli, const char *file, uint64_t max, struct cache_body *body);

/* By the suffix of a file or a path; NULL: not known. */
const char *cache_type(const char *name);

/* Lines of further headers, in the form that the device takes. CLI_USAGE after a sentence. */
int cache_header(struct cli *cli, const char *line, char headers[AFPA_HEADERS_MAX + 1]);
/* One more word of them. CLI_USAGE after a sentence. */
int cache_tag(struct cli *cli, const char *tag, char tags[AFPA_TAGS_MAX + 1]);

#endif
