// SPDX-License-Identifier: GPL-2.0
/* flotilla cache explain: who would answer a request, and why. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "kmod/afpa/request.h"
#include "cache.h"
#include "cache_job.h"

/**
 * struct asked - the request that is explained
 * @method: GET, HEAD, or another
 * @fields: its header lines, each with its end; without Host
 * @len:    of @fields
 * @why:    what it is refused for by the kernel's parser
 * @line:   the line that shows it, without its end; empty: none does
 */
struct asked {
	const char *method;
	char fields[AFPA_REQUEST_MAX + 1];
	size_t len;
	enum afpa_why why;
	char line[200];
};

struct word {
	const char *word, *about;
};

/* By enum afpa_why. */
static const struct word refusals[] = {
	[AFPA_WHY_METHOD] = { "method", "the request is no GET or HEAD" },
	[AFPA_WHY_LINE] = { "line", "the request's lines are not as HTTP/1.0 and 1.1 have them" },
	[AFPA_WHY_PATH] = { "path", "no object can have the request's path" },
	[AFPA_WHY_HOST] = { "host", "the request names no host, two, or one of two spellings" },
	[AFPA_WHY_FIELD] = { "field", "two parsers could read a header of the request differently" },
	[AFPA_WHY_CONNECTION] = { "connection", "the request's Connection is not close or keep-alive" },
	[AFPA_WHY_BODY] = { "body", "there may be more to the request than its head" },
	[AFPA_WHY_CONDITION] = { "condition", "the request has a condition, or asks for a range" },
	[AFPA_WHY_COOKIE] = { "cookie", "the request has a cookie" },
	[AFPA_WHY_CREDENTIALS] = { "credentials", "the request says who asks" },
	[AFPA_WHY_FRESH] = { "fresh", "the request asks for the server's own answer" },
	[AFPA_WHY_LARGE] = { "large", "the request has more than 8192 bytes, or than 100 headers" },
};

/* By enum afpa_last: there is no object. */
static const struct word absences[] = {
	[AFPA_LAST_NONE] = { "never", "it was never put, or so long ago that the kernel has forgotten" },
	[AFPA_LAST_DELETED] = { "deleted", "it was deleted" },
	[AFPA_LAST_BANNED] = { "banned", "it was banned" },
	[AFPA_LAST_FLUSHED] = { "flushed", "it was flushed" },
	[AFPA_LAST_EXPIRED] = { "expired", "its lifetime was over" },
	[AFPA_LAST_EVICTED] = { "evicted", "it made room for others, as it was not used of late (flotilla afpa set budget)" },
	[AFPA_LAST_SHRUNK] = { "shrunk", "the machine was short of memory, and it was not used of late" },
	[AFPA_LAST_REFUSED] = { "refused", "the kernel did not take it" },
};

static const struct column explain_columns[] = {
	{ "site", "SITE", NULL },
	{ "answers", "ANSWERS", NULL },
	{ "reason", "REASON", NULL },
	{ "why", "WHY", NULL },
	{ "ago_ms", "AGO", human_life },
};

static const char *why_refused(uint32_t err)
{
	switch (err) {
	case ESTALE:
		return "what was put had been asked for before the URL was changed, deleted or banned";
	case EFBIG:
		return "what was put is larger than max_object (flotilla afpa show)";
	case ENOSPC:
		return "what was put does not fit into the budget (flotilla afpa show)";
	case ENOMEM:
		return "there was no memory for what was put";
	case ETXTBSY:
		return "somebody has the file that was put open for writing";
	case EINVAL:
		return "the kernel does not take a value of what was put";
	default:
		return "what was put was refused";
	}
}

static json_t *row(const struct afpa_site *site, const char *answers, const char *reason, const char *why)
{
	char text[AFPA_SITE_TEXT];

	return json_pack("{s:s, s:s, s:s, s:s, s:n, s:n, s:n, s:n}", "site", afpa_site_name(site, text),
			 "answers", answers, "reason", reason, "why", why, "line", "ago_ms", "version", "hits");
}

