/* SPDX-License-Identifier: GPL-2.0 */
/* What is due when: a heap. */
#ifndef MIX_DUE_H
#define MIX_DUE_H

#include <stdint.h>
#include <sys/epoll.h>

void due_add(uint64_t when, int who);
/* Whose turn it is, or -1. */
int due_take(uint64_t now);
/* epoll_wait() until the next is due or @end, nanoseconds of CLOCK_MONOTONIC. */
int due_wait(int epfd, struct epoll_event *events, int max, uint64_t end);

#endif
