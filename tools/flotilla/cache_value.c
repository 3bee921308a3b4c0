// SPDX-License-Identifier: GPL-2.0
/* Arguments of flotilla afpa and flotilla cache, and what the device says, in words. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include "kmod/afpa/request.h"
#include "cache.h"
#include "cache_job.h"

int cache_device(struct cli *cli)
{
	int dev;

	if (cli->remote)
		return cache_remote_device(cli);
	dev = afpa_open();
	if (dev == -ENOENT || dev == -ENXIO || dev == -ENODEV)
		cli_fail(cli, "afpa.ko is not loaded (modprobe afpa)");
	else if (dev < 0)
		cli_fail(cli, "%s cannot be opened: %s", AFPA_DEVICE, strerror(-dev));
	return dev;
}

int cache_result(struct cli *cli, int err)
{
	const char *why = cli->remote ? cache_remote_error(err) : NULL;

	if (why)
		return cli_fail(cli, "%s", why);
	switch (err) {
	case 0:
		return CLI_OK;
	case -EPERM:
		return cli_fail(cli, "it needs CAP_NET_ADMIN");
	case -ENOENT:
		return cli_fail(cli, "there is none");
	case -EFBIG:
		return cli_fail(cli, "it is larger than max_object (flotilla afpa show)");
	case -ENOSPC:
		return cli_fail(cli, "it does not fit into the budget (flotilla afpa show)");
	case -ESTALE:
		return cli_fail(cli, "it was changed, deleted or banned after that ticket");
	case -EINVAL:
		return cli_fail(cli, "the kernel does not take a value of it");
	default:
		return cli_fail(cli, "%s", strerror(-err));
	}
}

int value_site(struct cli *cli, const char *text, struct afpa_site *site)
{
	struct sockaddr_storage address;
	int status = value_service(cli, text, &address);

	if (status)
		return status;
	if (afpa_site_of(site, (struct sockaddr *)&address))
		return cli_usage(cli, "site %s has no port", text);
	return 0;
}

/* "*" stands for any host, and may have a port, too. */
static size_t host_length(const char *host, size_t len, uint16_t *port)
{
	char text[AFPA_HOST_MAX + sizeof(":65535")];

	if (!len || len >= sizeof(text))
		return 0;
	memcpy(text, host, len);
	if (text[0] == '*' && (len == 1 || text[1] == ':'))
		text[0] = 'x';
	return afpa_host_length(text, len, port);
}

/* Judged by the kernel's own rules, so that a sentence can say which one it is. */
int value_url(struct cli *cli, const char *text, struct cache_url *url)
{
	static const char scheme[] = "http://";
	const char *host = text;
	size_t len, name;

	url->port = 0;
	if (!strncasecmp(text, scheme, sizeof(scheme) - 1))
		host += sizeof(scheme) - 1;
	else if (strstr(text, "://"))
		return cli_usage(cli, "%s does not begin with http://", text);
	len = strcspn(host, "/?#");
	url->path = host + len;
	if (*url->path != '/')
		return cli_usage(cli, "%s has no path", text);
	if (strlen(url->path) > AFPA_PATH_MAX || !afpa_path_is_sound(url->path, strlen(url->path)))
		return cli_usage(cli, "the path of %s is not encoded as in requests, has a segment of dots, or is too long",
				 text);
	name = host_length(host, len, &url->port);
	if (!name)
		return cli_usage(cli, "the host of %s is not a name or an address", text);
	snprintf(url->host, sizeof(url->host), "%.*s", (int)name, host);
	return 0;
}

int value_ticket(struct cli *cli, const char *text, uint64_t *ticket)
{
	char *end;

	errno = 0;
	*ticket = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)text[0]) || *end || errno || !*ticket)
		return cli_usage(cli, "%s is not a ticket", text);
	return 0;
}

int cache_tag(struct cli *cli, const char *tag, char tags[AFPA_TAGS_MAX + 1])
{
	size_t have = strlen(tags), i;

	if (!tag[0])
		return cli_usage(cli, "a tag is empty");
	for (i = 0; tag[i]; i++)
		if ((unsigned char)tag[i] <= ' ' || tag[i] == 0x7f)
			return cli_usage(cli, "tag %s is not one word", tag);
	if (have + !!have + i > AFPA_TAGS_MAX)
		return cli_usage(cli, "the tags have more than %d bytes", AFPA_TAGS_MAX);
	sprintf(tags + have, "%s%s", have ? " " : "", tag);
	return 0;
}

/* A number and one of some units. */
static int value_unit(struct cli *cli, const char *what, const char *text, uint64_t max,
		      const char *const units[], const uint64_t factors[], const char *like,
		      uint64_t *out)
{
	unsigned long long number;
	unsigned int i;
	char *end;

	errno = 0;
	number = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)text[0]))
		return cli_usage(cli, "%s %s is not like %s", what, text, like);
	for (i = 0; units[i] && strcmp(end, units[i]); i++)
		;
	if (!units[i])
		return cli_usage(cli, "%s %s is not like %s", what, text, like);
	if (errno || number > max / factors[i])
		return cli_usage(cli, "%s %s is too much", what, text);
	*out = number * factors[i];
	return 0;
}

int value_time(struct cli *cli, const char *what, const char *text, uint32_t *ms)
{
	static const char *const units[] = { "", "ms", "s", "m", "h", "d", NULL };
	static const uint64_t factors[] = { 1000, 1, 1000, 60000, 3600000, 86400000 };
	uint64_t value;
	int status;

	*ms = 0;
	if (!strcmp(text, "never"))
		return 0;
	status = value_unit(cli, what, text, UINT32_MAX, units, factors,
			    "500ms, 30s, 10m, 2h, 1d or never", &value);
	if (!status && !value)
		return cli_usage(cli, "%s %s: what does not expire is \"never\"", what, text);
	*ms = value;
	return status;
}

