// SPDX-License-Identifier: GPL-2.0
#include "lookup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "helper_process.h"
#include "listing.h"
#include "mime.h"
#include "target.h"
#include "vhost.h"
#include "worker.h"

/**
 * struct lookup - one translation on its way
 * @path:    entry to fill; the job holds a reference
 * @rel:     name below the root, "" for the root itself
 * @nowait:  on the loop: give up with -EAGAIN rather than wait
 * @warmed:  a helper process has just been there: what cannot say "not cached" is tried all the same
 * @foreign: on a file system that may ask a server: only threads go there
 * @remote:  what it answered: 0, a negative errno; 1 when none was asked
 * @program: the name that a program answers for, when the index of a directory is one
 * @app:     that program
 *
 * Belongs to whoever runs it: the loop, then a helper, then the loop again.
 */
struct lookup {
	struct job job;
	struct worker *w;
	struct path *path;
	const struct vhost *vhost;
	char *name;		/* decoded, begins with '/' */
	int root_fd;		/* the host's, or a user's directory */
	bool nowait, warmed, foreign, has_slash, own_root;
	int remote;
	int status;		/* 0, or an HTTP status */
	enum path_kind kind;
	char *program;
	const struct app *app;
	struct file *files[ENC_COUNT];
};

static bool no_cached_flag;	/* kernel older than 5.12 */
static bool no_openat2;

void lookup_probe(void)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_CACHED };
	int fd = syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof(how));

	if (fd >= 0)
		close(fd);
	else if (errno == ENOSYS)
		no_openat2 = true;
	else if (errno == EINVAL)
		no_cached_flag = true;
}

/* @rel is relative and without "..": target_decode() has seen to that. */
static int open_beneath(struct lookup *l, int dir, const char *rel, int flags)
{
	struct open_how how = {
		.flags = flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NOCTTY | O_NONBLOCK),
		.resolve = RESOLVE_NO_MAGICLINKS,
	};
	int fd;

	if (no_openat2) {
		/* Links cannot be followed safely without it: treat all policies as deny. */
		if (l->nowait)
			return -EAGAIN;
		if (strchr(rel, '/'))
			return -ELOOP;
		fd = openat(dir, rel, how.flags | O_NOFOLLOW);
		return fd < 0 ? -errno : fd;
	}
	if (l->vhost->symlinks == SYMLINKS_BENEATH)
		how.resolve |= RESOLVE_BENEATH;
	else if (l->vhost->symlinks == SYMLINKS_DENY)
		how.resolve |= RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
	if (l->nowait) {
		if (no_cached_flag)
			return -EAGAIN;
		/* A cached name may be opened by asking a server all the same, if not by our kernel. */
		l->foreign |= !l->vhost->own_kernel;
		if (l->foreign)
			return -EAGAIN;
		how.resolve |= RESOLVE_CACHED | RESOLVE_NO_XDEV;
	}
	do {
		fd = syscall(SYS_openat2, dir, rel, &how, sizeof(how));
	} while (fd < 0 && errno == EINTR);
	/* What is mounted there is not known; a helper goes there, or finds that it leads outside. */
	if (fd < 0 && errno == EXDEV && l->nowait) {
		l->foreign = true;
		return -EAGAIN;
	}
	return fd < 0 ? -errno : fd;
}

static int status_of(int err)
{
	switch (-err) {
	case ENOENT:
	case ENOTDIR:
	case ENAMETOOLONG:
	case ENXIO:
	case ENODEV:
		return 404;
	case EACCES:
	case EPERM:
	case ELOOP:
	case EXDEV:
		return 403;
	case EMFILE:
	case ENFILE:
	case ENOMEM:
		return 503;
	}
	return 500;
}

/* Makes or finds the file behind @fd, which is taken. 0, or a negative errno. */
static int adopt_file(struct lookup *l, int fd, const struct stat *st, const char *name,
		      enum encoding enc, bool vary)
{
	const char *mime = mime_type(l->w->conf->mime, name);
	struct file *f = NULL;
	struct file_id id;
	int err;

