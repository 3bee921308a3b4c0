// SPDX-License-Identifier: GPL-2.0
/* flotilla cache: what the kernel answers HTTP requests with. */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include "cache.h"
#include "cache_job.h"

static const struct column object_columns[] = {
	{ "site", "SITE", NULL },
	{ "host", "HOST", NULL },
	{ "path", "PATH", NULL },
	{ "bytes", "BYTES", human_bytes },
	{ "hits", "HITS", NULL },
	{ "age_ms", "AGE", human_duration },
	{ "left_ms", "EXPIRES", human_life },
	{ "version", "VERSION", NULL },
	{ "charged", "CHARGED", human_bytes },
	{ "age_header", "AGE_HEADER", human_age },
};

static json_t *object_row(const struct afpa_key *key, const char *host, const char *path)
{
	char site[AFPA_SITE_TEXT];

	return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:o}",
			 "site", afpa_site_name(&key->site, site), "host", host, "path", path,
			 "bytes", (json_int_t)key->body_len, "hits", (json_int_t)key->hits,
			 "age_ms", (json_int_t)key->age_ms, "left_ms", (json_int_t)key->left_ms,
			 "version", (json_int_t)key->version, "charged", (json_int_t)key->charged,
			 "automatic", !!(key->flags & AFPA_PUT_AUTOMATIC), "file", !!(key->flags & AFPA_PUT_FILE),
			 "age_header", key->flags & AFPA_PUT_AGED ? json_integer(key->age) : json_null());
}

struct filter {
	struct cache_job *job;
	const char *host;
};

static int list_object(const struct afpa_key *key, const char *host, const char *path, void *arg)
{
	struct filter *filter = arg;
	struct cache_job *job = filter->job;

	if ((!job->sited || !memcmp(&key->site, &job->sites[0], sizeof(key->site))) &&
	    (!filter->host || !strcasecmp(filter->host, host)))
		table_row(&job->table, object_row(key, host, path));
	return 0;
}

static int cache_list(struct cli *cli, int argc, char **argv)
{
	struct cache_job job = { .cli = cli, .dev = -1, .fd = -1 };
	struct filter filter = { .job = &job };
	int status = CLI_OK;

	cli_doing(cli, "list the objects");
	for (; argc && !status; argc -= 2, argv += 2) {
		if (strcmp(argv[0], "site") && strcmp(argv[0], "host"))
			return cli_unknown(cli, argv[0]);
		if (argc == 1)
			return cli_usage(cli, "%s needs a value", argv[0]);
		if (argv[0][0] == 's')
			status = cache_take_site(&job, argv[1]);
		else
			filter.host = argv[1];
	}
	if (status)
		return status;
	job.dev = cache_device(cli);
	if (job.dev < 0)
		return CLI_FAILED;
	table_begin(&job.table, cli, object_columns, ARRAY_SIZE(object_columns));
	status = cache_result(cli, afpa_each(job.dev, list_object, &filter));
	table_end(&job.table);
	cache_end(&job);
	return status;
}

/* Whether there was one at any site. */
static int delete_at_sites(struct cache_job *job, bool *was)
{
	unsigned int i;
	int err;

	for (i = 0; i < job->nr; i++) {
		err = afpa_del(job->dev, &job->sites[i], job->url.host, job->url.path);
		if (err && err != -ENOENT)
			return cache_result(job->cli, err);
		*was |= !err;
	}
	return CLI_OK;
}

static int cache_del(struct cli *cli, int argc, char **argv)
{
	struct cache_job job = { .cli = cli, .dev = -1, .fd = -1 };
	int status = CLI_OK, i, urls = 0;
	bool strict = false, was;

	cli_doing(cli, "delete an object");
	/* Everything is understood before anything is deleted. */
	for (i = 0; i < argc && !status; i++) {
		if (!strcmp(argv[i], "--strict")) {
			strict = true;
		} else if (!strcmp(argv[i], "site")) {
			if (++i == argc)
				return cli_usage(cli, "site needs a value");
			status = cache_take_site(&job, argv[i]);
		} else {
			status = value_url(cli, argv[i], &job.url);
			argv[urls++] = argv[i];
		}
	}
	if (!status && !urls)
		return cli_usage(cli, "its URL is missing");
	for (i = 0; i < urls && !status; i++) {
		cli_doing(cli, "delete %s", argv[i]);
		was = false;
		status = value_url(cli, argv[i], &job.url);
		if (!status)
			status = cache_find_sites(&job);
		if (!status)
			status = delete_at_sites(&job, &was);
		if (!status && !was && strict)
			status = cli_fail(cli, "there is no such object");
	}
	cache_end(&job);
	return status;
}

