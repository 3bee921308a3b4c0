// SPDX-License-Identifier: GPL-2.0
/* flotilla afpa log: the requests that the kernel has answered, as others' access logs have them. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>
#include "cache.h"

#define BUFFER_DEFAULT	(1U << 20)
#define READ_ROOM	(1U << 16)
/* Each byte may become "\x41". */
#define TEXT_ROOM	(4 * AFPA_LOG_REQUEST + 1)

struct span {
	const char *at;
	size_t len;
};

/* A part of the request in a form that has no quotes, no control characters and no byte above 0x7e. */
static const char *escaped(struct span span, char text[TEXT_ROOM])
{
	char *to = text;
	size_t i;

	for (i = 0; i < span.len; i++) {
		unsigned char c = span.at[i];

		if (c == '"' || c == '\\')
			to += sprintf(to, "\\%c", c);
		else if (c < ' ' || c > 0x7e)
			to += sprintf(to, "\\x%02x", c);
		else
			*to++ = c;
	}
	*to = '\0';
	return text;
}

/* The kernel has taken the head for sound; its end may be cut off. */
static struct span line_of(struct span *rest)
{
	const char *end = memmem(rest->at, rest->len, "\r\n", 2);
	struct span line = { rest->at, end ? (size_t)(end - rest->at) : rest->len };
	size_t taken = end ? line.len + 2 : line.len;

	rest->at += taken;
	rest->len -= taken;
	return line;
}

static struct span field(struct span rest, const char *name)
{
	size_t len = strlen(name);

	line_of(&rest);
	while (rest.len) {
		struct span line = line_of(&rest);

		if (!rest.len)		/* the empty one, or cut off */
			break;
		if (line.len <= len || line.at[len] != ':' || strncasecmp(line.at, name, len))
			continue;
		line.at += len + 1;
		line.len -= len + 1;
		while (line.len && isblank((unsigned char)line.at[0])) {
			line.at++;
			line.len--;
		}
		while (line.len && isblank((unsigned char)line.at[line.len - 1]))
			line.len--;
		return line;
	}
	return (struct span){ NULL, 0 };
}

static const char *address(const struct afpa_record *rec, char text[INET6_ADDRSTRLEN])
{
	return inet_ntop(rec->family, rec->addr, text, INET6_ADDRSTRLEN) ? text : "-";
}

static void print_combined(const struct afpa_record *rec, struct span request)
{
	char client[INET6_ADDRSTRLEN], when[64], text[TEXT_ROOM], body[24] = "-";
	static const char *const quoted[] = { "Referer", "User-Agent" };
	struct span rest = request, part;
	time_t seconds = rec->time / 1000000000;
	struct tm tm;
	size_t i;

	strftime(when, sizeof(when), "%d/%b/%Y:%H:%M:%S %z", localtime_r(&seconds, &tm));
	if (rec->body)
		snprintf(body, sizeof(body), "%" PRIu64, (uint64_t)rec->body);
	printf("%s - - [%s] \"%s\" 200 %s", address(rec, client), when, escaped(line_of(&rest), text), body);
	for (i = 0; i < ARRAY_SIZE(quoted); i++) {
		part = field(request, quoted[i]);
		printf(" \"%s\"", part.at ? escaped(part, text) : "-");
	}
	putchar('\n');
}

/* What is no UTF-8 is escaped as in the other format. */
static void add_text(json_t *row, const char *name, struct span span)
{
	char text[TEXT_ROOM];
	json_t *value;

	if (!span.at)
		return;
	value = json_stringn(span.at, span.len);
	json_object_set_new(row, name, value ? value : json_string(escaped(span, text)));
}

static void print_json(const struct cli *cli, const struct afpa_record *rec, struct span request)
{
	static const char *const fields[][2] = {
		{ "host", "Host" }, { "referer", "Referer" }, { "user_agent", "User-Agent" },
	};
	char client[INET6_ADDRSTRLEN];
	struct span rest = request;
	json_t *row;
	size_t i;

	row = json_pack("{s:f, s:s, s:i, s:i, s:i, s:I, s:I, s:I}", "time", rec->time / 1e9,
			"client", address(rec, client), "port", ntohs(rec->port), "site_port", ntohs(rec->site_port),
			"status", 200, "body", (json_int_t)rec->body, "bytes", (json_int_t)rec->bytes,
			"lost", (json_int_t)rec->lost);
	add_text(row, "request", line_of(&rest));
	for (i = 0; i < ARRAY_SIZE(fields); i++)
		add_text(row, fields[i][0], field(request, fields[i][1]));
	json_print(cli, row);
}

static void print_record(struct cli *cli, const struct afpa_record *rec)
{
	struct span request = { (const char *)(rec + 1), rec->request_len };
	char sentence[64];

	if (rec->lost) {
		snprintf(sentence, sizeof(sentence), "%u records were lost here", rec->lost);
		cli_warn(cli, sentence);
	}
	if (cli->json)
		print_json(cli, rec, request);
	else
		print_combined(rec, request);
}

/* Until @most records have been printed; 0: for ever. */
static int print_all(struct cli *cli, int dev, uint64_t most)
{
	/* A record each time the kernel wakes us would cost more than the answer: some come together. */
	static const struct timespec pause = { .tv_nsec = 20000000 };
	static _Alignas(struct afpa_record) char buf[READ_ROOM];
	const struct afpa_record *rec;
	uint64_t done = 0;
	ssize_t len;

	while (!most || done < most) {
		len = read(dev, buf, sizeof(buf));
		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0)
			return cli_fail(cli, "the log cannot be read: %s", strerror(errno));
		for (rec = NULL; (rec = afpa_record_next(buf, len, rec)) && (!most || done < most); done++)
			print_record(cli, rec);
		if (fflush(stdout) || ferror(stdout))
			return cli_fail(cli, "it cannot be written: %s", strerror(errno));
		/* Not while there is more than one read takes, or it would be lost meanwhile. */
		if ((size_t)len + sizeof(*rec) + AFPA_LOG_REQUEST <= sizeof(buf) && (!most || done < most))
			nanosleep(&pause, NULL);
	}
	return CLI_OK;
}

static int log_argument(struct cli *cli, const char *key, const char *value, uint64_t *buffer, uint64_t *most)
{
	if (!strcmp(key, "count"))
		return value_number(cli, key, value, 1, UINT32_MAX, most);
	if (strcmp(key, "buffer"))
		return cli_unknown(cli, key);
	if (value_bytes(cli, key, value, buffer))
		return CLI_USAGE;
	if (*buffer < AFPA_LOG_LEAST || *buffer > AFPA_LOG_MOST || *buffer & (*buffer - 1))
		return cli_usage(cli, "buffer %s is not 64K, 128K, 256K, and so on to 64M", value);
	return CLI_OK;
}

int afpa_log_command(struct cli *cli, int argc, char **argv)
{
	uint64_t buffer = BUFFER_DEFAULT, most = 0;
	int status = CLI_OK, dev, err;

	cli_doing(cli, "write the access log");
	for (; argc && !status; argc -= 2, argv += 2) {
		if (argc == 1)
			return cli_usage(cli, "%s needs a value", argv[0]);
		status = log_argument(cli, argv[0], argv[1], &buffer, &most);
	}
	if (status)
		return status;
	dev = cache_device(cli);
	if (dev < 0)
		return CLI_FAILED;
	err = afpa_log(dev, buffer);
	if (err == -EBUSY)
		status = cli_fail(cli, "another program does");
	else
		status = cache_result(cli, err);
	if (!status)
		status = print_all(cli, dev, most);
	close(dev);
	return status;
}
