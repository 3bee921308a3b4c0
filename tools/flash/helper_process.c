// SPDX-License-Identifier: GPL-2.0
#include "helper_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "disk.h"
#include "lookup.h"
#include "worker.h"

#define TRIES_MAX 3
#define HEAD_SIZE offsetof(struct helper_call, name)

/**
 * struct proc - one helper, or room for one
 * @watch: our end of its socket, -1 when there is none
 * @job:   what it works on, or NULL
 */
struct proc {
	struct watch watch;
	struct helper_procs *pool;
	struct job *job;
};

/**
 * struct helper_procs - the pool of one worker; its loop's thread only
 * @spawner: socket to the process that forks helpers, whose id is @pid
 * @jobs:    not yet given to a helper
 * @failed:  that killed their helpers, or for which there are none
 */
struct helper_procs {
	struct worker *w;
	int spawner;
	pid_t pid;
	unsigned int count, busy;
	struct job_queue jobs;
	struct list failed;
	struct helper_call call;	/* being put together */
	struct proc procs[];
};

/* A message with at most one descriptor, @fd or -1. */
static ssize_t send_fd(int sock, struct iovec *iov, int n, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = n };
	struct cmsghdr *cmsg;

	if (fd >= 0) {
		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static ssize_t receive_fd(int sock, void *buf, size_t size, int *fd)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { buf, size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *cmsg;
	ssize_t n;

	*fd = -1;
	do {
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	cmsg = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	if (cmsg && cmsg->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(cmsg), sizeof(int));
	return n;
}

/* Ends when the worker's end of the socket is closed, however that came. */
static void helper_main(const struct conf *conf, int sock)
{
	struct helper_call call;
	struct helper_answer answer;
	ssize_t n;
	int fd;

	prctl(PR_SET_NAME, "flash-helper");
	while ((n = receive_fd(sock, &call, sizeof(call), &fd)) >= (ssize_t)HEAD_SIZE) {
		bool cold = true;

		if (call.kind == JOB_READ)
			answer.err = disk_bring(fd, call.off, call.len, call.map, &cold);
		else
			answer.err = lookup_warm(conf, call.vhost, call.name);
		if (fd >= 0)
			close(fd);
		answer.cold = cold;
		if (send(sock, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
			break;
	}
}

/* Connections and listeners must not live on in here. */
static void close_all_but(const struct conf *conf, int sock)
{
	DIR *d = opendir("/proc/self/fd");
	const struct vhost *v;
	struct dirent *e;

	while (d && (e = readdir(d))) {
		int fd = atoi(e->d_name);

		for (v = conf->vhosts; v && v->root_fd != fd; v = v->next)
			;
		if (fd > 2 && fd != sock && fd != dirfd(d) && !v)
			close(fd);
	}
	if (d)
		closedir(d);
}

static void spawner_main(const struct conf *conf, int sock)
{
	static const int ours[] = { SIGTERM, SIGINT, SIGQUIT, SIGUSR1 };
	unsigned int i;
	char byte;
	int fd;

	for (i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		signal(ours[i], SIG_IGN);	/* the worker decides when it is over */
	signal(SIGCHLD, SIG_IGN);
	prctl(PR_SET_PDEATHSIG, 0);
	prctl(PR_SET_NAME, "flash-spawner");
	close_all_but(conf, sock);
	while (receive_fd(sock, &byte, 1, &fd) == 1) {
		if (fd < 0)
			continue;
		if (!fork()) {
			close(sock);
			helper_main(conf, fd);
			_exit(0);
		}
		close(fd);
	}
	_exit(0);
}

struct helper_procs *helper_procs_new(struct worker *w)
{
	unsigned int max = w->conf->helpers, i;
	struct helper_procs *h = calloc(1, sizeof(*h) + max * sizeof(h->procs[0]));
	int sv[2];

	if (!h)
		return NULL;
	h->w = w;
	job_queue_init(&h->jobs, max, w->conf->schedule == SCHEDULE_SMALL_FIRST);
	list_init(&h->failed);
	for (i = 0; i < max; i++) {
		h->procs[i].pool = h;
		h->procs[i].watch.fd = -1;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv))
		goto undo_pool;
	h->pid = fork();
	if (!h->pid)
		spawner_main(w->conf, sv[1]);
	close(sv[1]);
	if (h->pid < 0)
		goto undo_sockets;
	h->spawner = sv[0];
	return h;

undo_sockets:
	close(sv[0]);
undo_pool:
	free(h);
	return NULL;
}

static void finish(struct job *job, int err, bool cold)
{
	job->answer(job, err, cold);
	job->done(job);
}

/* Later: whoever submitted it does not expect the end yet. */
static void fail(struct helper_procs *h, struct job *job)
{
	list_add_tail(&job->node, &h->failed);
	loop_wake(&h->w->loop);
}

static void died(struct proc *p)
{
	struct helper_procs *h = p->pool;
	struct job *job = p->job;

	loop_close(&h->w->loop, &p->watch);
	p->job = NULL;
	h->count--;
	if (!job)
		return;
	h->busy--;
	job_queue_ended(&h->jobs, job);
	stats_add(h->w->stats, helpers_lost, 1);
	if (++job->tries < TRIES_MAX)
		job_queue_add(&h->jobs, job);
	else
		fail(h, job);
}

static void proc_ready(struct watch *w, uint32_t events);

static bool start(struct helper_procs *h, struct proc *p)
{
	struct iovec iov = { "+", 1 };
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv))
		return false;
	p->watch.fd = sv[0];
	p->watch.ready = proc_ready;
	if (send_fd(h->spawner, &iov, 1, sv[1]) == 1 &&
	    !loop_add(&h->w->loop, &p->watch, EPOLLIN)) {
		close(sv[1]);
		h->count++;
		return true;
	}
	close(sv[0]);
	close(sv[1]);
	p->watch.fd = -1;
	return false;
}

/* An idle helper, a new one, or NULL. */
static struct proc *free_helper(struct helper_procs *h)
{
	struct proc *room = NULL;
	unsigned int i;

	for (i = 0; i < h->jobs.max; i++) {
		struct proc *p = &h->procs[i];

		if (p->watch.fd >= 0 && !p->job)
			return p;
		if (p->watch.fd < 0 && !room)
			room = p;
	}
	return room && start(h, room) ? room : NULL;
}

static bool give(struct helper_procs *h, struct proc *p, struct job *job)
{
	struct helper_call *call = &h->call;
	struct iovec iov = { call, HEAD_SIZE };

	memset(call, 0, HEAD_SIZE);
	call->fd = -1;
	call->kind = job->kind;
	job->pack(job, call);
	iov.iov_len += call->name_len;
	if (send_fd(p->watch.fd, &iov, 1, call->fd) < 0)
		return false;
	p->job = job;
	h->busy++;
	return true;
}

/* As many as there are helpers for. */
static void run_waiting(struct helper_procs *h)
{
	struct proc *p;
	struct job *job;

	while (h->busy < h->jobs.max) {
		p = free_helper(h);
		if (!p && h->count)
			break;
		job = job_queue_take(&h->jobs);
		if (!job)
			break;
		if (!p) {
			job_queue_ended(&h->jobs, job);
			fail(h, job);
		} else if (!give(h, p, job)) {
			p->job = job;
			h->busy++;
			died(p);
		}
	}
}

static void proc_ready(struct watch *w, uint32_t events)
{
	struct proc *p = container_of(w, struct proc, watch);
	struct helper_procs *h = p->pool;
	struct helper_answer answer;
	struct job *job;
	ssize_t n;

	(void)events;
	n = recv(w->fd, &answer, sizeof(answer), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	job = p->job;
	if (n == (ssize_t)sizeof(answer) && job) {
		p->job = NULL;
		h->busy--;
		job_queue_ended(&h->jobs, job);
		finish(job, answer.err, answer.cold);
	} else {
		died(p);
	}
	run_waiting(h);
}

void helper_procs_submit(struct helper_procs *h, struct job *job)
{
	job_queue_add(&h->jobs, job);
	run_waiting(h);
}

static void finish_all(struct list *jobs, int err)
{
	struct job *job;

	while (!list_empty(jobs)) {
		job = list_entry(jobs->next, struct job, node);
		list_del(&job->node);
		finish(job, err, true);
	}
}

void helper_procs_reap(struct helper_procs *h)
{
	struct list failed;

	list_take(&h->failed, &failed);
	finish_all(&failed, -EIO);
}

void helper_procs_free(struct helper_procs *h)
{
	unsigned int i;
	struct job *job;

	if (!h)
		return;
	close(h->spawner);
	for (i = 0; i < h->jobs.max; i++) {
		struct proc *p = &h->procs[i];

		if (p->watch.fd < 0)
			continue;
		loop_close(&h->w->loop, &p->watch);
		job = p->job;
		p->job = NULL;
		if (job)
			finish(job, -EINTR, false);
	}
	finish_all(&h->failed, -EINTR);
	for (i = 0; i < JOB_KINDS; i++)
		finish_all(&h->jobs.waiting[i], -EINTR);
	waitpid(h->pid, NULL, 0);
	free(h);
}
