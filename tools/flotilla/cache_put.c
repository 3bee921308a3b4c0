// SPDX-License-Identifier: GPL-2.0
/* flotilla cache put, file, update. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cache_job.h"

static int take_age(struct cache_job *job, const char *text)
{
	job->object.flags |= AFPA_PUT_AGED;
	return value_age(job->cli, text, &job->object.age);
}

/* What follows URL FILE. */
static int put_arguments(struct cache_job *job, int argc, char **argv, char headers[AFPA_HEADERS_MAX + 1],
			 char tags[AFPA_TAGS_MAX + 1])
{
	int status = CLI_OK;

	for (; argc > 0 && !status; argc -= 2, argv += 2) {
		if (!strcmp(argv[0], "--automatic")) {
			job->object.flags |= AFPA_PUT_AUTOMATIC;
			argc++;
			argv--;
			continue;
		}
		if (argc == 1)
			return cli_usage(job->cli, "%s needs a value", argv[0]);
		if (!strcmp(argv[0], "site"))
			status = cache_take_site(job, argv[1]);
		else if (!strcmp(argv[0], "type"))
			job->object.type = argv[1];
		else if (!strcmp(argv[0], "ttl"))
			status = value_time(job->cli, argv[0], argv[1], &job->object.ttl_ms);
		else if (!strcmp(argv[0], "age"))
			status = take_age(job, argv[1]);
		else if (!strcmp(argv[0], "header"))
			status = cache_header(job->cli, argv[1], headers);
		else if (!strcmp(argv[0], "tag"))
			status = cache_tag(job->cli, argv[1], tags);
		else if (!strcmp(argv[0], "since"))
			status = value_ticket(job->cli, argv[1], &job->object.since);
		else
			status = cli_unknown(job->cli, argv[0]);
	}
	if (!status && job->object.type && strlen(job->object.type) > AFPA_TYPE_MAX)
		return cli_usage(job->cli, "the type has more than %d bytes", AFPA_TYPE_MAX);
	return status;
}

static const struct column put_columns[] = {
	{ "site", "SITE", NULL },
	{ "version", "VERSION", NULL },
};

/* Elsewhere a suffix is no content type. */
static bool is_http(const struct cache_job *job, const struct afpa_site *site)
{
	char protocol[AFPA_PROTOCOL_NAME];

	return afpa_site_protocol(job->dev, site, protocol) || !strcmp(protocol, "http");
}

/* The kernel takes it, or says at which site it does not; the others have it then. */
static int put_at_sites(struct cache_job *job, bool update)
{
	int (*put)(int dev, const struct afpa_site *site, const char *host, const char *path,
		   const struct afpa_object *object, uint64_t *version) = update ? afpa_update : afpa_put;
	/* Whoever is not a program has no use for the version. */
	bool rows = job->cli->json || job->cli->tabs;
	int status = CLI_OK, err;
	unsigned int i;

	if (rows)
		table_begin(&job->table, job->cli, put_columns, ARRAY_SIZE(put_columns));
	for (i = 0; i < job->nr && !status; i++) {
		struct afpa_object object = job->object;
		char site[AFPA_SITE_TEXT];
		uint64_t version;

		if (!object.type && is_http(job, &job->sites[i]))
			object.type = job->guess;
		if (job->fd >= 0)
			err = afpa_put_file(job->dev, &job->sites[i], job->url.host, job->url.path, job->fd,
					    &object, &version);
		else
			err = put(job->dev, &job->sites[i], job->url.host, job->url.path, &object, &version);
		if (err)
			status = cache_fail_at(job, &job->sites[i], err);
		else if (rows)
			table_row(&job->table, json_pack("{s:s, s:I}", "site",
							 afpa_site_name(&job->sites[i], site),
							 "version", (json_int_t)version));
	}
	if (rows)
		table_end(&job->table);
	return status;
}

/* What the answer is made of, or where it is. */
static int open_body(struct cache_job *job, const char *name, bool file, struct cache_body *body)
{
	struct afpa_info info;
	int status;

	if (file) {
		job->fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		return job->fd < 0 ? cli_fail(job->cli, "%s cannot be read: %s", name, strerror(errno)) : CLI_OK;
	}
	status = cache_result(job->cli, afpa_info(job->dev, &info));
	if (!status)
		status = cache_read(job->cli, name, info.max_object, body);
	job->object.body = body->bytes;
	job->object.body_len = body->len;
	return status;
}

static int put(struct cli *cli, const char *verb, int argc, char **argv, bool file)
{
	struct cache_job job = { .cli = cli, .dev = -1, .fd = -1 };
	char headers[AFPA_HEADERS_MAX + 1] = "", tags[AFPA_TAGS_MAX + 1] = "";
	struct cache_body body = { NULL, 0 };
	int status;

	cli_doing(cli, "%s an object", verb);
	if (!argc)
		return cli_usage(cli, "its URL is missing");
	cli_doing(cli, "%s %s", verb, argv[0]);
	status = value_url(cli, argv[0], &job.url);
	if (status)
		return status;
	if (argc < 2)
		return cli_usage(cli, "a file is missing%s", file ? "" : " (-: standard input)");
	status = put_arguments(&job, argc - 2, argv + 2, headers, tags);
	if (status)
		return status;
	if (!job.object.type)
		job.guess = cache_type(file || strcmp(argv[1], "-") ? argv[1] : job.url.path);
	job.object.headers = headers;
	job.object.tags = tags;
	status = cache_find_sites(&job);
	if (!status)
		status = open_body(&job, argv[1], file, &body);
	if (!status)
		status = put_at_sites(&job, verb[0] == 'u');
	free(body.bytes);
	if (job.fd >= 0)
		close(job.fd);
	cache_end(&job);
	return status;
}

int cache_put(struct cli *cli, int argc, char **argv)
{
	return put(cli, "put", argc, argv, false);
}

int cache_file(struct cli *cli, int argc, char **argv)
{
	return put(cli, "put", argc, argv, true);
}

int cache_update(struct cli *cli, int argc, char **argv)
{
	return put(cli, "update", argc, argv, false);
}
