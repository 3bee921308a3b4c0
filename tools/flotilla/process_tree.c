// SPDX-License-Identifier: GPL-2.0
/* flotilla process: the sockets of a process and of those that it has started. */
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "process.h"

/**
 * struct pids - processes of the machine, or some of them
 * @pid, @parent: beside each other
 * @in:           belongs to what is looked for
 */
struct pids {
	size_t nr, room;
	struct pid {
		pid_t pid, parent;
		bool in;
	} *of;
};

static int pidfd_open_(pid_t pid)
{
	int fd = syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

int process_socket(int pidfd, int fd)
{
	int got = syscall(SYS_pidfd_getfd, pidfd, fd, 0);

	return got < 0 ? -errno : got;
}

int process_open(struct process *p, pid_t pid, bool tree)
{
	*p = (struct process){ .pid = pid, .tree = tree, .pidfd = pidfd_open_(pid) };
	return p->pidfd < 0 ? p->pidfd : 0;
}

void process_close(struct process *p)
{
	if (p->pidfd >= 0)
		close(p->pidfd);
}

bool process_is_gone(const struct process *p)
{
	struct pollfd pfd = { .fd = p->pidfd, .events = POLLIN };

	return poll(&pfd, 1, 0) > 0;
}

/* The parent; 0: it is gone. The name before may hold anything, so from its end. */
static pid_t parent_of(pid_t pid)
{
	char path[64], line[512], *end;
	int parent = 0;
	size_t len;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	len = fread(line, 1, sizeof(line) - 1, f);
	fclose(f);
	line[len] = '\0';
	end = strrchr(line, ')');
	if (!end || sscanf(end + 1, " %*c %d", &parent) != 1)
		return 0;
	return parent;
}

static int pids_add(struct pids *pids, pid_t pid, pid_t parent)
{
	if (pids->nr == pids->room) {
		size_t room = pids->room ? 2 * pids->room : 256;
		struct pid *of = realloc(pids->of, room * sizeof(*of));

		if (!of)
			return -ENOMEM;
		pids->of = of;
		pids->room = room;
	}
	pids->of[pids->nr++] = (struct pid){ pid, parent, false };
	return 0;
}

static int pids_read(struct pids *pids)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int err = 0;

	if (!dir)
		return -errno;
	while (!err && (entry = readdir(dir))) {
		pid_t pid = atoi(entry->d_name);

		if (pid > 0)
			err = pids_add(pids, pid, parent_of(pid));
	}
	closedir(dir);
	return err;
}

/* A child's number may be smaller than its parent's, so until nothing is new. */
static void pids_choose(struct pids *pids, const struct process *p)
{
	bool more = true;
	size_t i, k;

	for (i = 0; i < pids->nr; i++)
		pids->of[i].in = pids->of[i].pid == p->pid;
	while (more) {
		more = false;
		for (i = 0; i < pids->nr; i++) {
			struct pid *one = &pids->of[i];

			if (one->in || one->pid == p->but)
				continue;
			for (k = 0; k < pids->nr; k++)
				if (pids->of[k].in && pids->of[k].pid == one->parent)
					one->in = more = true;
		}
	}
}

static int sockets_of(pid_t pid, int pidfd,
		      int (*see)(uint64_t inode, int pidfd, int fd, void *arg), void *arg)
{
	char path[300], target[64];
	struct dirent *entry;
	DIR *dir;
	int ret = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	while (!ret && (entry = readdir(dir))) {
		unsigned long long inode;
		ssize_t len = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		if (len <= 0)
			continue;
		target[len] = '\0';
		if (sscanf(target, "socket:[%llu]", &inode) == 1)
			ret = see(inode, pidfd, atoi(entry->d_name), arg);
	}
	closedir(dir);
	return ret;
}

int process_sockets(const struct process *p,
		    int (*see)(uint64_t inode, int pidfd, int fd, void *arg), void *arg)
{
	struct pids pids = { 0 };
	int err = 0, pidfd;
	size_t i;

	if (process_is_gone(p))
		return -ESRCH;
	if (!p->tree)
		return sockets_of(p->pid, p->pidfd, see, arg);
	err = pids_read(&pids);
	pids_choose(&pids, p);
	for (i = 0; !err && i < pids.nr; i++) {
		if (!pids.of[i].in)
			continue;
		pidfd = pidfd_open_(pids.of[i].pid);
		if (pidfd < 0)
			continue;	/* it has just ended */
		err = sockets_of(pids.of[i].pid, pidfd, see, arg);
		close(pidfd);
	}
	free(pids.of);
	return err;
}

enum socket_kind socket_kind(int fd, struct sockaddr_storage *local)
{
	socklen_t len = sizeof(int), size = sizeof(*local);
	struct sockaddr_storage peer;
	int protocol = 0, listens = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) || protocol != IPPROTO_TCP ||
	    getsockname(fd, (struct sockaddr *)local, &size))
		return SOCKET_OTHER;
	len = sizeof(listens);
	if (!getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) && listens)
		return SOCKET_LISTENS;
	size = sizeof(peer);
	return getpeername(fd, (struct sockaddr *)&peer, &size) ? SOCKET_OTHER : SOCKET_CONNECTED;
}
