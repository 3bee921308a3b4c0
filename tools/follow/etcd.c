// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <string.h>
#include "etcd.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *base64_encode(const void *data, size_t len)
{
	const unsigned char *in = data;
	char *text = malloc((len + 2) / 3 * 4 + 1), *out = text;
	size_t i;

	for (i = 0; text && i < len; i += 3) {
		uint32_t bits = in[i] << 16 | (i + 1 < len ? in[i + 1] << 8 : 0) | (i + 2 < len ? in[i + 2] : 0);

		*out++ = digits[bits >> 18];
		*out++ = digits[bits >> 12 & 63];
		*out++ = i + 1 < len ? digits[bits >> 6 & 63] : '=';
		*out++ = i + 2 < len ? digits[bits & 63] : '=';
	}
	if (text)
		*out = '\0';
	return text;
}

ssize_t base64_decode(const char *text, char *out, size_t size)
{
	size_t len = strcspn(text, "="), i, n = 0;
	uint32_t bits = 0;

	if (strlen(text) % 4 || strlen(text) - len > 2 || text[len + strspn(text + len, "=")])
		return -1;
	for (i = 0; i < len; i++) {
		const char *digit = strchr(digits, text[i]);

		if (!digit)
			return -1;
		bits = bits << 6 | (uint32_t)(digit - digits);
		if (i % 4 && n == size)
			return -1;
		if (i % 4)
			out[n++] = bits >> (6 - 2 * (i % 4));
	}
	return n;
}

static int take_prefix(struct etcd *etcd, struct cli *cli, const char *prefix)
{
	size_t len = strlen(prefix);

	if (len < 1 || len + 2 > PREFIX_MAX)
		return cli_usage(cli, "etcd: a prefix is missing, as in etcd:https://10.0.0.9:2379/flotilla/");
	memcpy(etcd->prefix, prefix, len + 1);
	if (etcd->prefix[len - 1] != '/')
		strcpy(etcd->prefix + len, "/");
	return CLI_OK;
}

/* The prefix is what follows the last host; keys of etcd need not begin with /. */
int etcd_open(struct etcd *etcd, struct cli *cli, const struct access *access, const char *text)
{
	char *copy = strdup(text), *each, *slash, *save = NULL;
	int status = copy ? http_open(&etcd->http, cli, access, "") : cli_fail(cli, "out of memory");
	const char *prefix = "";

	for (each = copy ? strtok_r(copy, ",", &save) : NULL; each && !status; each = strtok_r(NULL, ",", &save)) {
		slash = strstr(each, "://");
		slash = slash ? strchr(slash + 3, '/') : NULL;
		if (slash) {
			*slash = '\0';
			prefix = slash + 1;
		}
		status = http_check_url(cli, each);
		if (!status && (*prefix && save && *save))
			status = cli_usage(cli, "the prefix follows the last of the hosts");
		else if (!status && etcd->nr_hosts == HOSTS_MAX)
			status = cli_usage(cli, "more than %d hosts", HOSTS_MAX);
		else if (!status)
			etcd->hosts[etcd->nr_hosts++] = strdup(each);
	}
	if (!status)
		status = take_prefix(etcd, cli, prefix);
	free(copy);
	return status;
}

void etcd_close(struct etcd *etcd)
{
	http_close(&etcd->http);
	while (etcd->nr_hosts)
		free(etcd->hosts[--etcd->nr_hosts]);
}

json_t *etcd_ask(struct etcd *etcd, const char *path, json_t *request, long *code)
{
	char *body = request ? json_dumps(request, 0) : NULL, url[512];
	struct cli *cli = etcd->http.cli;
	bool quiet = cli->quiet;
	json_t *answer = NULL;
	unsigned int i;

	json_decref(request);
	if (!body) {
		cli_fail(cli, "out of memory");
		return NULL;
	}
	for (i = 0; i < etcd->nr_hosts; i++) {
		snprintf(url, sizeof(url), "%s%s", etcd->hosts[etcd->at], path);
		/* What the last one says is said. */
		cli->quiet = quiet || i + 1 < etcd->nr_hosts;
		answer = http_ask(&etcd->http, url, body, code);
		if (answer)
			break;
		etcd->at = (etcd->at + 1) % etcd->nr_hosts;
	}
	cli->quiet = quiet;
	free(body);
	return answer;
}
