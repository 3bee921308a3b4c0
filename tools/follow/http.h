/* SPDX-License-Identifier: GPL-2.0 */
/* Questions by HTTP, and a watch that only tells that something came. All bounded in time, bytes and rate. */
#ifndef FLOTILLA_FOLLOW_HTTP_H
#define FLOTILLA_FOLLOW_HTTP_H

#include <curl/curl.h>
#include "source.h"

/**
 * struct http - one server
 * @bearer: what stands before the token; NULL: no token is sent
 * @last:   after these bytes nothing more comes of a watch, although it does not end; or NULL
 * @matched: of them by now
 * @answer_ms: no answer is waited for longer; as long as nobody says otherwise 20 seconds
 * @header_left, @watch_header_left: bytes of headers and trailers that may still come
 */
struct http {
	struct cli *cli;
	const struct access *access;
	const char *bearer, *last;
	CURL *easy, *watch;
	CURLM *multi;
	struct curl_slist *headers, *watch_headers;
	char error[CURL_ERROR_SIZE];
	char *text;
	size_t len, matched;
	long answer_ms, header_left, watch_header_left;
	bool watching, came;
};

int http_open(struct http *http, struct cli *cli, const struct access *access, const char *bearer);
void http_close(struct http *http);
/* Scheme and what may stand in a URL; no name or password in it. */
int http_check_url(struct cli *cli, const char *url);

/*
 * The answer as JSON or NULL after saying why not; *@code is the status of HTTP, 0 without an answer. @body NULL: GET.
 */
json_t *http_ask(struct http *http, const char *url, const char *body, long *code);

/* Begins if there is none. */
void http_watch(struct http *http, const char *url, const char *body);
/* Until something comes, the watch ends, or @ms are over. */
void http_wait(struct http *http, int ms);
#endif
