/* SPDX-License-Identifier: GPL-2.0 */
/* Threads in network namespaces that do what they are asked to, one thing after the other. */
#ifndef BENCH_MOVES_ACTOR_H
#define BENCH_MOVES_ACTOR_H

#include <pthread.h>
#include <stdbool.h>

struct handoff;

/**
 * struct actor - a program on a node
 * @ns:       the node's network namespace
 * @cpu:      where it runs
 * @work:     what it is asked to do; NULL: nothing
 * @handoff:  its node's device
 * @listener: of its node
 */
struct actor {
	const char *ns;
	int cpu;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t asked, done;
	void (*work)(struct actor *a);
	struct handoff *handoff;
	int listener;
};

/* Of @ns and @cpu; it waits then. */
void actor_start(struct actor *a);

/* It begins; it is done; both. Nobody asks it for anything else meanwhile. */
void ask(struct actor *a, void (*work)(struct actor *a));
void until(struct actor *a);
void have(struct actor *a, void (*work)(struct actor *a));

/* Or the program ends, and says what failed and why. */
void must(bool good, const char *what);

#endif