int value_age(struct cli *cli, const char *text, uint32_t *seconds)
{
	static const char *const units[] = { "", "s", "m", "h", "d", NULL };
	static const uint64_t factors[] = { 1, 1, 60, 3600, 86400 };
	uint64_t value;
	int status = value_unit(cli, "age", text, AFPA_AGE_MAX, units, factors, "0, 30s, 10m, 2h or 1d", &value);

	*seconds = status ? 0 : value;
	return status;
}

int value_bytes(struct cli *cli, const char *what, const char *text, uint64_t *bytes)
{
	static const char *const units[] = { "", "K", "M", "G", "T", NULL };
	static const uint64_t factors[] = { 1, 1 << 10, 1 << 20, 1 << 30, 1ULL << 40 };

	return value_unit(cli, what, text, INT64_MAX, units, factors, "4096, 64K, 3M or 2G", bytes);
}

void human_bytes(const json_t *value, char *text, size_t size)
{
	static const char units[] = "KMGT";
	double bytes = json_integer_value(value);
	int unit = -1;

	while (bytes >= 10000 && unit < 3) {
		bytes /= 1024;
		unit++;
	}
	if (unit < 0)
		snprintf(text, size, "%.0f", bytes);
	else
		snprintf(text, size, bytes < 100 ? "%.1f%c" : "%.0f%c", bytes, units[unit]);
}

void human_life(const json_t *value, char *text, size_t size)
{
	if (json_integer_value(value))
		human_duration(value, text, size);
	else
		snprintf(text, size, "never");
}

void human_age(const json_t *value, char *text, size_t size)
{
	if (json_is_null(value))
		snprintf(text, size, "-");
	else
		snprintf(text, size, "%llds", (long long)json_integer_value(value));
}

int cache_read(struct cli *cli, const char *file, uint64_t max, struct cache_body *body)
{
	int fd = strcmp(file, "-") ? open(file, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
	size_t room = 65536, len = 0;
	char *bytes = NULL, *more;
	ssize_t n = 1;

	if (fd < 0)
		return cli_fail(cli, "%s cannot be read: %s", file, strerror(errno));
	while (n && len <= max) {
		if (!bytes || len == room) {
			room *= 2;
			more = realloc(bytes, room);
			if (!more) {
				n = -1;
				break;
			}
			bytes = more;
		}
		n = read(fd, bytes + len, room - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		len += n;
	}
	if (fd != STDIN_FILENO)
		close(fd);
	*body = (struct cache_body){ bytes, len };
	if (n < 0)
		return cli_fail(cli, "%s cannot be read: %s", file, strerror(errno));
	if (len > max)
		return cli_fail(cli, "%s is larger than max_object (flotilla afpa show)", file);
	return CLI_OK;
}

const char *cache_type(const char *name)
{
	static const char *const types[][2] = {
		{ "html", "text/html" }, { "htm", "text/html" }, { "css", "text/css" },
		{ "js", "text/javascript" }, { "mjs", "text/javascript" }, { "txt", "text/plain" },
		{ "csv", "text/csv" }, { "xml", "text/xml" }, { "json", "application/json" },
		{ "pdf", "application/pdf" }, { "wasm", "application/wasm" },
		{ "gif", "image/gif" }, { "png", "image/png" }, { "jpg", "image/jpeg" },
		{ "jpeg", "image/jpeg" }, { "webp", "image/webp" }, { "avif", "image/avif" },
		{ "svg", "image/svg+xml" }, { "ico", "image/vnd.microsoft.icon" },
		{ "woff", "font/woff" }, { "woff2", "font/woff2" }, { "ttf", "font/ttf" },
		{ "mp4", "video/mp4" }, { "webm", "video/webm" }, { "mp3", "audio/mpeg" },
	};
	size_t len = strcspn(name, "?"), i;
	const char *dot = name + len;

	while (dot > name && dot[-1] != '.' && dot[-1] != '/')
		dot--;
	if (dot == name || dot[-1] != '.')
		return NULL;
	len = name + len - dot;
	for (i = 0; i < ARRAY_SIZE(types); i++)
		if (strlen(types[i][0]) == len && !strncasecmp(dot, types[i][0], len))
			return types[i][1];
	return NULL;
}

int cache_header(struct cli *cli, const char *line, char headers[AFPA_HEADERS_MAX + 1])
{
	/* The kernel's own, and those that an answer for everybody cannot have. */
	static const char *const not[] = {
		"Connection", "Content-Length", "Content-Type", "Date", "Keep-Alive", "Set-Cookie",
		"Trailer", "Transfer-Encoding", "Upgrade", "Vary",
	};
	size_t name = strcspn(line, ": \t"), have = strlen(headers), i;

	if (!name || line[name] != ':')
		return cli_usage(cli, "header %s is not like 'Name: value'", line);
	for (i = 0; line[i]; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			return cli_usage(cli, "a header has a control character");
	if (name == strlen("Content-Type") && !strncasecmp(line, "Content-Type", name))
		return cli_usage(cli, "\"type\" gives the Content-Type");
	for (i = 0; i < ARRAY_SIZE(not); i++)
		if (strlen(not[i]) == name && !strncasecmp(line, not[i], name))
			return cli_usage(cli, "%s is not a header that one answer for all clients can be given",
					 not[i]);
	if (have + strlen(line) + 2 > AFPA_HEADERS_MAX)
		return cli_usage(cli, "the headers have more than %d bytes", AFPA_HEADERS_MAX);
	sprintf(headers + have, "%s\r\n", line);
	return 0;
}
