// SPDX-License-Identifier: GPL-2.0
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
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
		  int out, int *said)
{
	char *argv[] = { (char *)program, NULL }, **envp = env_list(env, env_len);
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t all, none;
	int err, errors[2];
	pid_t pid;

	*said = -1;
	if (!envp)
		return -ENOMEM;
	if (pipe2(errors, O_CLOEXEC)) {
		err = errno;
		free(envp);
		return -err;
	}
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
	if (!err)
		err = posix_spawn_file_actions_adddup2(&actions, errors[1], STDERR_FILENO);
	if (!err && dir)
		err = posix_spawn_file_actions_addchdir_np(&actions, dir);
	if (!err)
		err = posix_spawn(&pid, program, &actions, &attr, argv, envp);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	free(envp);
	close(errors[1]);
	if (err) {
		close(errors[0]);
		return -err;
	}
	fcntl(errors[0], F_SETFL, O_NONBLOCK);
	*said = errors[0];
	return pid;
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