/* URL, then perhaps its site: of query and ttl. */
static int one_url(struct cache_job *job, const char *url, int argc, char **argv)
{
	int status = value_url(job->cli, url, &job->url);

	if (status)
		return status;
	if (argc && strcmp(argv[0], "site"))
		return cli_unknown(job->cli, argv[0]);
	if (argc == 1)
		return cli_usage(job->cli, "site needs a value");
	if (argc > 2)
		return cli_unknown(job->cli, argv[2]);
	status = argc ? cache_take_site(job, argv[1]) : CLI_OK;
	return status ? status : cache_find_sites(job);
}

static int cache_query(struct cli *cli, int argc, char **argv)
{
	struct cache_job job = { .cli = cli, .dev = -1, .fd = -1 };
	struct afpa_key key;
	int status, err = 0;
	unsigned int i;

	cli_doing(cli, "query an object");
	if (!argc)
		return cli_usage(cli, "its URL is missing");
	cli_doing(cli, "query %s", argv[0]);
	status = one_url(&job, argv[0], argc - 1, argv + 1);
	if (!status) {
		table_begin(&job.table, cli, object_columns, ARRAY_SIZE(object_columns));
		for (i = 0; i < job.nr && (!err || err == -ENOENT); i++) {
			err = afpa_query(job.dev, &job.sites[i], job.url.host, job.url.path, &key);
			if (!err)
				table_row(&job.table, object_row(&key, job.url.host, job.url.path));
		}
		if (err && err != -ENOENT)
			status = cache_result(cli, err);
		else if (!job.table.rows)
			status = cli_fail(cli, "there is no such object");
		table_end(&job.table);
	}
	cache_end(&job);
	return status;
}

static int cache_ttl(struct cli *cli, int argc, char **argv)
{
	struct cache_job job = { .cli = cli, .dev = -1, .fd = -1 };
	unsigned int i, done = 0;
	int status, err = 0;
	uint32_t ms;

	cli_doing(cli, "change a lifetime");
	if (!argc)
		return cli_usage(cli, "the object's URL is missing");
	cli_doing(cli, "change the lifetime of %s", argv[0]);
	if (argc == 1)
		return cli_usage(cli, "the new one is missing");
	status = value_time(cli, "lifetime", argv[1], &ms);
	if (!status)
		status = one_url(&job, argv[0], argc - 2, argv + 2);
	for (i = 0; i < job.nr && !status; i++) {
		err = afpa_ttl(job.dev, &job.sites[i], job.url.host, job.url.path, ms);
		if (err && err != -ENOENT)
			status = cache_result(cli, err);
		done += !err;
	}
	if (!status && !done)
		status = cli_fail(cli, "there is no such object");
	cache_end(&job);
	return status;
}

static int cache_flush(struct cli *cli, int argc, char **argv)
{
	struct cache_job job = { .cli = cli, .dev = -1, .fd = -1 };
	uint64_t objects = 0;
	int status;

	cli_doing(cli, "flush the cache");
	if (argc && strcmp(argv[0], "site"))
		return cli_unknown(cli, argv[0]);
	if (argc == 1)
		return cli_usage(cli, "site needs a value");
	if (argc > 2)
		return cli_unknown(cli, argv[2]);
	status = argc ? cache_take_site(&job, argv[1]) : CLI_OK;
	if (status)
		return status;
	job.dev = cache_device(cli);
	if (job.dev < 0)
		return CLI_FAILED;
	status = cache_result(cli, afpa_flush(job.dev, job.sited ? &job.sites[0] : NULL, &objects));
	if (!status && cli->json)
		json_print(cli, json_pack("{s:I}", "objects", (json_int_t)objects));
	cache_end(&job);
	return status;
}

/* Of one path at each of its sites, "*" for those of all hosts. */
static int ban_path(struct cache_job *job, const char *url, uint64_t *objects)
{
	int status = value_url(job->cli, url, &job->url);
	const char *host = strcmp(job->url.host, "*") ? job->url.host : NULL;
	unsigned int i;
	uint64_t n;

	if (!status)
		status = cache_find_sites(job);
	for (i = 0; i < job->nr && !status; i++) {
		status = cache_result(job->cli, afpa_ban(job->dev, &job->sites[i], host, job->url.path, &n));
		*objects += n;
	}
	return status;
}

static int ban_tag(struct cache_job *job, const char *tag, uint64_t *objects)
{
	char word[AFPA_TAGS_MAX + 1] = "";
	int status = cache_tag(job->cli, tag, word);
	uint64_t n = 0;

	if (status)
		return status;
	if (job->dev < 0)
		job->dev = cache_device(job->cli);
	if (job->dev < 0)
		return CLI_FAILED;
	status = cache_result(job->cli, afpa_ban_tag(job->dev, job->sited ? &job->sites[0] : NULL, tag, &n));
	*objects += n;
	return status;
}

