/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands for the cache that cross the links between nodes: asked here (remote.c), carried out
 * here for others (serve.c), and their form between the two (wire.c).
 *
 * A node sends ASK and waits for the ANSWER with the same number. Both are numbers in network byte
 * order, and behind them bytes, as the tables of calls.c say.
 */
#ifndef AFPA_REMOTE_H
#define AFPA_REMOTE_H

#include <linux/list.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <flotilla/afpa.h>

#include "kmod/link.h"

struct afpa_call;
struct afpa_net;
struct afpa_text;

enum afpa_msg_type {
	AFPA_MSG_ASK	= FLT_MSG_AFPA + 0,
	AFPA_MSG_ANSWER	= FLT_MSG_AFPA + 1,
};

/**
 * struct afpa_msg - head of ASK and ANSWER
 * @id:     the asker's
 * @error:  ANSWER: errno, or 0; ASK: 0
 * @number: of struct afpa_call
 * @nr:     of @value
 * @zero:   must be zero
 * @value:  those fields of the call that go this way; who knows fewer takes zeros for granted in
 *	    an ASK and leaves them alone in an ANSWER; what is missing is zero. Strings follow
 */
struct afpa_msg {
	__be64 id;
	__be32 error;
	u8 number;
	u8 nr;
	u8 zero[2];
	__be64 value[];
} __packed;

/* Of one message. */
#define AFPA_VALUES_MAX		32
#define AFPA_ANSWER_MAX		(sizeof(struct afpa_msg) + AFPA_VALUES_MAX * sizeof(__be64) + \
				 AFPA_HOST_MAX + AFPA_PATH_MAX)

/* Commands of this namespace that may wait for an answer. */
#define AFPA_ASKS_MAX		64
/* Commands of other nodes that may wait here: of all, of one, and their bytes. */
#define AFPA_JOBS_MAX		64
#define AFPA_JOBS_NODE		16
#define AFPA_JOBS_BYTES		(32U << 20)

/**
 * struct afpa_remote_net - what a namespace has of this
 * @from:     enum afpa_remote_from; READ_ONCE
 * @live:     message handlers read it; written to set @going
 * @going:    the namespace's part is being taken down
 * @lock:     leaf; guards what follows
 * @asks:     commands that wait for an answer
 * @nr_asks:  of these
 * @last_ask: number of the newest
 * @jobs:     commands of other nodes, in the order in which they came
 * @nr_jobs:  of these, with the one that is being carried out
 * @bytes:    of these
 * @serve:    carries them out, one after the other
 */
struct afpa_remote_net {
	u32 from;
	struct rw_semaphore live;
	bool going;
	spinlock_t lock;	/* leaf: asks, jobs */
	struct list_head asks;
	unsigned int nr_asks;
	u64 last_ask;
	struct list_head jobs;
	unsigned int nr_jobs;
	u32 bytes;
	struct work_struct serve;
};

/**
 * struct afpa_far - the node that an open file speaks to
 * @timeout_ms: how long a call waits
 * @name:       of the node
 */
struct afpa_far {
	u32 timeout_ms;
	char name[AFPA_NODE_NAME];
};

void afpa_remote_net_init(struct afpa_net *an);
/* No message is handled and no command carried out on return, nor later. */
void afpa_remote_net_exit(struct afpa_net *an);

int afpa_remote_register(void);
void afpa_remote_unregister(void);

/**
 * afpa_far_make() - a node is named
 * @an:   namespace
 * @args: as the uapi header says
 *
 * Return: for kfree(), or an errno.
 */
struct afpa_far *afpa_far_make(struct afpa_net *an, const struct afpa_node *args);

/**
 * afpa_remote_call() - have a call carried out at a node
 * @an:   namespace
 * @far:  which node
 * @call: which call
 * @args: its structure, whose addresses are the caller's
 *
 * Context: process; waits.
 * Return: as the call does there, or an errno of struct afpa_node.
 */
int afpa_remote_call(struct afpa_net *an, const struct afpa_far *far, const struct afpa_call *call,
		     void *args);

/* An ANSWER has come; -EBADMSG. */
int afpa_remote_answer(struct afpa_net *an, struct flt_node *node, const struct flt_msg *msg);
/* Those that wait for the node end with @err. */
void afpa_remote_end(struct afpa_net *an, const struct flt_node *node, int err);

/* An ASK has come; -EBADMSG. */
int afpa_serve_ask(struct afpa_net *an, struct flt_node *node, const struct flt_msg *msg);
void afpa_serve_work(struct work_struct *work);
int afpa_serve_init(void);
void afpa_serve_exit(void);
/* Whose commands are taken; on return those of others are carried out no more. Process context. */
void afpa_serve_set(struct afpa_net *an, u32 from);
/* Commands that nobody carries out any more. */
void afpa_serve_drop(struct afpa_net *an);

/* --- wire.c --- */

u64 afpa_wire_length(const void *args, const struct afpa_text *text);
/* Where the call's structure has the address of a text. */
u64 *afpa_wire_address(void *args, const struct afpa_text *text);

/* The fields that go @way; how many. */
unsigned int afpa_wire_pack(const struct afpa_call *call, const void *args, u8 way,
			    __be64 value[AFPA_VALUES_MAX]);
/* -ERANGE: one is too large; -EOPNOTSUPP: one that is not known is not zero. */
int afpa_wire_unpack(const struct afpa_call *call, void *args, u8 way, const __be64 *value,
		     unsigned int nr);

/* Its head and its values are there, and it has no other than it may. */
bool afpa_wire_is_sound(const struct flt_msg *msg);

#endif
