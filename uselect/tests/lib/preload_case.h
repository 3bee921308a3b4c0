/* SPDX-License-Identifier: GPL-2.0 */
/* Small programs that wait in all the ways that programs do; they know nothing of uselect. */
#ifndef USELECT_PRELOAD_CASE_H
#define USELECT_PRELOAD_CASE_H

#include <sys/epoll.h>

#include "uselect/tests/lib/sockets.h"

/* What an epoll said in several waits, by data. */
struct said {
	int nr;
	struct epoll_event ev[64];
};

/* Whom nobody can see: system calls without the C library. */
long raw_epoll_ctl(int epfd, int op, int fd, uint32_t events, uint64_t data);
long raw_clone(void);
/* By io_uring; -1 with errno when there is none. */
long ring_epoll_ctl(int epfd, int op, int fd, uint32_t events, uint64_t data);
int lib_epoll_ctl(int epfd, int op, int fd, uint32_t events, uint64_t data);

/* So many waits that the kernel is asked, too. */
void ask(int epfd, struct said *said);
void say(const char *what, int epfd);
/* A connection that is waited for by levels, and has something to say again and again. */
void warm(int epfd, int fds[2], uint64_t data);
void byte(int fd);

/* Waits for a child: its status. */
int ended(pid_t pid);

/* Cases of preload_model.c and preload_threads.c. */
int random_changes_by_all_ways(void);
int signal_handlers_wait_and_change(void);
int waiting_threads_are_cancelled(void);
int sleepers_are_woken(void);
int thread_is_cancelled_while_the_library_registers(void);
int threads_wait_while_the_library_registers(void);
int table_of_its_own_before_all(void);

#endif
