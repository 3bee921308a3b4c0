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
#include "page.h"
#include "status.h"
#include "takeover.h"
#include "tools/base/log.h"
#include "visitor.h"
#include "worker.h"

#define CLIENTS_MAX 64
#define BATCH 16	/* requests of one client before others have their turn */

/*
 * @starter: whom the process was when it was started; he may change what it does, and so may root
 * @unknown: what the kernel calls everybody who has no number in this user namespace
 */
struct control {
	struct service service;
	struct lardd *lardd;
	uid_t starter, unknown;
	char path[108], fresh[108];	/* where it will be, and is until then */
	bool published;
	ino_t inode;
};

/**
 * struct client - one connection
 * @in:         bytes of a request without its newline yet
 * @handed_over: it has got the sockets: nobody else gets them while it is there
 */
struct client {
	struct visitor visitor;
	bool handed_over;
	size_t in_len;
	char in[CONTROL_LINE_MAX];
};

static struct control *control_of(struct client *client)
{
	return container_of(client->visitor.service, struct control, service);
}

/* Somebody else has the sockets, and may say that it serves. */
static bool has_rival(struct client *client)
{
	const struct list *visitors = &client->visitor.service->visitors, *at;

	for (at = visitors->next; at != visitors; at = at->next) {
		const struct client *other = container_of(at, struct client, visitor.link);

		if (other != client && other->handed_over)
			return true;
	}
	return false;
}

/*
 * The sockets go with the first bytes of the answer; without them there is no handover. To one at a time:
 * two successors would both serve on. An answer goes to who gets none.
 */
static char *hand_over(struct client *client)
{
	struct lardd *lardd = control_of(client)->lardd;
	int fds[TAKEOVER_MAX];
	size_t count;
	char *answer;

	if (lardd->stopping)
		return strdup("{\"error\":\"lardd is stopping\"}");
	if (has_rival(client))
		return strdup("{\"error\":\"another lardd is taking over\"}");
	answer = control_handover(lardd, fds, TAKEOVER_MAX, &count);
	client->handed_over = answer &&
			      !takeover_send(client->visitor.source.fd, answer, fds, count);
	client->visitor.stays = client->handed_over;
	if (!client->handed_over) {
		log_error("handover", "text=\"the sockets could not be sent\"");
		shutdown(client->visitor.source.fd, SHUT_RDWR);
	}
	free(answer);
	return NULL;
}

/* Only the one that has the sockets can say so, and it only once. */
static char *taken(struct client *client)
{
	struct lardd *lardd = control_of(client)->lardd;

	if (!client->handed_over)
		return strdup("{\"error\":\"nothing was handed over on this connection\"}");
	client->handed_over = false;
	client->visitor.stays = false;
	if (!lardd->stopping) {
		/* The successor answers there now. */
		pages_deafen(lardd->metrics);
		pages_deafen(status_pages(lardd->status));
		kernel_cache_give_away(lardd->kernel);
		lardd_stop(lardd);
	}
	return strdup("{\"stopping\":true}");
}

/*
 * Whoever may open the socket may look. Who changes something, or takes the sockets, is root or who
 * started lardd: the kernel says who connected. Where it says @unknown that may be anybody, even
 * if who started lardd is called so, too.
 */