static json_t *refused_row(const struct afpa_site *site, const struct asked *asked)
{
	char why[sizeof(asked->line) + 100], line[sizeof(asked->line) * 4];
	json_t *r;

	cli_plain_text(asked->line, line, sizeof(line));
	if (line[0])
		snprintf(why, sizeof(why), "%s (%.120s)", refusals[asked->why].about, line);
	else
		snprintf(why, sizeof(why), "%s", refusals[asked->why].about);
	r = row(site, "server", refusals[asked->why].word, why);
	if (line[0])
		json_object_set_new(r, "line", json_string(line));
	return r;
}

/* What became of the object; also of one that is there, of which a later put was refused. */
static void set_past(json_t *r, const struct afpa_explain *explain)
{
	if (explain->last)
		json_object_set_new(r, "ago_ms", json_integer(explain->last_ms));
	if (!explain->version)
		return;
	json_object_set_new(r, "version", json_integer(explain->version));
	json_object_set_new(r, "hits", json_integer(explain->hits));
}

static json_t *object_row(const struct afpa_site *site, uint32_t mode, const struct afpa_explain *explain,
			  bool any)
{
	const char *why = any ? "there is an object for any host" : "there is an object";
	json_t *r;

	if (explain->state & AFPA_EXPLAIN_ON_DISK && mode == AFPA_MODE_SOFTIRQ)
		r = row(site, "server", "disk",
			"its file is not in memory, and mode softirq does not read (flotilla afpa set mode hybrid)");
	else if (explain->state & AFPA_EXPLAIN_ON_DISK)
		r = row(site, "kernel", "object", "there is an object; a thread has to read its file first");
	else if (explain->last == AFPA_LAST_REFUSED)
		r = row(site, "kernel", "object", why_refused(explain->error));
	else
		r = row(site, "kernel", "object", why);
	set_past(r, explain);
	return r;
}

static json_t *absent_row(const struct afpa_site *site, const struct afpa_explain *explain)
{
	uint32_t last = explain->last < ARRAY_SIZE(absences) ? explain->last : AFPA_LAST_NONE;
	const char *why = last == AFPA_LAST_REFUSED ? why_refused(explain->error) : absences[last].about;
	json_t *r = row(site, "server", absences[last].word, why);

	set_past(r, explain);
	return r;
}

/* What holds of all of a site's requests. */
static int count_listeners(const struct afpa_next_site *next, void *arg)
{
	struct afpa_next_site *wanted = arg;

	if (memcmp(&next->site, &wanted->site, sizeof(next->site)))
		return 0;
	wanted->listeners = next->listeners;
	return 1;
}

static int explain_key(struct cache_job *job, const struct afpa_site *site, uint32_t mode)
{
	struct afpa_explain explain, any;
	int err;

	err = afpa_explain(job->dev, site, job->url.host, job->url.path, &explain);
	if (!err && !(explain.state & AFPA_EXPLAIN_THERE) && strcmp(job->url.host, "*")) {
		err = afpa_explain(job->dev, site, "*", job->url.path, &any);
		if (!err && any.state & AFPA_EXPLAIN_THERE) {
			table_row(&job->table, object_row(site, mode, &any, true));
			return CLI_OK;
		}
		/* What is known of the host's own says more. */
		if (!err && !explain.last)
			explain = any;
	}
	if (err == -ENOTTY)
		return cli_fail(job->cli, "the module is older than this program, and remembers nothing");
	if (err)
		return cache_fail_at(job, site, err);
	table_row(&job->table, explain.state & AFPA_EXPLAIN_THERE ? object_row(site, mode, &explain, false) :
								    absent_row(site, &explain));
	return CLI_OK;
}

static int explain_at(struct cache_job *job, const struct afpa_site *site, uint32_t mode, const struct asked *asked)
{
	struct afpa_next_site next = { .site = *site };
	char protocol[AFPA_PROTOCOL_NAME];
	int err, http;

	err = afpa_site_protocol(job->dev, site, protocol);
	http = err == -ENOTTY || !strcmp(protocol, "http");
	if (err && err != -ENOTTY)
		return cache_fail_at(job, site, err);
	err = afpa_site_each(job->dev, count_listeners, &next);
	if (err < 0)
		return cache_result(job->cli, err);
	if (mode == AFPA_MODE_OFF)
		table_row(&job->table, row(site, "server", "off", "the kernel's mode is off (flotilla afpa set mode)"));
	else if (!next.listeners)
		table_row(&job->table, row(site, "server", "listener", "the kernel answers for no listener there"));
	else if (http && asked->why)
		table_row(&job->table, refused_row(site, asked));
	else if (http && job->url.port && job->url.port != ntohs(site->port))
		table_row(&job->table, row(site, "server", "port", "the URL names another port than the site's"));
	else
		return explain_key(job, site, mode);
	return CLI_OK;
}

