// SPDX-License-Identifier: GPL-2.0
/* CGI (RFC 3875): a process for each request, its answer through a pipe. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iolite.h>

#include "app.h"
#include "body.h"
#include "child.h"
#include "said.h"

#define READ_SIZE (32 << 10)

/**
 * struct cgi - one process
 * @job:      starts it; meanwhile only the helper touches @pid and @error
 * @said:     its standard error, until spawn_done()
 * @starting: @job is out
 * @submitting: in cgi_start(), which reports an error itself
 * @released: the run is to be freed when @job comes back
 */
struct cgi {
	struct app_run *run;
	struct worker *w;
	struct watch out;
	struct grave grave;
	struct job job;
	int in, child_out, said;
	pid_t pid;
	int error;
	bool starting, released, submitting;
	struct child *child;
};

static void cgi_free(struct grave *g)
{
	free(container_of(g, struct cgi, grave));
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void child_gone(struct child *child)
{
	struct cgi *cgi = child->owner;

	if (cgi)
		cgi->child = NULL;
}

static int cgi_begin(struct app_run *run);

/* Who waits for a process gets one, as long as there may be more. */
static void next_waiting(struct worker *w)
{
	int err;

	if (w->cgi_serving)
		return;
	w->cgi_serving = true;
	while (!list_empty(&w->cgi_waiting) && w->nr_cgi < w->conf->cgi_processes) {
		struct app_run *run = list_entry(w->cgi_waiting.next, struct app_run, wait);

		list_del(&run->wait);
		err = cgi_begin(run);
		if (err)
			app_finish(run, -err);
	}
	w->cgi_serving = false;
}

static void cgi_dispose(struct cgi *cgi)
{
	struct worker *w = cgi->w;

	if (cgi->child) {
		cgi->child->owner = NULL;
		/* It may do as it likes once its answer is complete, but not before. */
		if (cgi->out.fd >= 0)
			kill(-cgi->child->pid, SIGKILL);
	}
	if (cgi->out.fd >= 0)
		loop_close(&cgi->w->loop, &cgi->out);
	close_fd(&cgi->in);
	close_fd(&cgi->child_out);
	app_run_free(cgi->run);
	loop_bury(&w->loop, &cgi->grave);
	w->nr_cgi--;
	next_waiting(w);
}

static void cgi_release(struct app_run *run)
{
	struct cgi *cgi = run->priv;

	if (!cgi) {
		list_del(&run->wait);
		app_run_free(run);
		return;
	}
	cgi->released = true;
	if (!cgi->starting)
		cgi_dispose(cgi);
}

/* Once from the pipe to the client. Bytes, 0 at the end, -1 and errno; *gone: the run is. */
static ssize_t cgi_pass(struct cgi *cgi, bool *gone)
{
	char buf[READ_SIZE];
	struct IOL_Agg *agg;
	size_t room;
	ssize_t n;

	if (!cgi->run->tx.lite) {
		room = app_room(cgi->run, sizeof(buf));
		if (!room) {
			errno = EAGAIN;		/* goes on with cgi_resume() */
			return -1;
		}
		n = read(cgi->out.fd, buf, room);
		*gone = n > 0 && app_output(cgi->run, buf, n);
		return n;
	}
	n = app_read_agg(cgi->out.fd, &agg);
	if (n > 0) {
		*gone = app_output_agg(cgi->run, agg, 0, n);
		IOL_destroy(agg);
	}
	return n;
}

static void cgi_read(struct cgi *cgi)
{
	unsigned int reads = 0;
	bool gone = false;
	ssize_t n;

	while (!gone && !cgi->run->full) {
		if (++reads > APP_READS) {
			if (watch_again(&cgi->w->loop, &cgi->out))
				app_finish(cgi->run, 503);
			return;
		}
		n = cgi_pass(cgi, &gone);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			loop_close(&cgi->w->loop, &cgi->out);
			app_finish(cgi->run, n < 0 ? 502 : 0);
			return;
		}
	}
}

static void out_ready(struct watch *watch, uint32_t events)
{
	(void)events;
	cgi_read(container_of(watch, struct cgi, out));
}

static void cgi_resume(struct app_run *run)
{
	if (run->priv)
		cgi_read(run->priv);
}

static void spawn_run(struct job *job)
{
	struct cgi *cgi = container_of(job, struct cgi, job);
	struct app_run *run = cgi->run;

	cgi->pid = child_spawn(run->script, run->app->target, run->env, run->env_len, cgi->in,
			       cgi->child_out, &cgi->said);
	cgi->error = cgi->pid < 0 ? -cgi->pid : 0;
}

static int status_of(int error)
{
	if (error == ENOENT || error == ENOTDIR)
		return 404;
	return error == EACCES || error == ENOEXEC ? 403 : 503;
}

static void spawn_done(struct job *job)
{
	struct cgi *cgi = container_of(job, struct cgi, job);

	cgi->starting = false;
	close_fd(&cgi->in);
	close_fd(&cgi->child_out);
	if (cgi->said >= 0)
		said_watch(cgi->w, cgi->run->script, cgi->said);
	if (!cgi->error) {
		stats_add(cgi->w->stats, cgi_started, 1);
		cgi->child = child_watch(cgi->w, cgi->pid);
		if (!cgi->child)
			cgi->error = ENOMEM;
	}
	if (cgi->child) {
		cgi->child->owner = cgi;
		cgi->child->ended = child_gone;
	}
	if (cgi->released) {
		cgi_dispose(cgi);
		return;
	}
	if (!cgi->error && loop_add(&cgi->w->loop, &cgi->out, EPOLLIN | EPOLLET))
		cgi->error = ENOMEM;
	if (cgi->error && !cgi->submitting)
		app_finish(cgi->run, status_of(cgi->error));
}

static int cgi_begin(struct app_run *run)
{
	struct cgi *cgi = calloc(1, sizeof(*cgi));
	int out[2];

	if (!cgi)
		return -503;
	cgi->run = run;
	cgi->w = run->w;
	cgi->w->nr_cgi++;
	cgi->out.fd = -1;
	cgi->child_out = -1;
	cgi->grave.free = cgi_free;
	run->priv = cgi;
	cgi->in = run->c->body ? fcntl(body_fd(run->c->body), F_DUPFD_CLOEXEC, 3)
			       : open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (cgi->in < 0 || pipe2(out, O_CLOEXEC))
		return -503;
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	cgi->out.fd = out[0];
	cgi->out.ready = out_ready;
	cgi->out.nonblocking = true;
	cgi->child_out = out[1];
	cgi->starting = true;
	cgi->job.kind = JOB_NAME;
	cgi->job.run = spawn_run;
	cgi->job.done = spawn_done;
	cgi->submitting = true;
	job_submit(run->w, &cgi->job);
	cgi->submitting = false;
	/* While it is starting, @error is the helper's. */
	return !cgi->starting && cgi->error ? -status_of(cgi->error) : 0;
}

/* A process for each who asks would be as many as there are connections. */
static int cgi_start(struct app_run *run)
{
	if (run->w->nr_cgi < run->w->conf->cgi_processes)
		return cgi_begin(run);
	list_add_tail(&run->wait, &run->w->cgi_waiting);
	return 0;
}

const struct app_ops cgi_ops = {
	.start = cgi_start,
	.resume = cgi_resume,
	.release = cgi_release,
};
