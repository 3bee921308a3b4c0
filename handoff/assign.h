/* SPDX-License-Identifier: GPL-2.0 */
/* Which service has which policy, and with what arguments. */
#ifndef HOF_ASSIGN_H
#define HOF_ASSIGN_H

#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/wait.h>
#include <flotilla/flotilla.h>

#include "admit.h"
#include "policy.h"

struct hof_net;

#define HOF_POLICY_OPTIONS_MAX	8
/* As the operator has written them. */
#define HOF_POLICY_ARGS_LEN	512

/**
 * enum hof_policy_stat - what became of requests; by service, and in the room's table
 * @HOF_POLICY_ASKED: calls of request()
 * @HOF_POLICY_MOVED: requests that went to another node
 * @HOF_POLICY_STAYED: and those that stayed: the policy said so
 * @HOF_POLICY_STAYED_MORE: it wanted more bytes than came in time
 * @HOF_POLICY_STAYED_CAME: it has just come here, by a policy
 * @HOF_POLICY_STAYED_HOPS: its connection was moved too often
 * @HOF_POLICY_STAYED_UNSURE: it may be no beginning of a request
 * @HOF_POLICY_STAYED_ENDED: the client has ended its side
 * @HOF_POLICY_STAYED_TARGET: the policy named no node, or one that is not up
 * @HOF_POLICY_STAYED_REFUSED: the move failed; HandoffRefused* says why
 * @HOF_POLICY_STAYED_PLAIN: its service has admission, and its connection is no surplus
 */
enum hof_policy_stat {
	HOF_POLICY_ASKED,
	HOF_POLICY_MOVED,
	HOF_POLICY_STAYED,
	HOF_POLICY_STAYED_MORE,
	HOF_POLICY_STAYED_CAME,
	HOF_POLICY_STAYED_HOPS,
	HOF_POLICY_STAYED_UNSURE,
	HOF_POLICY_STAYED_ENDED,
	HOF_POLICY_STAYED_TARGET,
	HOF_POLICY_STAYED_REFUSED,
	HOF_POLICY_STAYED_PLAIN,
	HOF_POLICY_STATS,
};

/**
 * struct hof_policy_option - NAME=NUMBER
 * @name:  NAME
 * @value: NUMBER
 */
struct hof_policy_option {
	char name[HOF_POLICY_NAME_MAX];
	u64 value;
};

/**
 * struct hof_policy_set - a policy with its arguments; replaced as a whole, read under RCU
 * @rcu:   for freeing
 * @ops:   NULL: it was unregistered; RCU, changed under hof_policy_lock
 * @owner: whose module is held
 * @service: whose it is
 * @nr_nodes, @nodes: names; in the order that was given
 * @nr_options, @options: the others
 * @admit: those of the options that say which requests it is asked about
 * @args:  all of them, as text
 */
struct hof_policy_set {
	struct rcu_head rcu;
	const struct hof_policy_ops __rcu *ops;
	struct module *owner;
	struct hof_assigned *service;
	unsigned int nr_nodes;
	unsigned int nr_options;
	char nodes[HOF_POLICY_NODES_MAX][FLT_NAME_MAX];
	struct hof_policy_option options[HOF_POLICY_OPTIONS_MAX];
	struct hof_admit_rule admit;
	char name[HOF_POLICY_NAME_MAX];
	char args[HOF_POLICY_ARGS_LEN];
};

/**
 * struct hof_assigned - an address and port whose requests a policy decides on
 * @rcu:    for freeing
 * @ref:    one for being in the list, one for each gate
 * @list:   of all; under hof_policy_lock
 * @here:   of @hn->assigned; RCU, changed under hof_policy_lock
 * @hn:     namespace; valid while it is in the list
 * @id:     of no other one, of any time
 * @at:     @at.server and @at.server_port; the rest is zero
 * @set:    NULL: it is switched off; RCU, changed under hof_policy_lock
 * @turn:   of hof_policy_turn()
 * @silent: node that had not answered at @silent_since (jiffies); READ_ONCE
 * @stats:  per CPU, enum hof_policy_stat, then enum hof_admit_stat
 * @admits: its policy has, or had, admission; under hof_policy_lock
 * @admit:  the window then
 * @off:    who waits for a request to be decided
 * @lock:   guards @held; bottom halves off, a leaf
 * @held:   gates whose request is not decided yet
 */
struct hof_assigned {
	struct rcu_head rcu;
	refcount_t ref;
	struct list_head list;
	struct list_head here;
	struct hof_net *hn;
	u64 id;
	struct flt_tuple at;
	struct hof_policy_set __rcu *set;
	atomic_t turn;
	u32 silent;
	unsigned long silent_since;
	u64 __percpu *stats;
	bool admits;
	struct hof_admit admit;
	wait_queue_head_t off;
	spinlock_t lock;	/* @held */
	struct list_head held;
};

/* Guards the registry, the list of services, and changes of what they have; process context. */
extern struct mutex hof_policy_lock;
extern struct list_head hof_assigned_all;

static inline struct hof_policy_set *hof_policy_set_of(const struct hof_assigned *s)
{
	return rcu_dereference_protected(s->set, lockdep_is_held(&hof_policy_lock));
}

/* In the registry; NULL. Under hof_policy_lock. */
struct hof_policy_ops *hof_policy_find(const char *name);

/* Of the service's address and port, with a reference; NULL: none. Any context. */
struct hof_assigned *hof_assigned_get(struct hof_net *hn, const struct flt_tuple *tuple);
void hof_assigned_put(struct hof_assigned *s);
/* By its place in @stats. */
u64 hof_assigned_stat(const struct hof_assigned *s, unsigned int stat);
void hof_assigned_count(struct hof_assigned *s, enum hof_policy_stat stat);

/* Switch all off. Process context. */
void hof_assigned_net_exit(struct hof_net *hn);

int hof_assigned_init(void);
/* And nothing on any more, in all namespaces. */
void hof_assigned_exit(void);

int hof_policy_set(struct hof_net *hn, const struct flt_tuple *at, const char *name,
		   const char *args);
int hof_policy_off(struct hof_net *hn, const struct flt_tuple *at);

/* What the policy of @set says. Under RCU, as hof_policy_ops.request(). */
int hof_policy_ask(const struct hof_policy_set *set, struct hof_policy_request *req);

/* And hears how long an answer was, see hof_policy_ops.answered(). */
void hof_policy_answered(const struct hof_policy_set *set, u64 key, u64 bytes);

/* policy_hash.c: the path's, and where that ends; -EAGAIN, -EINVAL as hof_policy_path(). */
int hof_policy_hash_path(const struct hof_policy_request *req, u32 *hash, u32 *end);
/* HOF_POLICY_MOVE to the node that @hash falls on (if it is down: the next), or HOF_POLICY_STAY. */
int hof_policy_hash_target(struct hof_policy_request *req, u32 hash);

/* policy_*.c */
extern struct hof_policy_ops hof_policy_stay;
extern struct hof_policy_ops hof_policy_simple;
extern struct hof_policy_ops hof_policy_hash;
extern struct hof_policy_ops hof_policy_turns;
extern struct hof_policy_ops hof_policy_load;
extern struct hof_policy_ops hof_policy_delayed;
extern struct hof_policy_ops hof_policy_size;

int hof_policy_init(void);

#endif