	file_identify(&id, st);
	/* The table belongs to the loop; a helper leaves it alone. */
	if ((l->nowait || l->w->may_wait) && l->w->conf->map_cache && l->w->conf->header_cache)
		f = file_find(l->w->cache, l->vhost, &id, mime, enc, vary);
	if (f) {
		close(fd);
		l->files[enc] = f;
		return 0;
	}
	f = file_create(l->w->conf, l->vhost, fd, &id, mime, enc, vary);
	if (!f)
		return -ENOMEM;
	err = file_load(f, l->nowait);
	if (err) {
		file_destroy(f);
		return err;
	}
	l->files[enc] = f;
	return 0;
}

/*
 * A program's text is never a document, whatever name leads to it: a link with another name, a
 * name that the file system takes for the same (case, dots and blanks at its end), a host that has
 * the program's directory but not its rule. Refused by the name in the request and by the name
 * that the file was found under, also where that cannot be told.
 */
static bool is_program(const struct lookup *l, int fd, const struct stat *st, const char *rel)
{
	static const char gone[] = " (deleted)";
	char link[32], name[PATH_MAX];
	ssize_t n;

	if (!l->w->conf->programs)
		return false;
	if (vhost_program_text(l->w->conf, rel))
		return true;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, name, sizeof(name));
	if (n < 0 || n == sizeof(name))
		return true;
	name[n] = '\0';
	if (n >= (ssize_t)sizeof(gone) && !strcmp(name + n - (sizeof(gone) - 1), gone))
		name[n - (sizeof(gone) - 1)] = '\0';
	return vhost_program_text(l->w->conf, name) ||
	       vhost_program_place(l->w->conf, name, st->st_mode);
}

static int find_precompressed(struct lookup *l, int dir, const char *rel, const struct stat *st)
{
	static const char *const suffix[ENC_COUNT] = { "", ".gz", ".br" };
	char name[PATH_MAX];
	struct stat own;
	int enc, fd, err;

	for (enc = ENC_GZIP; enc < ENC_COUNT; enc++) {
		if (snprintf(name, sizeof(name), "%s%s", rel, suffix[enc]) >= (int)sizeof(name))
			continue;
		fd = open_beneath(l, dir, name, O_RDONLY);
		if (fd == -EAGAIN && l->nowait)
			return -EAGAIN;
		if (fd < 0)
			continue;
		/* An older one was made from older contents. */
		if (fstat(fd, &own) || !S_ISREG(own.st_mode) ||
		    own.st_mtim.tv_sec < st->st_mtim.tv_sec || is_program(l, fd, &own, name)) {
			close(fd);
			continue;
		}
		err = adopt_file(l, fd, &own, rel, enc, true);
		if (err == -EAGAIN && l->nowait)
			return err;
	}
	return 0;
}

static int found_regular(struct lookup *l, int dir, const char *rel, int fd, const struct stat *st)
{
	bool vary = l->vhost->precompressed;
	int err;

	l->kind = PATH_FILE;
	if (is_program(l, fd, st, rel)) {
		close(fd);
		return -EACCES;
	}
	if (vary) {
		err = find_precompressed(l, dir, rel, st);
		if (err) {
			close(fd);
			return err;
		}
	}
	return adopt_file(l, fd, st, rel, ENC_IDENTITY, vary);
}

/*
 * The index of the directory that @l names may be a program. 1: it is one and is there; 0: no
 * program answers for this name; otherwise a negative errno.
 */
static int found_program(struct lookup *l, int dir, const char *index)
{
	const struct app *app;
	struct stat st;
	char *name;
	int fd, err;

	if (asprintf(&name, "%s%s", l->name, index) < 0)
		return -ENOMEM;
	app = vhost_app(l->vhost, name);
	if (!app) {
		free(name);
		return 0;
	}
	/* It is not read here: only the program itself need be able to. */
	fd = open_beneath(l, dir, index, O_PATH);
	err = fd < 0 ? fd : fstat(fd, &st) ? -errno : S_ISREG(st.st_mode) ? 1 : -ENOENT;
	if (fd >= 0)
		close(fd);
	if (err < 0) {
		free(name);
		return err;
	}
	l->program = name;
	l->app = app;
	l->kind = PATH_APP;
	return 1;
}

