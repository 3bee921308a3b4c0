// SPDX-License-Identifier: GPL-2.0
/* What is said, on standard error and to systemd. */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "follow.h"

/* A sentence that is longer is somebody's who wants the disk. */
#define SENTENCE_MAX	600

static struct {
	const char *program, *source;
	bool json;
	char last[SENTENCE_MAX];
} log_state = { .program = "flotilla-follow" };

void log_start(const char *program, const char *source, bool json)
{
	log_state.program = program;
	log_state.source = source;
	log_state.json = json;
}

static const char *const names[] = { "error", "warn", "info" };
/* systemd takes it off again. */
static const char *const priorities[] = { "<3>", "<4>", "<6>" };

static void put_json(json_t *line)
{
	char now[40];
	time_t t = time(NULL);
	char *text;

	strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", gmtime(&t));
	if (!line)
		return;
	json_object_set_new(line, "time", json_string(now));
	if (log_state.source)
		json_object_set_new(line, "source", json_string(log_state.source));
	text = json_dumps(line, JSON_ENSURE_ASCII);
	fprintf(stderr, "%s\n", text ? text : "{}");
	free(text);
	json_decref(line);
}

static void put(enum level level, const char *sentence)
{
	if (log_state.json)
		put_json(json_pack("{s:s, s:s}", "level", names[level], "message", sentence));
	else
		fprintf(stderr, "%s%s: %s\n", getenv("JOURNAL_STREAM") ? priorities[level] : "", log_state.program, sentence);
}

/* Plain and not too long. */
static void trim(char *out, const char *sentence)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (to) {
		cli_plain(to, sentence);
		fclose(to);
	}
	snprintf(out, SENTENCE_MAX, "%s", text ? text : "out of memory");
	/* Not in the middle of a character. */
	if (text && strlen(text) >= SENTENCE_MAX)
		while (out[0] && (out[strlen(out) - 1] & 0x80))
			out[strlen(out) - 1] = '\0';
	free(text);
}

void log_say(enum level level, const char *format, ...)
{
	char *sentence, plain[SENTENCE_MAX];
	va_list args;

	va_start(args, format);
	if (vasprintf(&sentence, format, args) < 0)
		sentence = NULL;
	va_end(args);
	trim(plain, sentence ? sentence : "out of memory");
	free(sentence);
	put(level, plain);
}

void log_change(const char *sign, const char *what, const char *status)
{
	if (log_state.json)
		put_json(json_pack("{s:s, s:s, s:s, s:s, s:s}", "level", "info", "message", "node table", "change", sign,
				   "what", what, "status", status));
	else
		log_say(LEVEL_INFO, "%s %s%s%s", sign, what, strcmp(status, "done") ? ": " : "",
			strcmp(status, "done") ? status : "");
}

void log_error(const char *sentence)
{
	char plain[SENTENCE_MAX];

	trim(plain, sentence);
	if (!strcmp(plain, log_state.last))
		return;
	strcpy(log_state.last, plain);
	put(LEVEL_ERROR, plain);
}

void log_forget(void)
{
	log_state.last[0] = '\0';
}

void log_status(const char *format, ...)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path ? strlen(path) : 0;
	char status[SENTENCE_MAX], text[SENTENCE_MAX + 32];
	va_list args;
	int fd;

	if (!len || len >= sizeof(addr.sun_path) || (*path != '/' && *path != '@'))
		return;
	va_start(args, format);
	vsnprintf(status, sizeof(status), format, args);
	va_end(args);
	snprintf(text, sizeof(text), "READY=1\nSTATUS=%s", status);
	memcpy(addr.sun_path, path, len);
	if (*path == '@')
		addr.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&addr, offsetof(struct sockaddr_un, sun_path) + len);
	close(fd);
}
