// SPDX-License-Identifier: GPL-2.0
/* Programs that speak FastCGI: where each is, its processes if we start them, who waits for it. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "child.h"
#include "fcgi.h"

#define RESPAWN_MS 1000

void fcgi_pool_serve(struct fcgi_pool *p)
{
	int err;

	if (p->serving)
		return;
	p->serving = true;
	while (!list_empty(&p->waiting) && list_empty(&p->retry.node) &&
	       (p->nr_idle || p->nr < p->w->conf->fastcgi_connections)) {
		struct app_run *run = list_entry(p->waiting.next, struct app_run, wait);

		list_del(&run->wait);
		err = fcgi_begin(run, false);
		if (err)
			app_finish(run, -err);
	}
	p->serving = false;
}

static void retry_expired(struct timer *t)
{
	fcgi_pool_serve(container_of(t, struct fcgi_pool, retry));
}

/*
 * May one more connection be kept? A program may serve only as many connections as it has
 * processes (php-fpm does): each that is kept here takes one of them from all others, of other
 * workers and machines, too. So those that we did not start are not kept unless told, and none is
 * while a request of our own has not been heard of.
 */
bool fcgi_pool_may_keep(const struct fcgi_pool *p)
{
	unsigned int most = p->listen >= 0 ? p->app->procs : p->w->conf->fastcgi_keep;

	return p->nr_idle < most && !p->unheard && list_empty(&p->waiting);
}

static void spawn_run(struct job *job)
{
	struct fcgi_pool *p = container_of(job, struct fcgi_pool, spawn);

	p->pid = child_spawn(p->app->target + 5, NULL, "", 0, p->listen, -1, &p->said);
}

static void spawn_next(struct fcgi_pool *p)
{
	if (!p->missing || p->spawning || p->stop)
		return;
	p->spawning = true;
	job_submit(p->w, &p->spawn);
}

static void process_ended(struct child *child)
{
	struct fcgi_pool *p = child->owner;

	p->missing++;
	loop_timer_set(&p->w->loop, &p->respawn, p->w->loop.now + RESPAWN_MS);
}

static void spawn_done(struct job *job)
{
	struct fcgi_pool *p = container_of(job, struct fcgi_pool, spawn);
	struct child *child;

	p->spawning = false;
	if (p->said >= 0)
		said_watch(p->w, p->app->target + 5, p->said);
	child = p->pid < 0 ? NULL : child_watch(p->w, p->pid);
	if (!child) {
		fprintf(stderr, "flash: cannot start %s: %s\n", p->app->target + 5,
			strerror(p->pid < 0 ? -p->pid : ENOMEM));
		loop_timer_set(&p->w->loop, &p->respawn, p->w->loop.now + RESPAWN_MS);
		return;
	}
	child->owner = p;
	child->ended = process_ended;
	p->missing--;
	spawn_next(p);
}

static void respawn_expired(struct timer *t)
{
	spawn_next(container_of(t, struct fcgi_pool, respawn));
}

/*
 * Who can connect is believed all that a request says. So the socket has a name only in a directory of
 * our own and only until it is bound; from then on it is found by our descriptor of its file. A
 * name that is none of the file system's could be used by all.
 */
static int bind_for_exec(struct fcgi_pool *p)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	char dir[] = "/tmp/flash-XXXXXX";

	if (!mkdtemp(dir))
		return -1;
	snprintf(un.sun_path, sizeof(un.sun_path), "%s/fastcgi", dir);
	if (!bind(p->listen, (struct sockaddr *)&un, sizeof(un))) {
		p->file = open(un.sun_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		unlink(un.sun_path);
	}
	rmdir(dir);
	return p->file < 0 ? -1 : 0;
}

static int listen_for_exec(struct fcgi_pool *p)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&p->addr;

	p->listen = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (p->listen < 0 || bind_for_exec(p) || listen(p->listen, 1024)) {
		fprintf(stderr, "flash: no socket in /tmp for %s: %s\n", p->app->target + 5,
			strerror(errno));
		return -1;
	}
	un->sun_family = AF_UNIX;
	snprintf(un->sun_path, sizeof(un->sun_path), "/proc/self/fd/%d", p->file);
	p->addr_len = sizeof(*un);
	p->missing = p->app->procs;
	return 0;
}

static int resolve(struct fcgi_pool *p)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
	}, *res;
	const char *target = p->app->target, *colon = strrchr(target, ':');
	char host[64];

	if (!strncmp(target, "unix:", 5)) {
		struct sockaddr_un *un = (struct sockaddr_un *)&p->addr;
		size_t len = strlen(target + 5);

		if (len >= sizeof(un->sun_path))
			return -1;
		un->sun_family = AF_UNIX;
		memcpy(un->sun_path, target + 5, len);
		p->addr_len = offsetof(struct sockaddr_un, sun_path) + len + 1;
		return 0;
	}
	if (*target == '[')
		target++;
	snprintf(host, sizeof(host), "%.*s", (int)(colon - target - (colon[-1] == ']')), target);
	if (getaddrinfo(host, colon + 1, &hints, &res))
		return -1;
	memcpy(&p->addr, res->ai_addr, res->ai_addrlen);
	p->addr_len = res->ai_addrlen;
	freeaddrinfo(res);
	return 0;
}

static void pool_free(struct fcgi_pool *p)
{
	if (p->listen >= 0)
		close(p->listen);
	if (p->file >= 0)
		close(p->file);
	free(p);
}

struct fcgi_pool *fcgi_pool_get(struct worker *w, const struct app *app)
{
	struct fcgi_pool *p;

	if (!w->fcgi)
		w->fcgi = calloc(w->conf->nr_apps, sizeof(*w->fcgi));
	if (!w->fcgi)
		return NULL;
	if (w->fcgi[app->index])
		return w->fcgi[app->index];
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->w = w;
	p->app = app;
	p->listen = -1;
	p->file = -1;
	p->spawn.kind = JOB_NAME;
	p->spawn.run = spawn_run;
	p->spawn.done = spawn_done;
	p->respawn.expired = respawn_expired;
	p->retry.expired = retry_expired;
	list_init(&p->idle);
	list_init(&p->waiting);
	list_init(&p->respawn.node);
	list_init(&p->retry.node);
	if (strncmp(app->target, "exec:", 5) ? resolve(p) : listen_for_exec(p)) {
		pool_free(p);
		return NULL;
	}
	w->fcgi[app->index] = p;
	spawn_next(p);
	return p;
}

void fcgi_stop(struct worker *w)
{
	unsigned int i;

	for (i = 0; w->fcgi && i < w->conf->nr_apps; i++)
		if (w->fcgi[i])
			w->fcgi[i]->stop = true;
}

void fcgi_exit(struct worker *w)
{
	unsigned int i;

	for (i = 0; w->fcgi && i < w->conf->nr_apps; i++) {
		struct fcgi_pool *p = w->fcgi[i];

		if (!p)
			continue;
		loop_timer_del(&p->retry);
		while (!list_empty(&p->idle))
			fcgi_close(list_entry(p->idle.next, struct fcgi, node));
		loop_timer_del(&p->respawn);
		pool_free(p);
	}
	free(w->fcgi);
	w->fcgi = NULL;
}
