/* SPDX-License-Identifier: GPL-2.0 */
/* flotilla process: the sockets of a process and of those that it has started. */
#ifndef FLOTILLA_PROCESS_H
#define FLOTILLA_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/**
 * struct process - one that was named on the command line
 * @pid:   its number
 * @pidfd: of it: the number may be another's later
 * @tree:  with those that it and its children have started
 * @but:   without this one and what that has started, or 0
 */
struct process {
	pid_t pid;
	int pidfd;
	bool tree;
	pid_t but;
};

/* 0 or a negative errno. */
int process_open(struct process *p, pid_t pid, bool tree);
void process_close(struct process *p);
bool process_is_gone(const struct process *p);

/**
 * process_sockets - call for each descriptor that is a socket
 * @p:   whose
 * @see: gets the socket's inode number, and what process_socket() needs; non-zero ends it
 * @arg: for @see
 *
 * Return: what @see returned; 0; -ESRCH: it is gone; or why it cannot be looked at.
 */
int process_sockets(const struct process *p,
		    int (*see)(uint64_t inode, int pidfd, int fd, void *arg), void *arg);

/* A copy of a descriptor, to be closed soon: the socket does not close before. Or -errno. */
int process_socket(int pidfd, int fd);

enum socket_kind { SOCKET_OTHER, SOCKET_LISTENS, SOCKET_CONNECTED };

/* TCP sockets only; @local is its own address. */
enum socket_kind socket_kind(int fd, struct sockaddr_storage *local);

#endif
