// SPDX-License-Identifier: GPL-2.0
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "config.h"
#include "privilege.h"
#include "share.h"

static int access_to(const char *what, const char *path, int mode, char *error, size_t size)
{
	int err = faccessat(AT_FDCWD, path, mode, AT_EACCESS) ? -errno : 0;

	if (err)
		snprintf(error, size, "%s %s: %s", what, path, strerror(-err));
	return err;
}

/* May a file be made where @path says? */
static int directory_of(const char *what, const char *path, char *error, size_t size)
{
	char copy[256];

	snprintf(copy, sizeof(copy), "%s", path);
	return access_to(what, dirname(copy), W_OK | X_OK, error, size);
}

/* lardd makes the last directory of the control socket's, and no other. */
static int control_directory(const char *path, char *error, size_t size)
{
	char copy[256];
	struct stat st;

	snprintf(copy, sizeof(copy), "%s", path);
	return directory_of("control: directory", stat(dirname(copy), &st) ? copy : path, error, size);
}

/* Root makes the log for the user. */
static int before_dropping(const struct config *config, char *error, size_t size)
{
	struct stat st;
	int err = 0;

	if (*config->control)
		err = control_directory(config->control, error, size);
	if (err || !*config->access_log)
		return err;
	if (stat(config->access_log, &st))
		return directory_of("access-log: directory", config->access_log, error, size);
	if (!S_ISDIR(st.st_mode))
		return 0;
	snprintf(error, size, "access-log %s: is a directory", config->access_log);
	return -EISDIR;
}

int check_machine(struct config *config, const char *path, char *error, size_t size)
{
	struct stat st;
	int err;

	err = privilege_find(config, error, size);
	err = err ? err : before_dropping(config, error, size);
	err = err ? err : share_check(config, error, size);
	err = err ? err : privilege_drop(config, error, size);
	/* A reload reads them again. */
	err = err ? err : access_to("configuration", path, R_OK, error, size);
	err = err ? err : config_load_tls(config, error, size);
	if (!err && *config->access_log && !stat(config->access_log, &st))
		err = access_to("access-log", config->access_log, W_OK, error, size);
	return err;
}