static bool may_change(struct client *client)
{
	const struct control *control = control_of(client);
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(client->visitor.source.fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		return false;
	return !peer.uid || (peer.uid == control->starter && peer.uid != control->unknown);
}

uid_t control_unknown_uid(void)
{
	FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");
	unsigned int uid = 65534;

	if (file) {
		if (fscanf(file, "%u", &uid) != 1)
			uid = 65534;
		fclose(file);
	}
	return uid;
}

static void answer_line(struct client *client, const char *line, size_t len)
{
	static const char handover[] = "{\"cmd\":\"handover\"}", done[] = "{\"cmd\":\"taken\"}";
	bool entitled = may_change(client);
	char *answer;

	if (entitled && len == sizeof(handover) - 1 && !memcmp(line, handover, len)) {
		answer = hand_over(client);
		if (!answer)
			return;
	} else if (entitled && len == sizeof(done) - 1 && !memcmp(line, done, len)) {
		answer = taken(client);
	} else {
		answer = control_answer(control_of(client)->lardd, line, len, entitled);
	}
	/* Rather no connection than one that waits for what does not come. */
	if (!answer)
		shutdown(client->visitor.source.fd, SHUT_RDWR);
	if (!answer)
		return;
	client->visitor.out = answer;
	client->visitor.out_len = strlen(answer) + 1;
	answer[client->visitor.out_len - 1] = '\n';	/* in place of the NUL */
}

/* One request after another; the next is looked at when the last answer is out. */
static void client_ready(struct source *s, uint32_t events)
{
	struct client *client = container_of(s, struct client, visitor.source);
	unsigned int answered = 0;
	char *newline;
	ssize_t n;

	(void)events;
	for (;;) {
		if (visitor_write(&client->visitor) <= 0)
			return;
		newline = memchr(client->in, '\n', client->in_len);
		if (newline) {
			size_t used = newline + 1 - client->in;

			answer_line(client, client->in, used - 1);
			client->in_len -= used;
			memmove(client->in, newline + 1, client->in_len);
			if (++answered < BATCH)
				continue;
			loop_again(control_of(client)->service.loop, s);
			return;
		}
		n = client->in_len == sizeof(client->in) ? 0 :
		    recv(s->fd, client->in + client->in_len, sizeof(client->in) - client->in_len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			visitor_close(&client->visitor);
			return;
		}
		client->in_len += n;
		visitor_heard(&client->visitor);
	}
}

static ino_t inode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : st.st_ino;
}

/* A full queue is somebody's, who may be frozen: it is not waited for. */
static bool is_answered(const struct sockaddr_un *addr)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	bool answered = fd >= 0 && (!connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) ||
				    errno == EAGAIN);

	if (fd >= 0)
		close(fd);
	return answered;
}

/* The file has the socket's mode from its first moment: no name is looked up again. No other thread runs yet. */
static int bind_with_mode(int fd, const struct sockaddr_un *addr, mode_t mode)
{
	mode_t before = umask(0);
	int err = fchmod(fd, mode) || bind(fd, (const struct sockaddr *)addr, sizeof(*addr)) ? -errno : 0;

	umask(before);
	return err;
}

/*
 * Under another name first, so that whoever finds the socket can connect and finds its mode right.
 * One that nobody answers on is left over from a crash and is replaced.
 */
static int bind_socket(struct control *control, int fd, const struct sockaddr_un *addr,
		       unsigned int mode, bool replace)
{
	char directory[sizeof(addr->sun_path)], *slash;
	struct sockaddr_un fresh = *addr;
	int err;

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
	err = bind_with_mode(fd, &fresh, mode);
	if (err)
		return err;
	strcpy(control->fresh, fresh.sun_path);
	return service_open(&control->service, control->lardd->worker[0], fd);
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
	control->starter = getuid();
	control->unknown = control_unknown_uid();
	control->service.max = CLIENTS_MAX;
	control->service.size = sizeof(struct client);
	control->service.ready = client_ready;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	err = fd < 0 ? -errno : bind_socket(control, fd, &addr, mode, replace);
	if (err) {
		snprintf(error, size, "cannot listen on %s: %s", path, err == -EADDRINUSE ?
			 "another lardd answers there" : strerror(-err));
		if (fd >= 0)
			close(fd);
		free(control);
		return NULL;
	}
	control->inode = inode_of(control->fresh);
	return control;
}

int control_publish(struct control *control, char *error, size_t size)
{
	if (rename(control->fresh, control->path)) {
		int err = -errno;

		snprintf(error, size, "cannot listen on %s: %s", control->path, strerror(-err));
		return err;
	}
	control->published = true;
	return 0;
}

void control_close(struct control *control)
{
	const char *path;

	if (!control)
		return;
	path = control->published ? control->path : control->fresh;
	service_close(&control->service);
	/* Not if a successor's is there by now. */
	if (inode_of(path) == control->inode)
		unlink(path);
	free(control);
}