/* As the kernel would read it. */
static void judge(const struct cache_job *job, struct asked *asked)
{
	static char text[2 * AFPA_REQUEST_MAX];
	const char *host = strcmp(job->url.host, "*") ? job->url.host : "any";
	struct afpa_request req;
	char port[sizeof(":65535")] = "";
	size_t len, end;

	if (job->url.port)
		snprintf(port, sizeof(port), ":%u", job->url.port);
	len = snprintf(text, sizeof(text), "%.64s %s HTTP/1.1\r\nHost: %s%s\r\n%s\r\n", asked->method, job->url.path,
		       host, port, asked->fields);
	afpa_request_init(&req);
	if (afpa_request_parse(text, len, &req) > 0)
		return;
	asked->why = req.why;
	/* The first line and Host say what their words say; of the others it is not known which one it is. */
	end = strcspn(text + req.line, "\r");
	if (req.line && req.why != AFPA_WHY_HOST && req.why != AFPA_WHY_LARGE)
		snprintf(asked->line, sizeof(asked->line), "%.*s", (int)end, text + req.line);
}

static int take_header(struct cli *cli, struct asked *asked, const char *line)
{
	size_t len = strlen(line), i;

	if (!strchr(line, ':'))
		return cli_usage(cli, "header %s is not like 'Name: value'", line);
	for (i = 0; i < len; i++)
		if (line[i] == '\r' || line[i] == '\n')
			return cli_usage(cli, "a header has a line's end");
	if (asked->len + len + 2 > AFPA_REQUEST_MAX)
		return cli_usage(cli, "the headers have more than %d bytes", AFPA_REQUEST_MAX);
	asked->len += sprintf(asked->fields + asked->len, "%s\r\n", line);
	return CLI_OK;
}

static int take_method(struct cli *cli, struct asked *asked, const char *method)
{
	if (!method[0] || strlen(method) > 32 || method[strcspn(method, " \t\r\n")])
		return cli_usage(cli, "method %s is not one word", method);
	asked->method = method;
	return CLI_OK;
}

static int take_arguments(struct cache_job *job, struct asked *asked, int argc, char **argv)
{
	int status = CLI_OK;

	for (; argc > 0 && !status; argc -= 2, argv += 2) {
		if (strcmp(argv[0], "site") && strcmp(argv[0], "header") && strcmp(argv[0], "method"))
			return cli_unknown(job->cli, argv[0]);
		if (argc == 1)
			return cli_usage(job->cli, "%s needs a value", argv[0]);
		if (argv[0][0] == 's')
			status = cache_take_site(job, argv[1]);
		else if (argv[0][0] == 'h')
			status = take_header(job->cli, asked, argv[1]);
		else
			status = take_method(job->cli, asked, argv[1]);
	}
	return status;
}

int cache_explain(struct cli *cli, int argc, char **argv)
{
	struct cache_job job = { .cli = cli, .dev = -1, .fd = -1 };
	struct asked asked = { .method = "GET" };
	struct afpa_info info;
	unsigned int i;
	int status;

	cli_doing(cli, "explain who answers");
	if (!argc)
		return cli_usage(cli, "the URL is missing");
	cli_doing(cli, "explain who answers %s", argv[0]);
	status = value_url(cli, argv[0], &job.url);
	if (!status)
		status = take_arguments(&job, &asked, argc - 1, argv + 1);
	if (status)
		return status;
	judge(&job, &asked);
	status = cache_find_sites(&job);
	if (!status)
		status = cache_result(cli, afpa_info(job.dev, &info));
	if (!status) {
		table_begin(&job.table, cli, explain_columns, ARRAY_SIZE(explain_columns));
		for (i = 0; i < job.nr && !status; i++)
			status = explain_at(&job, &job.sites[i], info.mode, &asked);
		table_end(&job.table);
	}
	cache_end(&job);
	return status;
}
