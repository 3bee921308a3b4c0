// SPDX-License-Identifier: GPL-2.0
#include <arpa/inet.h>
#include <errno.h>
#include <unistd.h>
#include "cache_job.h"

int cache_take_site(struct cache_job *job, const char *text)
{
	int status = value_site(job->cli, text, &job->sites[0]);

	job->sited = !status;
	job->nr = 1;
	return status;
}

static int keep_site(const struct afpa_next_site *next, void *arg)
{
	struct cache_job *job = arg;
	uint16_t port = job->url.port ? job->url.port : 80;

	if (ntohs(next->site.port) != port)
		return 0;
	if (job->nr == CACHE_SITES_MAX)
		return -E2BIG;
	job->sites[job->nr++] = next->site;
	return 0;
}

int cache_find_sites(struct cache_job *job)
{
	int status;

	if (job->dev < 0)
		job->dev = cache_device(job->cli);
	if (job->dev < 0)
		return CLI_FAILED;
	if (job->sited)
		return CLI_OK;
	job->nr = 0;
	status = cache_result(job->cli, afpa_site_each(job->dev, keep_site, job));
	if (!status && !job->nr)
		return cli_fail(job->cli, "there is no site at port %u (flotilla afpa site help)",
				job->url.port ? job->url.port : 80);
	return status;
}

void cache_end(struct cache_job *job)
{
	if (job->dev >= 0)
		close(job->dev);
}

int cache_fail_at(struct cache_job *job, const struct afpa_site *site, int err)
{
	char text[AFPA_SITE_TEXT];

	if (err == -ENOENT)
		return cli_fail(job->cli, "there is no such object, or no site %s",
				afpa_site_name(site, text));
	if (job->cli->remote)
		return cache_result(job->cli, err);
	if (job->fd >= 0 && err == -ETXTBSY)
		return cli_fail(job->cli, "somebody has the file open for writing");
	if (job->fd >= 0 && (err == -EACCES || err == -EPERM))
		return cli_fail(job->cli, "it needs CAP_NET_ADMIN, and the right to write to the file");
	if (job->fd >= 0 && err == -EOPNOTSUPP)
		return cli_fail(job->cli, "its file system is none whose files can be answers (flotilla cache put)");
	if (job->fd >= 0 && err == -EINVAL)
		return cli_fail(job->cli, "it is not a regular file, or the kernel does not take a value of it");
	return cache_result(job->cli, err);
}
