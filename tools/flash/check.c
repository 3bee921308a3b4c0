// SPDX-License-Identifier: GPL-2.0
/* What a configuration needs of the machine, looked at before anything is started (--check). */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "message.h"
#include "worker.h"

static int wrong(const char *what, const char *name, const char *why)
{
	message("%s %s: %s", what, name, why);
	return 1;
}

int check_user(struct conf *conf)
{
	const struct passwd *pw;
	const struct group *gr;

	conf->uid = geteuid();
	conf->gid = getegid();
	errno = 0;
	if (conf->user) {
		pw = getpwnam(conf->user);
		if (!pw)
			return -wrong("user", conf->user, errno ? strerror(errno) : "there is none");
		conf->uid = pw->pw_uid;
		conf->gid = pw->pw_gid;
		if (geteuid() && geteuid() != pw->pw_uid)
			return -wrong("user", conf->user, "only root can become another");
	}
	if (conf->group) {
		gr = getgrnam(conf->group);
		if (!gr)
			return -wrong("group", conf->group, errno ? strerror(errno) : "there is none");
		conf->gid = gr->gr_gid;
	}
	return 0;
}

static int access_to(const char *what, const char *name, int mode)
{
	return faccessat(AT_FDCWD, name, mode, AT_EACCESS) ? wrong(what, name, strerror(errno)) : 0;
}

/* May a file be made where @path says? */
static int directory_of(const char *what, const char *path)
{
	char *copy = strdup(path);
	int errors = copy ? access_to(what, dirname(copy), W_OK | X_OK) : 1;

	free(copy);
	return errors;
}

/* What the master does, before it gives up its rights: it may create the log for the workers. */
static int before_dropping(const struct conf *conf)
{
	struct stat st;
	int errors = 0;

	if (conf->pidfile)
		errors += directory_of("pidfile in", conf->pidfile);
	if (conf->access_log && strcmp(conf->access_log, "-")) {
		if (stat(conf->access_log, &st))
			errors += directory_of("access_log in", conf->access_log);
		else if (S_ISDIR(st.st_mode))
			errors += wrong("access_log", conf->access_log, "is a directory");
	}
	return errors;
}

static int after_dropping(const struct conf *conf)
{
	const struct vhost *v;
	const struct app *app;
	struct stat st;
	int errors = 0;

	if (conf->access_log && strcmp(conf->access_log, "-") && !stat(conf->access_log, &st))
		errors += access_to("access_log", conf->access_log, W_OK);
	for (v = conf->vhosts; v; v = v->next) {
		errors += access_to("root", v->root, X_OK | (v->listing ? R_OK : 0));
		for (app = v->apps; app; app = app->next) {
			if (app->kind == APP_CGI)
				errors += access_to("cgi directory", app->target, X_OK);
			else if (app->kind == APP_FASTCGI && !strncmp(app->target, "exec:", 5))
				errors += access_to("fastcgi program", app->target + 5, X_OK);
		}
	}
	return errors;
}

int check_machine(const struct conf *conf)
{
	int errors = before_dropping(conf);

	if (worker_drop_privileges(conf))
		return -1;
	return errors + after_dropping(conf) ? -1 : 0;
}
