// SPDX-License-Identifier: GPL-2.0
#include "child.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void job_submit(struct worker *w, struct job *job)
{
	if (w->helpers) {
		helper_submit(w->helpers, job);
		return;
	}
	job->run(job);
	job->done(job);
}

static char **env_list(const char *env, size_t len)
{
	size_t n = 2, i;
	char **list;
	const char *p;

	for (i = 0; i < len; i++)
		n += !env[i];
	list = malloc(n * sizeof(*list));
	if (!list)
		return NULL;
	n = 0;
	list[n++] = "PATH=/usr/local/bin:/usr/bin:/bin";
	for (p = env; p < env + len; p += strlen(p) + 1)
		list[n++] = (char *)p;
	list[n] = NULL;
	return list;
}

pid_t child_spawn(const char *program, const char *dir, const char *env, size_t env_len, int in,
		  int out)
{
	char *argv[] = { (char *)program, NULL }, **envp = env_list(env, env_len);
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t all, none;
	pid_t pid;
	int err;

	if (!envp)
		return -ENOMEM;
	sigfillset(&all);
	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
				 POSIX_SPAWN_SETPGROUP);
	err = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	if (!err && out >= 0)
		err = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	if (!err && dir)
		err = posix_spawn_file_actions_addchdir_np(&actions, dir);
	if (!err)
		err = posix_spawn(&pid, program, &actions, &attr, argv, envp);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	free(envp);
	return err ? -err : pid;
}

static void child_free(struct grave *g)
{
	free(container_of(g, struct child, grave));
}

static void child_ended(struct watch *watch, uint32_t events)
{
	struct child *child = container_of(watch, struct child, watch);

	(void)events;
	if (waitpid(child->pid, NULL, WNOHANG) == 0)
		return;
	loop_close(&child->w->loop, watch);
	list_del(&child->node);
	if (child->ended)
		child->ended(child);
	loop_bury(&child->w->loop, &child->grave);
}

struct child *child_watch(struct worker *w, pid_t pid)
{
	struct child *child = calloc(1, sizeof(*child));

	if (!child)
		goto undo_pid;
	child->w = w;
	child->pid = pid;
	child->grave.free = child_free;
	child->watch.ready = child_ended;
	child->watch.fd = syscall(SYS_pidfd_open, pid, 0);
	if (child->watch.fd < 0)
		goto undo_child;
	if (loop_add(&w->loop, &child->watch, EPOLLIN))
		goto undo_fd;
	list_add(&child->node, &w->children);
	return child;

undo_fd:
	close(child->watch.fd);
undo_child:
	free(child);
undo_pid:
	kill(-pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return NULL;
}

void children_exit(struct worker *w)
{
	while (!list_empty(&w->children)) {
		struct child *child = list_entry(w->children.next, struct child, node);

		kill(-child->pid, SIGTERM);
		loop_close(&w->loop, &child->watch);
		list_del(&child->node);
		free(child);
	}
}

/* What a program complains of; whoever reads our standard error may have stopped. */
void child_said(const char *p, size_t len)
{
	struct pollfd fd = { .fd = STDERR_FILENO, .events = POLLOUT };
	ssize_t n;

	if (send(STDERR_FILENO, p, len, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 || errno != ENOTSOCK)
		return;
	/* A pipe that has room at all takes this much at once. */
	while (len && poll(&fd, 1, 0) == 1 && fd.revents & POLLOUT) {
		n = write(STDERR_FILENO, p, len < PIPE_BUF ? len : PIPE_BUF);
		if (n <= 0)
			return;
		p += n;
		len -= n;
	}
}