static int found_directory(struct lookup *l, int dir)
{
	struct stat st;
	int i, fd, err;

	if (!l->has_slash) {
		l->kind = PATH_REDIRECT;
		return 0;
	}
	for (i = 0; l->vhost->index[i]; i++) {
		err = found_program(l, dir, l->vhost->index[i]);
		if (err == -ENOENT)
			continue;
		if (err)
			return err < 0 ? err : 0;
		fd = open_beneath(l, dir, l->vhost->index[i], O_RDONLY);
		if (fd == -ENOENT)
			continue;
		if (fd < 0)
			return fd;
		if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
			close(fd);
			continue;
		}
		return found_regular(l, dir, l->vhost->index[i], fd, &st);
	}
	if (!l->vhost->listing)
		return -EACCES;
	if (l->nowait && !l->warmed)	/* reading a directory has no way to say "not cached" */
		return -EAGAIN;
	err = listing_create(l->w->conf, l->vhost, dir, l->name, &l->files[ENC_IDENTITY]);
	l->kind = PATH_FILE;
	return err;
}

/*
 * "/~bob/x" is "x" below "/home/bob/public_html". The name up to "bob" is the administrator's; what
 * is behind it is bob's, who could have made it a link to what he may not read.
 */
static int enter_userdir(struct lookup *l, const char **rel)
{
	const char *user = l->name + 2, *end = strchr(user, '/'), *plus;
	char dir[PATH_MAX], *own;
	int home;

	if (!end)
		end = user + strlen(user);
	if (end == user || *user == '.')
		return -ENOENT;
	plus = strchr(l->vhost->userdir, '+');
	if (snprintf(dir, sizeof(dir), "%.*s%.*s%s", (int)(plus - l->vhost->userdir),
		     l->vhost->userdir, (int)(end - user), user, plus + 1) >= (int)sizeof(dir))
		return -ENAMETOOLONG;
	if (l->nowait && !l->warmed)
		return -EAGAIN;
	own = strchr(dir + (plus - l->vhost->userdir) + (end - user), '/');
	while (own && *own == '/')
		*own++ = '\0';
	home = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (home < 0)
		return -errno;
	l->root_fd = home;
	if (own && *own) {
		l->root_fd = open_beneath(l, home, own, O_PATH | O_DIRECTORY);
		close(home);
	}
	if (l->root_fd < 0)
		return l->root_fd;
	l->own_root = true;
	*rel = *end ? end + 1 : end;
	return 0;
}

/*
 * A program that is named by a suffix opens the file itself, and some go up the path until they find
 * one: "/upload/picture.jpg/x.php" must not reach it. What is not here may be where the program is.
 */
static int found_script(struct lookup *l, const struct app *app)
{
	int fd = open_beneath(l, l->root_fd, l->name[1] ? l->name + 1 : ".", O_PATH);

	if (fd < 0 && fd != -ENOENT)
		return fd;
	if (fd >= 0)
		close(fd);
	l->program = strdup(l->name);
	l->app = app;
	l->kind = PATH_APP;
	return l->program ? 0 : -ENOMEM;
}

static void drop_files(struct lookup *l)
{
	int i;

	free(l->program);
	l->program = NULL;
	for (i = 0; i < ENC_COUNT; i++) {
		if (!l->files[i])
			continue;
		if (l->files[i]->hashed)
			file_put(l->w->cache, l->files[i]);
		else
			file_destroy(l->files[i]);
		l->files[i] = NULL;
	}
}

