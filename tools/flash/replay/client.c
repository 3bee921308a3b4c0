// SPDX-License-Identifier: GPL-2.0
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>

void client_init(struct client *c, int epoll)
{
	memset(c, 0, sizeof(*c));
	c->fd = -1;
	c->epoll = epoll;
}

void client_hang_up(struct client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->busy = false;
	c->connecting = false;
	c->served = 0;
	free(c->out);
	c->out = NULL;
}

static enum client_event fail(struct client *c)
{
	client_hang_up(c);
	return CLIENT_FAILED;
}

static bool open_connection(struct client *c, const struct target_address *to)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c };
	int one = 1;

	c->fd = socket(to->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return false;
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(c->fd, (const struct sockaddr *)&to->addr, to->len) && errno != EINPROGRESS)
		return false;
	c->connecting = true;
	return !epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->fd, &ev);
}

enum client_event client_begin(struct client *c, const struct target_address *to, const char *path,
			       uint64_t now)
{
	int n;

	c->started = now;
	c->busy = true;
	c->in_body = false;
	c->head_len = 0;
	c->body = 0;
	c->out_off = 0;
	c->closing = to->keep && c->served + 1 >= to->keep;
	free(c->out);
	n = asprintf(&c->out, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", path, to->host,
		     c->closing ? "Connection: close\r\n" : "");
	if (n < 0) {
		c->out = NULL;
		return fail(c);
	}
	c->out_len = n;
	c->fresh = c->fd < 0;
	if (c->fresh && !open_connection(c, to))
		return fail(c);
	return client_ready(c);
}

/* Value of a header field, or NULL. @head ends in NUL. */
static const char *field(const char *head, const char *name)
{
	size_t len = strlen(name);
	const char *p = head;

	while ((p = strstr(p, "\r\n"))) {
		p += 2;
		if (!strncasecmp(p, name, len) && p[len] == ':')
			return p + len + 1 + strspn(p + len + 1, " \t");
	}
	return NULL;
}

/* Return: false when it is no answer. */
static bool parse_head(struct client *c, const char *body)
{
	const char *length, *connection;
	size_t rest = c->head + c->head_len - body;
	char keep = *body;

	c->head[body - c->head] = '\0';
	if (sscanf(c->head, "HTTP/1.%*d %d", &c->status) != 1)
		return false;
	length = field(c->head, "content-length");
	connection = field(c->head, "connection");
	if (connection && !strncasecmp(connection, "close", 5))
		c->closing = true;
	c->left = length ? atoll(length) : c->status == 304 || c->status == 204 ? 0 : -1;
	c->head[body - c->head] = keep;
	c->in_body = true;
	if (c->left >= 0 && rest > (uint64_t)c->left)
		return false;
	c->body = rest;
	if (c->left >= 0)
		c->left -= rest;
	return true;
}

static enum client_event answered(struct client *c)
{
	c->busy = false;
	c->served++;
	if (c->closing || c->left < 0)
		client_hang_up(c);
	return CLIENT_ANSWERED;
}

static enum client_event receive(struct client *c)
{
	static char scratch[256 << 10];
	ssize_t n;
	char *end;

	for (;;) {
		if (c->in_body)
			n = recv(c->fd, scratch, sizeof(scratch), 0);
		else
			n = recv(c->fd, c->head + c->head_len, HEAD_MAX - c->head_len, 0);
		if (n < 0 && errno == EAGAIN)
			return CLIENT_GOES_ON;
		if (!n && c->in_body && c->left < 0)
			return answered(c);
		if (n <= 0)
			return fail(c);
		if (c->in_body) {
			if (c->left >= 0 && n > c->left)
				return fail(c);
			c->body += n;
			if (c->left >= 0)
				c->left -= n;
		} else {
			c->head_len += n;
			c->head[c->head_len] = '\0';
			end = strstr(c->head, "\r\n\r\n");
			if (!end && c->head_len == HEAD_MAX)
				return fail(c);
			if (end && !parse_head(c, end + 4))
				return fail(c);
		}
		if (c->in_body && !c->left)
			return answered(c);
	}
}

enum client_event client_ready(struct client *c)
{
	ssize_t n;

	if (!c->busy) {
		char byte;

		/* The server may have ended a kept connection, or say too much. */
		if (recv(c->fd, &byte, 1, MSG_PEEK) >= 0 || errno != EAGAIN)
			client_hang_up(c);
		return CLIENT_GOES_ON;
	}
	while (c->out_off < c->out_len) {
		n = send(c->fd, c->out + c->out_off, c->out_len - c->out_off, MSG_NOSIGNAL);
		if (n < 0 && (errno == EAGAIN || errno == ENOTCONN || errno == EALREADY))
			return CLIENT_GOES_ON;
		if (n < 0)
			return fail(c);
		c->connecting = false;
		c->out_off += n;
	}
	return receive(c);
}
