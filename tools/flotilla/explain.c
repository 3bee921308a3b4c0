// SPDX-License-Identifier: GPL-2.0
/* flotilla explain: asks the dispatcher which node would serve a URL, and why. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include "cli.h"

#define LARDD_SOCKET	"/run/flotilla/lardd.sock"
#define ANSWER_MAX	(1 << 20)
#define ANSWER_SECONDS	5

/* A connected descriptor, or -1 after saying why not. */
static int connect_lardd(struct cli *cli, const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = ANSWER_SECONDS };
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

/* Up to the end of one line; NULL with errno set. The text is to be freed. */
static char *receive_line(int fd)
{
	size_t room = 4096, len = 0;
	char *text = malloc(room), *more;
	ssize_t n;

	while (text) {
		n = recv(fd, text + len, room - len - 1, 0);
		if (n < 0 && errno == EINTR)
			continue;
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

static json_t *ask(struct cli *cli, const char *path, const json_t *request)
{
	json_error_t where;
	json_t *answer;
	char *line;
	int fd, err;

	fd = connect_lardd(cli, path);
	if (fd < 0)
		return NULL;
	err = send_line(fd, request);
	line = err ? NULL : receive_line(fd);
	if (!err && !line)
		err = -errno;
	close(fd);
	if (err == -EAGAIN)
		cli_fail(cli, "the dispatcher did not answer within %d seconds", ANSWER_SECONDS);
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

static void print_scalar(const json_t *value)
{
	if (json_is_string(value))
		fputs(json_string_value(value), stdout);
	else
		json_dumpf(value, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
}

/* "key: value" lines; what is inside is indented. Lets the dispatcher say more than we know. */
static void print_lines(const json_t *object, int indent)
{
	const char *key;
	const json_t *value, *item;
	size_t i;

	json_object_foreach((json_t *)object, key, value) {
		printf("%*s%s:", indent, "", key);
		if (json_is_object(value)) {
			putchar('\n');
			print_lines(value, indent + 2);
			continue;
		}
		if (json_is_array(value) && json_is_object(json_array_get(value, 0))) {
			putchar('\n');
			json_array_foreach(value, i, item) {
				printf("%*s- ", indent + 2, "");
				print_lines(item, 0);
			}
			continue;
		}
		putchar(' ');
		if (json_is_array(value)) {
			json_array_foreach(value, i, item) {
				fputs(i ? ", " : "", stdout);
				print_scalar(item);
			}
		} else {
			print_scalar(value);
		}
		putchar('\n');
	}
}

static int explain(struct cli *cli, int argc, char **argv)
{
	const char *path = LARDD_SOCKET, *why;
	json_t *request, *answer;
	int status = CLI_OK;

	cli_doing(cli, "explain");
	if (!argc)
		return cli_usage(cli, "a URL is missing");
	cli_doing(cli, "explain %s", argv[0]);
	if (argc == 3 && !strcmp(argv[1], "socket"))
		path = argv[2];
	else if (argc > 1)
		return cli_unknown(cli, argv[1]);
	request = json_pack("{s:s, s:s}", "cmd", "explain", "url", argv[0]);
	if (!request)
		return cli_usage(cli, "it is not text in UTF-8");
	answer = ask(cli, path, request);
	json_decref(request);
	if (!answer)
		return CLI_FAILED;
	why = json_string_value(json_object_get(answer, "error"));
	if (why)
		status = cli_fail(cli, "%s", why);
	else if (cli->json)
		json_print(cli, json_incref(answer));
	else
		print_lines(answer, 0);
	json_decref(answer);
	return status;
}

static const struct command commands[] = {
	{ "", NULL, explain, "URL [socket PATH]",
	  "Ask the dispatcher on this machine which node would serve URL, and why" },
	{ 0 }
};

const struct object explain_object = {
	"explain", "which node would serve a URL, and why", commands, true, NULL,
};