static int lookup_files(struct lookup *l)
{
	const struct app *app = vhost_app(l->vhost, l->name);
	const char *rel = l->name + 1;
	char trimmed[PATH_MAX];
	size_t len;
	struct stat st;
	int fd, err;

	if (app)
		return found_script(l, app);
	if (l->vhost->userdir && l->name[1] == '~') {
		err = enter_userdir(l, &rel);
		if (err)
			return err;
		/* "/~bob" itself needs the slash like any directory. */
	}
	len = strlen(rel);
	if (len >= sizeof(trimmed))
		return -ENAMETOOLONG;
	memcpy(trimmed, rel, len + 1);
	while (len && trimmed[len - 1] == '/')
		trimmed[--len] = '\0';
	fd = open_beneath(l, l->root_fd, len ? trimmed : ".", O_RDONLY);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st)) {
		err = -errno;
	} else if (S_ISDIR(st.st_mode)) {
		err = found_directory(l, fd);
	} else if (!S_ISREG(st.st_mode)) {
		err = -EACCES;
	} else if (l->has_slash) {
		err = -ENOENT;
	} else {
		return found_regular(l, l->root_fd, trimmed, fd, &st);
	}
	close(fd);
	return err;
}

static void lookup_run(struct lookup *l)
{
	int err, tries = 0;

	do {		/* -ESTALE: the file changed between fstat and read */
		drop_files(l);
		if (l->own_root)
			close(l->root_fd);
		l->own_root = false;
		l->root_fd = l->vhost->root_fd;
		l->kind = PATH_ERROR;
		err = lookup_files(l);
	} while (err == -ESTALE && ++tries < 3);
	if (l->own_root)
		close(l->root_fd);
	l->own_root = false;
	l->status = 0;
	if (!err)
		return;
	drop_files(l);
	l->kind = PATH_ERROR;
	l->status = err == -EAGAIN && l->nowait ? -EAGAIN : status_of(err);
}

static void job_run(struct job *job)
{
	lookup_run(container_of(job, struct lookup, job));
}

static void job_pack(struct job *job, struct helper_call *call)
{
	struct lookup *l = container_of(job, struct lookup, job);

	call->vhost = l->vhost->id;
	call->name_len = snprintf(call->name, sizeof(call->name), "%s", l->name) + 1;
	if (call->name_len > sizeof(call->name))
		call->name_len = sizeof(call->name);
}

static void job_answer(struct job *job, int err, bool cold)
{
	(void)cold;
	container_of(job, struct lookup, job)->remote = err;
}

int lookup_warm(const struct conf *conf, int vhost, const char *name)
{
	struct worker w = { .conf = conf };
	struct lookup l = { .w = &w, .vhost = conf->vhosts, .name = (char *)name };

	while (l.vhost && l.vhost->id != vhost)
		l.vhost = l.vhost->next;
	if (!l.vhost)
		return -EINVAL;
	l.has_slash = name[strlen(name) - 1] == '/';
	lookup_run(&l);
	drop_files(&l);
	return 0;
}

/* Moves the result into the entry; on the loop (in mt: the thread that looked). */
static void publish(struct lookup *l)
{
	struct path *p = l->path;
	struct cache *c = l->w->cache;
	int i;

	for (i = 0; i < ENC_COUNT; i++) {
		struct file *f = l->files[i];

		if (f && !f->hashed)
			file_insert(c, f);
		p->files[i] = f;
	}
	if (l->kind == PATH_REDIRECT) {
		p->location = malloc(3 * strlen(l->name) + 2);
		if (p->location) {
			target_encode(l->name, p->location);
			strcat(p->location, "/");
		} else {
			l->kind = PATH_ERROR;
			l->status = 503;
		}
	}
	p->app = l->app;
	p->app_path = l->program;
	p->status = l->status;
	p->checked = l->w->loop.now;
	p->kind = l->kind;
	free(l->name);
	free(l);
}

/*
 * A helper process has been where the name leads; now the loop goes there itself. False: it was
 * evicted meanwhile, and a helper goes once more.
 */
