// SPDX-License-Identifier: GPL-2.0
/* One question to lardd, and its answer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "dispatcher.h"

#define ANSWER_MAX	(1 << 20)

/* A connected descriptor, or -1 after saying why not. */
static int connect_lardd(struct cli *cli, const char *path, unsigned int seconds)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = seconds };
	int fd;

	if (strlen(path) >= sizeof(addr.sun_path)) {
		cli_usage(cli, "socket %s has too long a name", path);
		return -1;
	}
	strcpy(addr.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		cli_fail(cli, "no socket: %s", strerror(errno));
		return -1;
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (!connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		return fd;
	if (errno == ENOENT || errno == ECONNREFUSED)
		cli_fail(cli, "no dispatcher listens on %s (is lardd running here?)", path);
	else
		cli_fail(cli, "%s: %s", path, strerror(errno));
	close(fd);
	return -1;
}

static int send_line(int fd, const json_t *request)
{
	char *text = json_dumps(request, JSON_COMPACT);
	size_t len, done = 0;
	ssize_t n = 0;

	if (!text)
		return -ENOMEM;
	len = strlen(text);
	text[len++] = '\n';	/* in place of the NUL */
	while (done < len && n >= 0) {
		n = send(fd, text + done, len - done, MSG_NOSIGNAL);
		if (n > 0)
			done += n;
	}
	free(text);
	return n < 0 ? -errno : 0;
}

static time_t seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* Up to the end of one line, within @seconds; NULL with errno set. The text is to be freed. */
static char *receive_line(int fd, unsigned int seconds)
{
	time_t end = seconds_now() + seconds;
	size_t room = 4096, len = 0;
	char *text = malloc(room), *more;
	ssize_t n;

	while (text) {
		n = recv(fd, text + len, room - len - 1, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n > 0 && seconds_now() > end) {	/* a byte now and then */
			n = -1;
			errno = EAGAIN;
		}
		if (n <= 0)
			break;
		len += n;
		text[len] = '\0';
		if (memchr(text, '\n', len))
			return text;
		if (len < room - 1)
			continue;
		room *= 2;
		more = room <= ANSWER_MAX ? realloc(text, room) : NULL;
		if (!more) {
			n = -1;
			errno = EMSGSIZE;
			break;
		}
		text = more;
	}
	if (text && !n)
		errno = ECONNRESET;
	free(text);
	return NULL;
}

json_t *dispatcher_ask(struct cli *cli, const char *path, const json_t *request,
		       unsigned int seconds)
{
	json_error_t where;
	json_t *answer;
	char *line;
	int fd, err;

	fd = connect_lardd(cli, path, seconds);
	if (fd < 0)
		return NULL;
	err = send_line(fd, request);
	line = err ? NULL : receive_line(fd, seconds);
	if (!err && !line)
		err = -errno;
	close(fd);
	if (err == -EAGAIN)
		cli_fail(cli, "the dispatcher did not answer within %u seconds", seconds);
	else if (err)
		cli_fail(cli, "the dispatcher hung up: %s", strerror(-err));
	if (err)
		return NULL;
	answer = json_loads(line, 0, &where);
	free(line);
	if (!json_is_object(answer)) {
		json_decref(answer);
		cli_fail(cli, "the dispatcher's answer is not a JSON object");
		return NULL;
	}
	return answer;
}
