// SPDX-License-Identifier: GPL-2.0
/* One HTTP request, whose connection is standard input and output. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "stats_http.h"

#define HEADER_MAX	8192

static bool is_head;

/* The header with its blank line, or nothing of use. False: it has no end. */
static bool read_header(char *text, size_t size)
{
	size_t len = 0;
	ssize_t n;

	do {
		n = read(STDIN_FILENO, text + len, size - 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		len += n;
		text[len] = '\0';
		if (strstr(text, "\r\n\r\n") || strstr(text, "\n\n"))
			return true;
	} while (len < size - 1);
	return false;
}

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

const char *stats_http_read(void)
{
	static char text[HEADER_MAX];
	const char *path;
	size_t len;

	/* Without a handler it ends the process. */
	alarm(STATS_HTTP_SECONDS);
	if (!read_header(text, sizeof(text)))
		return "400 Bad Request";
	is_head = begins(text, "HEAD ");
	if (!is_head && !begins(text, "GET "))
		return "405 Method Not Allowed";
	path = strchr(text, ' ') + 1;
	len = strcspn(path, " ?\r\n");
	if (len != strlen("/metrics") || !begins(path, "/metrics"))
		return "404 Not Found";
	return STATS_HTTP_OK;
}

void stats_http_answer(const char *status, const char *text, size_t len)
{
	printf("HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n%s"
	       "Content-Length: %zu\r\nConnection: close\r\n\r\n",
	       status, begins(status, "405") ? "Allow: GET, HEAD\r\n" : "", text ? len : 0);
	if (text && !is_head)
		fwrite(text, 1, len, stdout);
	fflush(stdout);
}
