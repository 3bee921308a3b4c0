/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The policy engine: which node serves a target. See README.md, "Policies".
 *
 * No I/O, no sockets, no threads and no clock: the caller hands in the time (microseconds of any
 * monotonic clock) and says when a request has ended. Not locked: the caller serializes.
 *
 *	l = lard_new(&params);
 *	lard_node_add(l, "be1", 100, now);		comes up with lard_node_state()
 *	lard_dispatch(l, key, now, &d);			one load unit more on d.node
 *	...
 *	lard_release(l, d.node);			one less
 *
 * Load is the number of requests handed to a node and not yet ended. Nodes take slots 0 to
 * LARD_MAX_NODES - 1, so that a set of nodes is one 64-bit word.
 */
#ifndef LARD_POLICY_H
#define LARD_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LARD_MAX_NODES	64
#define LARD_NAME_MAX	32

enum lard_policy {
	LARD_WRR,		/* fewest active, ties in weighted round-robin */
	LARD_LB,		/* hash of the target modulo nodes */
	LARD_BASIC,		/* one node per target, moved on imbalance */
	LARD_REPLICATED,	/* a set of nodes per target */
	LARD_LC,		/* fewest active, ties to the first */
	LARD_CHBL,		/* consistent hashing with bounded loads */
	LARD_POLICIES,
};

/* "wrr", "lb", "lard", "lard/r", "lc", "chbl". */
const char *lard_policy_name(enum lard_policy policy);
/* 0 or -EINVAL. */
int lard_policy_parse(const char *name, enum lard_policy *policy);

/**
 * struct lard_params - what an operator tunes
 * @policy:          which
 * @t_low:           below it a node probably idles; 1 or more
 * @t_high:          above it requests are delayed; more than @t_low
 * @max_outstanding: most load of all eligible nodes together; 0: the automatic limit S
 * @bound_percent:   LARD_CHBL: a node's share may exceed the mean by this; 100 is the mean
 * @replication_us:  LARD_REPLICATED: a set unchanged for longer loses its most loaded node
 * @slow_start_us:   a node that comes up reaches its full weight after this time; 0: at once
 */
struct lard_params {
	enum lard_policy policy;
	uint32_t t_low;
	uint32_t t_high;
	uint32_t max_outstanding;
	uint32_t bound_percent;
	uint64_t replication_us;
	uint64_t slow_start_us;
};

#define LARD_PARAMS_DEFAULT {		\
	.policy = LARD_REPLICATED,	\
	.t_low = 25,			\
	.t_high = 65,			\
	.bound_percent = 125,		\
	.replication_us = 20000000,	\
}

#define LARD_TARGETS_DEFAULT	262144

enum lard_state { LARD_DOWN, LARD_UP };
enum lard_admin { LARD_ACTIVE, LARD_DRAIN, LARD_MAINTENANCE };

/**
 * enum lard_reason - why a request went where it went
 */
enum lard_reason {
	LARD_WHY_NO_NODE,	/* none is up, active and of non-zero weight */
	LARD_WHY_FULL,		/* the admission limit is reached: wait */
	LARD_WHY_FEWEST,	/* fewest active requests (wrr, lc) */
	LARD_WHY_HASH,		/* the hash says so (lb) */
	LARD_WHY_RING,		/* home of the target on the ring (chbl) */
	LARD_WHY_RING_SPILL,	/* home and what follows it are at their bound (chbl) */
	LARD_WHY_FIRST,		/* target never assigned: least loaded */
	LARD_WHY_KEEP,		/* has the target, is not above T_high */
	LARD_WHY_KEEP_BUSY,	/* has the target, above T_high, but no node is below T_low */
	LARD_WHY_MOVE_IDLE,	/* above T_high while a node is below T_low: moved */
	LARD_WHY_MOVE_CAP,	/* at 2 T_high or more: moved */
	LARD_WHY_GROW_IDLE,	/* as MOVE_IDLE, but the set grows by a node */
	LARD_WHY_GROW_CAP,	/* as MOVE_CAP, but the set grows by a node */
	LARD_WHY_SHRINK,	/* set unchanged for longer than K: most loaded member left */
	LARD_WHY_RETRY,		/* another node refused it */
	LARD_REASONS,
};