static int cache_ban(struct cli *cli, int argc, char **argv)
{
	struct cache_job job = { .cli = cli, .dev = -1, .fd = -1 };
	int status = CLI_OK, i, words = 0;
	uint64_t objects = 0;
	bool tags = false;

	cli_doing(cli, "ban objects");
	for (i = 0; i < argc && !status; i++) {
		if (!strcmp(argv[i], "--tag")) {
			tags = true;
		} else if (!strcmp(argv[i], "site")) {
			if (++i == argc)
				return cli_usage(cli, "site needs a value");
			status = cache_take_site(&job, argv[i]);
		} else {
			argv[words++] = argv[i];
		}
	}
	if (!status && !words)
		return cli_usage(cli, tags ? "the tag is missing" : "what their URLs begin with is missing");
	for (i = 0; i < words && !status; i++) {
		cli_doing(cli, "ban %s", argv[i]);
		status = tags ? ban_tag(&job, argv[i], &objects) : ban_path(&job, argv[i], &objects);
	}
	if (!status && cli->json)
		json_print(cli, json_pack("{s:I}", "objects", (json_int_t)objects));
	cache_end(&job);
	return status;
}

static int cache_ticket(struct cli *cli, int argc, char **argv)
{
	uint64_t ticket;
	int dev, status;

	cli_doing(cli, "take a ticket");
	if (argc)
		return cli_unknown(cli, argv[0]);
	dev = cache_device(cli);
	if (dev < 0)
		return CLI_FAILED;
	status = cache_result(cli, afpa_ticket(dev, &ticket));
	close(dev);
	if (status)
		return status;
	if (cli->json)
		json_print(cli, json_pack("{s:I}", "ticket", (json_int_t)ticket));
	else
		printf("%llu\n", (unsigned long long)ticket);
	return CLI_OK;
}

static const struct command commands[] = {
	{ "list", "show", cache_list, "list [site SITE] [host HOST]",
	  "Show what the kernel answers with" },
	{ "put", "add", cache_put,
	  "put URL FILE|- [--automatic] [type TYPE] [ttl TIME] [age TIME] [header LINE]... [tag TAG]... [since TICKET] [site SITE]",
	  "Answer a URL with this from now on, instead of what was there" },
	{ "file", NULL, cache_file,
	  "file URL FILE [--automatic] [type TYPE] [ttl TIME] [age TIME] [header LINE]... [tag TAG]... [since TICKET] [site SITE]",
	  "The same without a copy: what the kernel has of the file in memory; nobody can write to it meanwhile" },
	{ "update", NULL, cache_update,
	  "update URL FILE|- [--automatic] [type TYPE] [ttl TIME] [age TIME] [header LINE]... [tag TAG]... [since TICKET] [site SITE]",
	  "The same, if there is an answer already: one that was deleted does not come back" },
	{ "del", "delete", cache_del, "del [--strict] URL... [site SITE]",
	  "Leave URLs to the server, at once; with --strict it is an error if none was there" },
	{ "query", NULL, cache_query, "query URL [site SITE]",
	  "Show what is known of one answer; it does not count as use" },
	{ "explain", NULL, cache_explain, "explain URL [method METHOD] [header LINE]... [site SITE]",
	  "Say whether the kernel or the server would answer a request for it, and why" },
	{ "ttl", NULL, cache_ttl, "ttl URL TIME [site SITE]",
	  "Give it a new lifetime, from now on" },
	{ "ban", NULL, cache_ban, "ban URL... | --tag TAG... [site SITE]",
	  "Delete all whose URLs begin so, or that have the tag" },
	{ "ticket", NULL, cache_ticket, "ticket",
	  "Print a number for \"put ... since\": to be taken before the server is asked for the page" },
	{ "flush", NULL, cache_flush, "flush [site SITE]", "Delete all, or all of one site" },
	{ 0 }
};

const struct object cache_object = {
	"cache", "answers that the kernel gives to HTTP requests", commands, false,
	"Arguments:\n"
	"  URL      http://HOST[:PORT]/PATH, or without http://; HOST may be *: any that has no answer of its own\n"
	"  SITE     ADDRESS:PORT as in \"flotilla afpa site\"; without one, all sites at the URL's port\n"
	"  TYPE     content type; default: by the suffix of the file, or of the URL for standard input; with protocol\n"
	"           memcached, where the URL is *:PORT/KEY, the client's flags: a number, default 0\n"
	"  TIME     500ms, 30s, 10m, 2h, 1d, or never; of age: how old the answer is already, which its field Age says\n"
	"  LINE     'Name: value', a header of the answer; with explain, of the request\n"
	"  TAG      a word that answers have in common; with ban, HOST * is every host\n"
	"  TICKET   the put fails if the URL was put, deleted, banned or flushed since \"cache ticket\" printed it\n"
	"  --automatic  can be had again from the server: goes first when memory is short\n"
	"  --remote NODE  with any command but file: at that node, over its link, not here; may come several times;\n"
	"           *: at all other nodes. There \"flotilla afpa set remote\" says from whom commands are taken\n",
};
