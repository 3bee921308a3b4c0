/* SPDX-License-Identifier: GPL-2.0 */
/* What the servers and clients of this room's tests share. */
#ifndef HANDOFF_TESTS_PROGRAM_H
#define HANDOFF_TESTS_PROGRAM_H

#include <stdbool.h>

/* Says it with errno's words, and exits. */
void die(const char *what) __attribute__((noreturn));

/* Numbers by lot: the same seed, the same numbers. */
void draw_from(unsigned long long seed);
unsigned int draw(unsigned int below);

/* CLOCK_MONOTONIC. */
unsigned long now_ms(void);

/* The clock of who waits for another: where the machine stands still it stands, too. */
extern unsigned long lived_ms;
/* Without progress for so long on that clock it is stalled: STALLED_MS (environment). */
unsigned long patience_ms(void);

/* A timer in epoll, with NULL for data.ptr: at each of its events tick_passed() is called. */
int tick_start(int epoll_fd);
void tick_passed(int timer);

/* A listener at an address of either family. */
int listen_on(const char *address, const char *port);

/* SIGTERM and SIGUSR1 come by this descriptor from now on, and signal_taken() says which. */
int signals(void);
unsigned int signal_taken(int fd);

#endif