/* A stable word: "first", "keep", ... */
const char *lard_reason_name(enum lard_reason why);

/**
 * struct lard_decision - where, and why
 * @node:      slot, or -1 with LARD_WHY_NO_NODE and LARD_WHY_FULL
 * @why:       the rule that decided
 * @from:      slot that had the target and lost it or was passed over; -1: none
 * @load:      of @node, before this request
 * @from_load: of @from
 * @idlest:    the smallest load of an eligible node
 * @total:     load of all eligible nodes, before this request
 * @limit:     the admission limit
 * @set:       nodes the target is assigned to from now on
 * @was:       nodes it was assigned to
 * @others:    part of @load that other front-ends have given it
 * @learnt:    @was is what another front-end has said, and nobody has asked here before
 * @age_us:    time since the set last changed (LARD_REPLICATED)
 */
struct lard_decision {
	int node;
	enum lard_reason why;
	int from;
	uint32_t load;
	uint32_t from_load;
	uint32_t idlest;
	uint32_t total;
	uint32_t limit;
	uint64_t set;
	uint64_t was;
	uint64_t age_us;
	uint32_t others;
	bool learnt;
};

struct lard;

/* @targets: mappings remembered at most (LRU). @seed: any secret number. NULL: no memory. */
struct lard *lard_new(const struct lard_params *params, uint32_t targets, uint64_t seed);
void lard_free(struct lard *l);

/* -EINVAL changes nothing. Mappings survive a change of policy. */
int lard_set_params(struct lard *l, const struct lard_params *params, uint64_t now);
const struct lard_params *lard_get_params(const struct lard *l);
/* 0 or -EINVAL with a sentence in *why. */
int lard_check_params(const struct lard_params *params, const char **why);

/* Slot of the new node, which is DOWN and ACTIVE; -EEXIST, -ENOSPC, -EINVAL. */
int lard_node_add(struct lard *l, const char *name, uint32_t weight, uint64_t now);
/* Its mappings are forgotten; the slot is free again once its load is 0. */
void lard_node_del(struct lard *l, int node, uint64_t now);
void lard_node_weight(struct lard *l, int node, uint32_t weight, uint64_t now);
/* DOWN: its mappings are as if never assigned, also when it comes back. */
void lard_node_state(struct lard *l, int node, enum lard_state state, uint64_t now);
/* DRAIN keeps mappings that nobody asks for meanwhile; MAINTENANCE forgets them. */
void lard_node_admin(struct lard *l, int node, enum lard_admin admin, uint64_t now);
int lard_node_find(const struct lard *l, const char *name);

/**
 * struct lard_node_info - a node as the engine sees it
 * @load:     given to it here, by the kernel, too (lard_mirror())
 * @others:   given to it by other front-ends
 * @eligible: gets new requests
 * @ident:    hash of the name, the same on every machine
 * @low:      its own T_low; with equal weights the parameter itself
 * @high:     its own T_high
 * @chosen:   decisions for it so far
 */
struct lard_node_info {
	const char *name;
	uint32_t weight;
	uint32_t load;
	uint32_t others;
	uint64_t ident;
	enum lard_state state;
	enum lard_admin admin;
	bool eligible;
	uint32_t low;
	uint32_t high;
	uint64_t chosen;
};

/* false: the slot is free. */
bool lard_node_get(const struct lard *l, int node, struct lard_node_info *info);

/* Choose a node for the target and charge it; returns d->node. */
int lard_dispatch(struct lard *l, uint64_t key, uint64_t now, struct lard_decision *d);
/* What lard_dispatch() would do now, without doing it. */
int lard_explain(struct lard *l, uint64_t key, uint64_t now, struct lard_decision *d);
/* Next best after the nodes in @tried refused; mappings stay as they are; charges. */
int lard_retry(struct lard *l, uint64_t key, uint64_t now, uint64_t tried,
	       struct lard_decision *d);
