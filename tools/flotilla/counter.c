// SPDX-License-Identifier: GPL-2.0
/* Counters by generic netlink and from sysfs. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "counter.h"

#define IOLITE	"/sys/class/misc/iolite/counters"

bool module_is_loaded(const char *module)
{
	char path[64], state[8] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/sys/module/%s/initstate", module);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(state, sizeof(state), file))
		state[0] = '\0';
	fclose(file);
	return !strcmp(state, "live\n");
}

static bool read_number(int dir, const char *name, uint64_t *value)
{
	char text[32];
	ssize_t n = -1;
	int fd;

	fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (n <= 0)
		return false;
	text[n] = '\0';
	*value = strtoull(text, NULL, 10);
	return true;
}

/* One that the module takes away meanwhile is left out. */
int iolite_counters_each(flt_stat_fn fn, void *arg)
{
	struct dirent **names;
	int nr, i, dir, err = 0;
	uint64_t value;

	dir = open(IOLITE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return 0;
	nr = scandirat(dir, ".", &names, NULL, alphasort);
	for (i = 0; i < nr; i++) {
		if (!err && names[i]->d_name[0] != '.' &&
		    read_number(dir, names[i]->d_name, &value))
			err = fn("iolite", names[i]->d_name, value, arg);
		free(names[i]);
	}
	if (nr >= 0)
		free(names);
	close(dir);
	return err;
}

int counters_each(struct cli *cli, flt_stat_fn fn, void *arg)
{
	bool only = !module_is_loaded("flotilla") && !access(IOLITE, F_OK);
	int status = CLI_OK, err;

	if (!only)
		status = cli_client(cli) ? cli_result(cli, flt_stats_each(cli->client, fn, arg)) :
					   CLI_FAILED;
	if (status)
		return status;
	err = iolite_counters_each(fn, arg);
	return err ? cli_fail(cli, "%s", strerror(-err)) : CLI_OK;
}
