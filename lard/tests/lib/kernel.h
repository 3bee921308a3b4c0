/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A kernel of pretence: kernel.c plays libflotilla and libhandoff, so that refusals, lost nodes and odd
 * events come when the test wants them.
 */
#ifndef LARD_TEST_KERNEL_H
#define LARD_TEST_KERNEL_H

#include <flotilla.h>
#include <handoff.h>
#include <pthread.h>
#include <stdbool.h>

#define NODES	2

/* What a node does with a connection. */
enum answer { TAKES, REFUSES_LATER, REFUSES_AT_ONCE };

struct handoff {
	int ends[2];
};

struct flt_client {
	int fd;
};

/* @lock guards everything in it. */
struct kernel {
	pthread_mutex_t lock;
	struct handoff device;
	struct flt_client events;
	struct flt_node_info nodes[NODES];
	enum answer answers[NODES];
	enum flt_refusal refusal;
	int refusals;			/* that many, and then a node takes it; 0: any number */
	int refused;			/* who has refused last */
	int submissions;
	int moved[NODES];		/* what a node has adopted last; -1: nothing */
	uint64_t cookies[NODES];
	struct flt_tls keys[NODES];	/* all zeros: it came in clear text */
	bool later[NODES];		/* what has become of it need not be told at once */
	const char *policy;
	unsigned int max_outstanding;
	int attributes[8];
	const char *names[8];
	int attribute_count;
};

extern struct kernel kernel;

/* What became of the connection @cookie, as /dev/handoff tells it. */
void kernel_emit(uint64_t cookie, unsigned int node, unsigned int type, unsigned int refusal);
/* The kernel's nodes are others than lardd knows. */
void kernel_changed(void);

#endif