/* A request of a node has ended, or its kept-alive connection has fallen idle. */
void lard_release(struct lard *l, int node);
/* A connection that was released has become busy again. */
void lard_charge(struct lard *l, int node);

/* Eligible nodes, as a set; their number; their load; the limit; room for one more? */
uint64_t lard_eligible(const struct lard *l);
unsigned int lard_nodes(const struct lard *l);
uint32_t lard_load(const struct lard *l, int node);
uint32_t lard_outstanding(const struct lard *l);
uint32_t lard_outstanding_others(const struct lard *l);
uint32_t lard_limit(const struct lard *l);
bool lard_has_room(struct lard *l);
/* S = (n - 1) T_high + T_low - 1; 0 without nodes. */
uint32_t lard_auto_limit(unsigned int nodes, uint32_t t_low, uint32_t t_high);

/* Nodes the target is assigned to, without touching its place in the LRU list. */
uint64_t lard_assigned(const struct lard *l, uint64_t key);

/*
 * What other front-ends say. @loads: by slot, what @fronts of them have given the nodes together; up to
 * LARD_OTHERS_MAX each. They count as own load does, but leave every front-end its part of the limit.
 */
#define LARD_OTHERS_MAX	1000000
void lard_set_others(struct lard *l, const uint32_t *loads, unsigned int fronts);
/*
 * The target is assigned to @set, says another; @hearsay: who has it from a third. What was decided here counts
 * more, and hearsay less than anything. True: something was learnt.
 */
bool lard_learn(struct lard *l, uint64_t key, uint64_t set, bool hearsay, uint64_t now);
/*
 * The next mapping from *@at on that is learnt or not, looking at up to @steps, which become fewer. False: none;
 * *@at is 0 at the table's end.
 */
bool lard_walk(const struct lard *l, uint32_t *at, unsigned int *steps, bool learnt, uint64_t *key,
	       uint64_t *set);

/**
 * struct lard_kept - what the last lard_dispatch() has left among the mappings
 * @kept: @key is assigned to @set, since @since_us, in @epoch; false: nothing is remembered
 * @lost: in place of @lost_key, which is assigned to nobody any more
 */
struct lard_kept {
	bool kept, lost;
	uint32_t epoch;
	uint64_t key, set, since_us, lost_key;
};
const struct lard_kept *lard_kept(const struct lard *l);

/*
 * What the kernel decides by, if it decides for us (flotilla/early_table.h): kept up to date from now on. What it has
 * given is load as what we have. NULL: it does not any more. What it knows of targets is the caller's to tell it:
 * lard_kept(), after each decision. Once what others say is heard (lard_set_others()) it decides nothing.
 */
struct hof_early_page;
void lard_mirror(struct lard *l, struct hof_early_page *page);
/* How often it has taken what the kernel gave to it. */
uint64_t lard_taken(const struct lard *l, int node);

/**
 * struct lard_table_info - the table of targets
 * @learnt:  of @used, what others have said and nobody has asked for here
 * @learned: mappings that were learnt so far
 * @adopted: those of them that somebody then asked for
 */
struct lard_table_info {
	uint32_t used, capacity, learnt;
	uint64_t evictions, learned, adopted;
};
void lard_table_get(const struct lard *l, struct lard_table_info *info);

uint64_t lard_reason_count(const struct lard *l, enum lard_reason why);

/* A sentence for people: "be2 has /a.html and 12 active requests, not above T_high 65". */
size_t lard_decision_text(const struct lard *l, const struct lard_decision *d, const char *target,
			  char *text, size_t size);

/* The largest T_high that keeps delay differences below @ratio mean service times. */
uint32_t lard_t_high(uint32_t t_low, double ratio);

#endif
