// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "http.h"

#define CONNECT_SECONDS	5L
#define ANSWER_MS	20000L
#define TOKEN_MAX	16384
#define REST_MS		5000
/* Of all headers and trailers of an answer; libcurl keeps them, and does not count the latter. */
#define HEADER_MAX	65536L
/* Between two looks at a watch on which something comes: it may be without end and never an event. */
#define PACE_MS		100

int http_check_url(struct cli *cli, const char *url)
{
	const char *host = !strncmp(url, "http://", 7) ? url + 7 : !strncmp(url, "https://", 8) ? url + 8 : NULL;

	if (!host || !host[0] || host[0] == '/')
		return cli_usage(cli, "%s is not http://HOST:PORT or https://HOST:PORT", url);
	if (host[strspn(host, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-:[]")])
		return cli_usage(cli, "%s has more than a host and a port", url);
	return CLI_OK;
}

int http_open(struct http *http, struct cli *cli, const struct access *access, const char *bearer)
{
	*http = (struct http){ .cli = cli, .access = access, .bearer = bearer, .answer_ms = ANSWER_MS };
	if (curl_global_init(CURL_GLOBAL_DEFAULT))
		return cli_fail(cli, "libcurl does not start");
	http->easy = curl_easy_init();
	http->watch = curl_easy_init();
	http->multi = curl_multi_init();
	return http->easy && http->watch && http->multi ? CLI_OK : cli_fail(cli, "out of memory");
}

static void end_watch(struct http *http)
{
	if (http->watching)
		curl_multi_remove_handle(http->multi, http->watch);
	http->watching = false;
}

void http_close(struct http *http)
{
	end_watch(http);
	curl_easy_cleanup(http->easy);
	curl_easy_cleanup(http->watch);
	if (http->multi)
		curl_multi_cleanup(http->multi);
	curl_slist_free_all(http->headers);
	curl_slist_free_all(http->watch_headers);
	free(http->text);
}

/* Read each time: Kubernetes changes it within the hour. */
static int add_token(struct http *http, const char *url, struct curl_slist **headers)
{
	char text[TOKEN_MAX], *header;
	struct curl_slist *list;
	ssize_t len;
	int fd;

	if (!http->bearer || !http->access->token)
		return CLI_OK;
	if (strncmp(url, "https://", 8))
		return cli_fail(http->cli, "a token goes by https only");
	fd = open(http->access->token, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (len < 0)
		return cli_fail(http->cli, "cannot read the token %s: %s", http->access->token, strerror(errno));
	text[len] = '\0';
	text[strcspn(text, "\r\n")] = '\0';
	if (!text[0] || asprintf(&header, "Authorization: %s%s", http->bearer, text) < 0)
		return cli_fail(http->cli, "the token %s is empty", http->access->token);
	list = curl_slist_append(*headers, header);
	explicit_bzero(text, sizeof(text));
	free(header);
	if (!list)
		return cli_fail(http->cli, "out of memory");
	*headers = list;
	return CLI_OK;
}

static size_t count_header(char *data, size_t size, size_t nr, void *arg)
{
	long *left = arg;

	(void)data;
	(void)size;
	*left -= nr;
	return *left < 0 ? 0 : nr;
}

static int set_up(struct http *http, CURL *easy, const char *url, const char *body)
{
	struct curl_slist **headers = easy == http->watch ? &http->watch_headers : &http->headers;
	long *left = easy == http->watch ? &http->watch_header_left : &http->header_left;
	const struct access *a = http->access;
	int status;

	*left = HEADER_MAX;
	curl_easy_reset(easy);
	curl_slist_free_all(*headers);
	*headers = curl_slist_append(NULL, "Content-Type: application/json");
	status = add_token(http, url, headers);
	if (status)
		return status;
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, *headers);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, count_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, left);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 15L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 5L);
	curl_easy_setopt(easy, CURLOPT_FAILONERROR, 0L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
	if (body)
		curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, body);
	/* Who is named is believed, and not everybody else whom the system believes besides. */
	if (a->ca) {
		curl_easy_setopt(easy, CURLOPT_CAINFO, a->ca);
		curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	}
	if (a->cert)
		curl_easy_setopt(easy, CURLOPT_SSLCERT, a->cert);
	if (a->key)
		curl_easy_setopt(easy, CURLOPT_SSLKEY, a->key);
	return CLI_OK;
}

/* What does not fit ends the transfer. */
static size_t keep(char *data, size_t size, size_t nr, void *arg)
{
	struct http *http = arg;

	(void)size;
	if (http->len + nr > ANSWER_MAX)
		return 0;
	memcpy(http->text + http->len, data, nr);
	http->len += nr;
	return nr;
}

static int fetch(struct http *http, const char *url, const char *body, long *code)
{
	CURLcode result;

	*code = 0;
	if (!http->text)
		http->text = malloc(ANSWER_MAX + 1);
	if (!http->text)
		return cli_fail(http->cli, "out of memory");
	http->len = 0;
	http->error[0] = '\0';
	if (set_up(http, http->easy, url, body))
		return CLI_FAILED;
	curl_easy_setopt(http->easy, CURLOPT_ERRORBUFFER, http->error);
	curl_easy_setopt(http->easy, CURLOPT_TIMEOUT_MS, http->answer_ms);
	curl_easy_setopt(http->easy, CURLOPT_WRITEFUNCTION, keep);
	curl_easy_setopt(http->easy, CURLOPT_WRITEDATA, http);
	result = curl_easy_perform(http->easy);
	curl_easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, code);
	if (http->header_left < 0) {
		*code = 0;
		return cli_fail(http->cli, "its header is longer than %ld bytes", HEADER_MAX);
	}
	if (result == CURLE_WRITE_ERROR)
		return cli_usage(http->cli, "its answer is longer than %d bytes", ANSWER_MAX);
	if (result) {
		*code = 0;
		return cli_fail(http->cli, "%s", http->error[0] ? http->error : curl_easy_strerror(result));
	}
	return CLI_OK;
}