static bool collect(struct lookup *l)
{
	bool first = !l->warmed;

	if (l->remote == -EINTR) {		/* the worker ends */
		l->status = 503;
		l->kind = PATH_ERROR;
		return true;
	}
	l->nowait = true;
	l->warmed = true;
	lookup_run(l);
	if (l->status != -EAGAIN)
		return true;
	if (first && !l->remote) {
		helper_submit(l->w->helpers, &l->job);
		return false;
	}
	stats_add(l->w->stats, lookups_cold, 1);
	l->nowait = false;
	lookup_run(l);
	return true;
}

static void job_done(struct job *job)
{
	struct lookup *l = container_of(job, struct lookup, job);
	struct worker *w = l->w;
	struct path *p = l->path;
	struct list waiters;

	if (l->remote <= 0 && !collect(l))
		return;
	publish(l);
	list_take(&p->waiters, &waiters);
	while (!list_empty(&waiters)) {
		struct waiter *waiter = list_entry(waiters.next, struct waiter, node);

		list_del(&waiter->node);
		waiter->ready(waiter, p);
	}
	/* Short of something now says nothing about the next time. */
	if (p->status >= 500)
		path_remove(w->cache, p);
	path_put(w->cache, p);
}

/* Answers that need no file system: bad names and programs, but those that name a file. */
static bool settle_early(struct path *p, char *name)
{
	int err = target_decode(p->name, p->len, name);

	if (err) {
		p->kind = PATH_ERROR;
		p->status = -err;
		return true;
	}
	p->app = vhost_app(p->vhost, name);
	if (!p->app || p->app->match[0] == '*') {
		p->app = NULL;
		return false;
	}
	p->app_path = strdup(name);
	p->kind = p->app_path ? PATH_APP : PATH_ERROR;
	p->status = 503;
	return true;
}

static struct path *fill(struct worker *w, struct path *p, struct waiter *waiter)
{
	struct lookup *l;
	char *name = malloc(p->len + 1);

	if (!name)
		goto no_memory;
	if (settle_early(p, name)) {
		free(name);
		p->checked = w->loop.now;
		goto insert;
	}
	l = calloc(1, sizeof(*l));
	if (!l) {
		free(name);
		goto no_memory;
	}
	l->w = w;
	l->path = p;
	l->vhost = p->vhost;
	l->name = name;
	l->has_slash = name[strlen(name) - 1] == '/';
	l->nowait = !w->may_wait;
	lookup_run(l);
	if (l->status != -EAGAIN) {
		stats_add(w->stats, lookups_inline, 1);
		publish(l);
		goto insert;
	}
	stats_add(w->stats, lookups_helper, 1);
	p->refs++;	/* of the job */
	p->kind = PATH_PENDING;
	list_add_tail(&waiter->node, &p->waiters);
	path_insert(w->cache, p, w->stats);
	l->nowait = false;
	l->remote = 1;
	l->job.kind = JOB_NAME;
	l->job.run = job_run;
	l->job.done = job_done;
	l->job.pack = l->foreign ? NULL : job_pack;
	l->job.answer = job_answer;
	helper_submit(w->helpers, &l->job);
	path_put(w->cache, p);
	return NULL;

insert:
	if (p->status < 500)
		path_insert(w->cache, p, w->stats);
	return p;

no_memory:
	path_put(w->cache, p);
	return NULL;
}

struct path *lookup_path(struct worker *w, const struct vhost *vhost, const struct slice *name,
			 uint32_t hash, struct waiter *waiter)
{
	struct path *p = path_find(w->cache, vhost, name, hash);

	if (p) {
		if (p->kind == PATH_PENDING) {
			list_add_tail(&waiter->node, &p->waiters);
			path_put(w->cache, p);
			return NULL;
		}
		if (w->loop.now - __atomic_load_n(&p->checked, __ATOMIC_RELAXED) <=
		    w->conf->revalidate_ms) {
			stats_add(w->stats, path_hits, 1);
			return p;
		}
		/* Looked up anew; a file still in the same state is found in the file table. */
		path_put(w->cache, p);
	}
	stats_add(w->stats, path_misses, 1);
	p = path_new(vhost, name, hash);
	return p ? fill(w, p, waiter) : NULL;
}
