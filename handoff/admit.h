/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Speculative admission (Olaru, 7.1): the listeners of a service take more connections than their
 * programs asked for. The surplus is tagged when it comes, and a policy decides on it alone: see
 * doc/admission.md.
 */
#ifndef HOF_ADMIT_H
#define HOF_ADMIT_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <flotilla/flotilla.h>

struct flt_node;
struct hof_assigned;
struct hof_gate;
struct hof_net;
struct hof_policy_set;
struct sock;

/* More is no speculation. */
#define HOF_ADMIT_MAX	65535
/* Nodes that had no room and may say that they have; of more the oldest is forgotten. */
#define HOF_ADMIT_NODES	32

/**
 * enum hof_admit_stat - what became of the surplus; by service, and in the room's table
 * @HOF_ADMIT_TAGGED:   connections; each is one of the next four, or waits
 * @HOF_ADMIT_MOVED:    its first request went to another node
 * @HOF_ADMIT_REJECTED: it could not, for the node's sake
 * @HOF_ADMIT_KEPT:     it stayed for another reason
 * @HOF_ADMIT_DROPPED:  it ended without a request
 * @HOF_ADMIT_CLOSED:   how often the window was closed
 * @HOF_ADMIT_NOTIFIED: and opened since a node said that it had room
 * @HOF_ADMIT_AGAIN:    or since so many requests were served here
 */
enum hof_admit_stat {
	HOF_ADMIT_TAGGED,
	HOF_ADMIT_MOVED,
	HOF_ADMIT_REJECTED,
	HOF_ADMIT_KEPT,
	HOF_ADMIT_DROPPED,
	HOF_ADMIT_CLOSED,
	HOF_ADMIT_NOTIFIED,
	HOF_ADMIT_AGAIN,
	HOF_ADMIT_STATS,
};

/**
 * struct hof_admit_rule - what the operator has said, as options of a policy
 * @inc:   admit=NUMBER: so many more; 0: none, the policy is asked about everything
 * @base:  admit_base=NUMBER: instead of what the program asked for with listen(); 0: that
 * @again: admit_again=NUMBER: the window opens after so many requests; 0: by NOTIFY alone
 * @quota: admit_quota=1: every (@base + @inc)th connection is one of @inc, wherever it stands
 */
struct hof_admit_rule {
	u32 inc;
	u32 base;
	u32 again;
	bool quota;
};

/**
 * struct hof_admit - the window of a service
 * @waiting: tagged connections that are not decided: never more than @inc
 * @seen:    connections, for the quota
 * @served:  requests served here since the window closed
 * @lock:    guards the following; bottom halves off; a leaf
 * @closed:  nothing is tagged, and listeners have no more places than @base; READ_ONCE
 * @nr_by:   of @by, and those that were forgotten
 * @by:      nodes that had no room since the window closed
 */
struct hof_admit {
	atomic_t waiting;
	atomic_t seen;
	atomic_t served;
	spinlock_t lock;	/* the following */
	bool closed;
	unsigned int nr_by;
	u32 by[HOF_ADMIT_NODES];
};

/**
 * struct hof_admit_queue - the accept queue of a listener; zeroed at first
 * @ours:   its length is what we have set
 * @own:    what the program wants
 * @set:    with @ours: what we have set
 * @caught: another length was found, of a listen() that had not returned
 * @listened: one has returned
 *
 * All but @listened is written under hof_policy_lock; READ_ONCE.
 */
struct hof_admit_queue {
	bool ours;
	u32 own;
	u32 set;
	bool caught;
	bool listened;
};

/**
 * struct hof_admit_taking - a thread that makes the child of a connection that a policy has moved
 * @list: of all
 * @task: it
 */
struct hof_admit_taking {
	struct list_head list;
	struct task_struct *task;
};

/* The children that this thread makes meanwhile are no surplus: they would go to and fro. */
void hof_admit_taking_begin(struct hof_admit_taking *t);
void hof_admit_taking_end(struct hof_admit_taking *t);

void hof_admit_init(struct hof_admit *a);
/* From the options of @set: 0, or -ERANGE. */
int hof_admit_prepare(struct hof_policy_set *set);

/*
 * A child of @listener: its gate, if it is surplus; else NULL. Softirq, or process context with
 * bottom halves off.
 */
struct hof_gate *hof_admit_child(const struct sock *listener, const struct hof_admit_queue *q,
				 struct sock *child);
/* It is to be served here, without a policy. Under RCU. */
bool hof_admit_is_plain(const struct hof_policy_set *set, const struct hof_gate *g);

/* What became of a tagged one's first request; all under the gate's lock. */
void hof_admit_moved(struct hof_gate *g);
void hof_admit_stayed(struct hof_gate *g, u8 why);
/* @why is the node's, or the way's to it. */
void hof_admit_refused(struct hof_gate *g, enum flt_refusal why);
/* Its socket ends. */
void hof_admit_ended(struct hof_gate *g);
/* Its gate does; nothing is counted. */
void hof_admit_untag(struct hof_gate *g);

/* @node says that it has room for what it refused of @at. */
void hof_admit_notified(struct hof_net *hn, const struct flt_node *node,
			const struct flt_tuple *at);

/* How many more would be tagged now. */
u32 hof_admit_window(const struct hof_assigned *s);
/* Of all services of a namespace: that, and those that wait. */
u64 hof_admit_windows(struct hof_net *hn);
u64 hof_admit_waiting(struct hof_net *hn);

/* The lengths of a namespace's accept queues are to change, soon. Any context. */
void hof_admit_resize(struct hof_net *hn);
/* Under hof_policy_lock. NULL for @s: its length is its program's again. */
void hof_admit_fit(struct sock *sk, struct hof_admit_queue *q,
		   bool (*has)(const struct hof_assigned *s, const struct sock *sk));
/* Its program has said listen(), perhaps again. */
void hof_admit_listened(struct sock *sk, struct hof_admit_queue *q);

/* At the node that has no room (admit_room.c). */
void hof_room_owe(struct hof_net *hn, struct flt_node *node, u64 id, const void *wire, u32 len,
		  enum flt_refusal why);
void hof_room_net_init(struct hof_net *hn);
void hof_room_net_exit(struct hof_net *hn);

#endif