/* Some servers say what they were asked, with the token. */
static bool has_token(const struct http *http)
{
	const struct curl_slist *header;
	const char *token;

	for (header = http->headers; header && http->bearer; header = header->next) {
		token = header->data + strlen("Authorization: ") + strlen(http->bearer);
		if (!strncmp(header->data, "Authorization: ", strlen("Authorization: ")) &&
		    memmem(http->text, http->len, token, strlen(token)))
			return true;
	}
	return false;
}

/* What goes with a status that is none of success, up to a length that a log has room for. */
static int say_status(struct http *http, long code)
{
	size_t len = has_token(http) ? 0 : http->len < 200 ? http->len : 200;

	return cli_fail(http->cli, "it answers %ld%s%.*s", code, len ? ": " : "", (int)len, http->text);
}

json_t *http_ask(struct http *http, const char *url, const char *body, long *code)
{
	json_error_t error;
	json_t *json;

	if (fetch(http, url, body, code))
		return NULL;
	json = json_loadb(http->text, http->len, JSON_REJECT_DUPLICATES, &error);
	if (!json && *code == 200)
		cli_usage(http->cli, "its answer is not JSON: %s", error.text);
	else if (*code != 200)
		say_status(http, *code);
	if (json && *code == 200)
		return json;
	json_decref(json);
	return NULL;
}

/* Whether @http->last has come, in one piece or in several. */
static bool is_last(struct http *http, const char *data, size_t nr)
{
	size_t len = http->last ? strlen(http->last) : 0, i;

	for (i = 0; i < nr && http->matched < len; i++)
		http->matched = data[i] == http->last[http->matched] ? http->matched + 1 : data[i] == http->last[0];
	return len && http->matched == len;
}

static size_t drop(char *data, size_t size, size_t nr, void *arg)
{
	struct http *http = arg;

	(void)size;
	http->came = true;
	return is_last(http, data, nr) ? 0 : nr;
}

void http_watch(struct http *http, const char *url, const char *body)
{
	if (http->watching)
		return;
	if (set_up(http, http->watch, url, body))
		return;
	http->matched = 0;
	curl_easy_setopt(http->watch, CURLOPT_WRITEFUNCTION, drop);
	curl_easy_setopt(http->watch, CURLOPT_WRITEDATA, http);
	http->watching = !curl_multi_add_handle(http->multi, http->watch);
}

static void take_end(struct http *http)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(http->multi, &left)))
		if (message->msg == CURLMSG_DONE)
			end_watch(http);
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

void http_wait(struct http *http, int ms)
{
	int64_t end = now_ms() + ms, left;
	bool watched = http->watching;
	int running, ready;

	http->came = false;
	while (http->watching && !http->came) {
		left = end - now_ms();
		if (left <= 0)
			return;
		curl_multi_perform(http->multi, &running);
		take_end(http);
		if (!http->watching || http->came)
			break;
		curl_multi_poll(http->multi, NULL, 0, left < 1000 ? left : 1000, &ready);
		if (ready)
			usleep(1000 * PACE_MS);
	}
	if (http->came)
		return;
	/* One that has ended is begun anew, but not all the time where somebody refuses it. */
	left = end - now_ms();
	if (watched && left > REST_MS)
		left = REST_MS;
	if (left > 0)
		usleep(1000 * left);
}
