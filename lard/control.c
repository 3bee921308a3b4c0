// SPDX-License-Identifier: GPL-2.0
/* The control socket's connections; answer.c has what they ask for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "control.h"
#include "lardd.h"
#include "takeover.h"
#include "worker.h"

#define CLIENTS_MAX 64

struct control {
	struct source source;
	struct lardd *lardd;
	struct list clients;
	unsigned int count;
	char path[108];
	ino_t inode;
};

/**
 * struct client - one connection
 * @in:  bytes of a request without its newline yet
 * @out: answers not written yet, @out_len bytes from @out_start on
 */
struct client {
	struct source source;
	struct list link;
	struct control *control;
	size_t in_len;
	char *out;
	size_t out_start, out_len;
	char in[CONTROL_LINE_MAX];
};

static struct loop *loop_of(struct control *control)
{
	return &control->lardd->worker[0]->loop;
}

static void client_bury(struct source *s)
{
	struct client *client = container_of(s, struct client, source);

	free(client->out);
	free(client);
}

static void client_close(struct client *client)
{
	list_del(&client->link);
	client->control->count--;
	loop_bury(loop_of(client->control), &client->source, client_bury);
}

/* False: closed. */
static bool write_out(struct client *client)
{
	while (client->out_len) {
		ssize_t n = send(client->source.fd, client->out + client->out_start,
				 client->out_len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n < 0) {
			client_close(client);
			return false;
		}
		client->out_start += n;
		client->out_len -= n;
	}
	free(client->out);
	client->out = NULL;
	client->out_start = 0;
	return true;
}

/* The sockets go with the first bytes of the answer; without them there is no handover. */
static void hand_over(struct client *client)
{
	struct lardd *lardd = client->control->lardd;
	int fds[TAKEOVER_MAX];
	size_t count;
	char *answer = control_handover(lardd, fds, TAKEOVER_MAX, &count);

	if (answer && !takeover_send(client->source.fd, answer, fds, count))
		lardd_stop(lardd);
	free(answer);
}

static void answer_line(struct client *client, const char *line, size_t len)
{
	static const char handover[] = "{\"cmd\":\"handover\"}";
	char *answer;

	if (len == sizeof(handover) - 1 && !memcmp(line, handover, len)) {
		hand_over(client);
		return;
	}
	answer = control_answer(client->control->lardd, line, len);
	if (!answer)
		return;
	client->out = answer;
	client->out_start = 0;
	client->out_len = strlen(answer);
	client->out[client->out_len++] = '\n';	/* in place of the NUL */
}

/* One request after another; the next is looked at when the last answer is out. */
static void client_ready(struct source *s, uint32_t events)
{
	struct client *client = container_of(s, struct client, source);
	char *newline;
	ssize_t n;

	(void)events;
	for (;;) {
		if (!write_out(client) || client->out_len)
			return;
		newline = memchr(client->in, '\n', client->in_len);
		if (newline) {
			size_t used = newline + 1 - client->in;

			answer_line(client, client->in, used - 1);
			client->in_len -= used;
			memmove(client->in, newline + 1, client->in_len);
			continue;
		}
		n = client->in_len == sizeof(client->in) ? 0 :
		    recv(s->fd, client->in + client->in_len, sizeof(client->in) - client->in_len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			client_close(client);
			return;
		}
		client->in_len += n;
	}
}

static void control_ready(struct source *s, uint32_t events)
{
	struct control *control = container_of(s, struct control, source);
	struct client *client;
	int fd;

	(void)events;
	fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		return;
	client = control->count < CLIENTS_MAX ? calloc(1, sizeof(*client)) : NULL;
	if (!client) {
		close(fd);
		return;
	}
	client->source = (struct source){ .fd = fd, .ready = client_ready };
	client->control = control;
	if (loop_add(loop_of(control), &client->source, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)) {
		close(fd);
		free(client);
		return;
	}
	list_add_before(&control->clients, &client->link);
	control->count++;
}

static ino_t inode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : st.st_ino;
}

static bool is_answered(const struct sockaddr_un *addr)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool answered = fd >= 0 && !connect(fd, (const struct sockaddr *)addr, sizeof(*addr));

	if (fd >= 0)
		close(fd);
	return answered;
}

/*
 * Under another name first, so that whoever finds the socket can connect and finds its mode right.
 * One that nobody answers on is left over from a crash and is replaced.
 */
static int bind_socket(int fd, const struct sockaddr_un *addr, unsigned int mode, bool replace)
{
	char directory[sizeof(addr->sun_path)], *slash;
	struct sockaddr_un fresh = *addr;

	if (!replace && is_answered(addr))
		return -EADDRINUSE;
	if (strlen(addr->sun_path) + 5 > sizeof(fresh.sun_path))
		return -ENAMETOOLONG;
	strcat(fresh.sun_path, ".new");
	strcpy(directory, addr->sun_path);
	slash = strrchr(directory, '/');
	if (slash && slash != directory) {
		*slash = '\0';
		mkdir(directory, 0755);
	}
	unlink(fresh.sun_path);
	if (bind(fd, (const struct sockaddr *)&fresh, sizeof(fresh)) ||
	    chmod(fresh.sun_path, mode) || listen(fd, 16) ||
	    rename(fresh.sun_path, addr->sun_path))
		return -errno;
	return 0;
}

struct control *control_open(struct lardd *lardd, const char *path, unsigned int mode, bool replace,
			     char *error, size_t size)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct control *control = calloc(1, sizeof(*control));
	int fd = -1, err;

	if (!control) {
		snprintf(error, size, "no memory");
		return NULL;
	}
	strcpy(addr.sun_path, path);
	strcpy(control->path, path);
	control->lardd = lardd;
	list_init(&control->clients);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	err = fd < 0 ? -errno : bind_socket(fd, &addr, mode, replace);
	if (!err) {
		control->source = (struct source){ .fd = fd, .ready = control_ready };
		err = loop_add(loop_of(control), &control->source, EPOLLIN);
	}
	if (err) {
		snprintf(error, size, "cannot listen on %s: %s", path, err == -EADDRINUSE ?
			 "another lardd answers there" : strerror(-err));
		if (fd >= 0)
			close(fd);
		free(control);
		return NULL;
	}
	control->inode = inode_of(path);
	return control;
}

void control_close(struct control *control)
{
	if (!control)
		return;
	while (!list_empty(&control->clients))
		client_close(container_of(control->clients.next, struct client, link));
	close(control->source.fd);
	/* Not if a successor's is there by now. */
	if (inode_of(control->path) == control->inode)
		unlink(control->path);
	free(control);
}
