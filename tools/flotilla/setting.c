// SPDX-License-Identifier: GPL-2.0
/* Settings that have a file each: the policy, the links, net.flotilla. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "config.h"

#define DISPATCH	"/sys/class/flotilla/dispatch"
#define LINKS		"/sys/class/flotilla/links"
#define SYSCTL		"/proc/sys/net/flotilla"

static const struct words policies = {
	(const char *const[]){ "wrr", "lb", "lard", "lard/r", "lc", "chbl" }, 6
};

/* The limits are the kernel's, so that a whole file is judged before the first value is written. */
const struct setting settings[] = {
	{ "policy", "policy", DISPATCH, 0, 0, &policies },
	{ "policy", "t_low", DISPATCH, 2, 1000000, NULL },
	{ "policy", "t_high", DISPATCH, 2, 1000000, NULL },
	{ "policy", "replication_seconds", DISPATCH, 0, 365 * 86400, NULL },
	{ "policy", "max_outstanding", DISPATCH, 1, 100000000, NULL },
	{ "links", "heartbeat_ms", LINKS, 50, 60000, NULL },
	{ "links", "grace_ms", LINKS, 0, 3600000, NULL },
	{ "links", "queue_bytes", LINKS, 64 << 10, 256 << 20, NULL },
	{ "sysctl", "handoff", SYSCTL, 0, 1, NULL },
	{ "sysctl", "adopt", SYSCTL, 0, 1, NULL },
	{ "sysctl", "handoff_timeout_ms", SYSCTL, 1, 60000, NULL },
	{ "sysctl", "adopt_query_ms", SYSCTL, 1, 60000, NULL },
	{ "sysctl", "adopt_deadline_ms", SYSCTL, 1, 60000, NULL },
	{ "sysctl", "adopt_pending_max", SYSCTL, 0, 16384, NULL },
	{ "sysctl", "forward_linger_ms", SYSCTL, 1, 3600000, NULL },
	{ "sysctl", "forward_linger_rst_ms", SYSCTL, 1, 3600000, NULL },
	{ "sysctl", "forward_idle_s", SYSCTL, 1, 2592000, NULL },
	{ "sysctl", "forward_max", SYSCTL, 0, 1 << 26, NULL },
	{ "sysctl", "forward_from_nodes", SYSCTL, 0, 1, NULL },
	{ "sysctl", "hold_max", SYSCTL, 0, 1024, NULL },
	{ "sysctl", "hold_max_kb", SYSCTL, 0, 1 << 20, NULL },
};

const unsigned int nr_settings = ARRAY_SIZE(settings);

const struct setting *setting_find(const char *kind, const char *name)
{
	unsigned int i;

	for (i = 0; i < nr_settings; i++)
		if (!strcmp(settings[i].kind, kind) && !strcmp(settings[i].name, name))
			return &settings[i];
	return NULL;
}

int setting_check(struct cli *cli, const struct setting *s, const char *value)
{
	uint64_t number;
	uint8_t word;

	if (s->words)
		return value_word(cli, s->name, value, s->words, &word);
	if (!strcmp(s->name, "max_outstanding") && !strcmp(value, "auto"))
		return CLI_OK;
	return value_number(cli, s->name, value, s->min, s->max, &number);
}

static int setting_open(const struct setting *s, int flags)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", s->directory, s->name);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int setting_read(const struct setting *s, char *value, size_t size)
{
	int fd = setting_open(s, O_RDONLY);
	ssize_t len;

	if (fd < 0)
		return fd;
	len = read(fd, value, size - 1);
	if (len < 0)
		len = -errno;
	close(fd);
	if (len < 0)
		return len;
	value[len] = '\0';
	value[strcspn(value, "\n")] = '\0';
	return 0;
}

/* One write: the kernel takes a value whole or not at all. */
int setting_write(const struct setting *s, const char *value)
{
	int fd = setting_open(s, O_WRONLY);
	ssize_t len = strlen(value), done;
	int err = 0;

	if (fd < 0)
		return fd;
	done = write(fd, value, len);
	if (done < 0)
		err = -errno;
	else if (done != len)
		err = -EIO;
	close(fd);
	return err;
}
