/* SPDX-License-Identifier: GPL-2.0 */
/* One command of "flotilla cache": the object that it is about, and where. */
#ifndef FLOTILLA_CLI_CACHE_JOB_H
#define FLOTILLA_CLI_CACHE_JOB_H

#include "cache.h"

#define CACHE_SITES_MAX	1024

/**
 * struct cache_job - what one command is about
 * @cli:    of it
 * @dev:    the device, or negative
 * @url:    the object
 * @sited:  @sites is what was named on the command line
 * @sites:  where it is for: the one that is named, or all at the port of the URL
 * @nr:     of @sites
 * @object: with put and update
 * @guess:  its type, if none is given and it is for HTTP
 * @fd:     of the file that it is, or negative
 * @table:  of what is printed
 */
struct cache_job {
	struct cli *cli;
	int dev;
	struct cache_url url;
	bool sited;
	struct afpa_site sites[CACHE_SITES_MAX];
	unsigned int nr;
	struct afpa_object object;
	const char *guess;
	int fd;
	struct table table;
};

/* The one that is named. CLI_USAGE after a sentence. */
int cache_take_site(struct cache_job *job, const char *text);
/* The sites that the URL is for; CLI_FAILED after saying that there are none. Opens the device. */
int cache_find_sites(struct cache_job *job);
void cache_end(struct cache_job *job);
/* CLI_OK, or after a sentence on what an errno means for the object there. */
int cache_fail_at(struct cache_job *job, const struct afpa_site *site, int err);

/* In cache_remote.c. As cache_device(), for the node of @cli. */
int cache_remote_device(struct cli *cli);
/* What an errno means that only a command for another node can have; NULL: what it means here, too. */
const char *cache_remote_error(int err);

/* In cache_explain.c. */
int cache_explain(struct cli *cli, int argc, char **argv);
/* In cache_put.c. */
int cache_put(struct cli *cli, int argc, char **argv);
int cache_file(struct cli *cli, int argc, char **argv);
int cache_update(struct cli *cli, int argc, char **argv);

#endif
