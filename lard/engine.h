/* SPDX-License-Identifier: GPL-2.0 */
/* Inside of the policy engine, shared by policy.c, decide.c, explain.c and mirror.c only. */
#ifndef LARD_ENGINE_H
#define LARD_ENGINE_H

#include <flotilla/early_table.h>
#include "policy.h"
#include "ring.h"
#include "target.h"

/**
 * struct node - one back-end
 * @ident:     hash of the name, its identity on the ring
 * @credit:    smooth weighted round-robin among nodes that tie
 * @up_since:  start of its slow start
 * @chosen:    decisions for it
 * @forgotten: epoch of its last death; older mappings to it do not count
 * @share:     weight in thousandths, less while it starts slowly
 * @others:    load that other front-ends have given it, as they say
 * @early:     load that the kernel has given it by our mappings, as it was when the decision began
 * @low:       T_low scaled to its share of the mean; load < @low is "below T_low"
 * @high:      T_high likewise; load > @high is "above T_high"
 * @cap:       2 T_high likewise; load >= @cap moves targets whatever the others do
 * @gone:      deleted, waits for its last requests to end
 */
struct node {
	char name[LARD_NAME_MAX];
	uint64_t ident;
	int64_t credit;
	uint64_t up_since;
	uint64_t chosen;
	uint32_t forgotten;
	uint32_t weight;
	uint32_t share;
	uint32_t load;
	uint32_t others;
	uint32_t early;
	uint32_t low, high, cap;
	enum lard_state state;
	enum lard_admin admin;
	bool used;
	bool gone;
};

struct lard {
	struct lard_params params;
	struct node nodes[LARD_MAX_NODES];
	struct target_table table;
	uint64_t eligible;	/* up, active, weight not 0 */
	uint64_t shares;	/* sum over eligible */
	uint64_t next_ramp;	/* when a slow start takes its next step; UINT64_MAX: none */
	uint32_t outstanding;	/* load of eligible nodes */
	uint32_t others;	/* what other front-ends have given them */
	unsigned int fronts;	/* these others */
	uint32_t early;		/* what the kernel has given them */
	struct hof_early_page *page;	/* see lard_mirror(); NULL: the kernel gives nothing */
	uint32_t limit;
	uint32_t epoch;
	unsigned int count;	/* eligible nodes */
	uint64_t learned;	/* mappings, of other front-ends */
	unsigned int cursor;	/* where the next scan for the least loaded begins */
	bool ring_stale;
	struct lard_kept kept;
	uint64_t reasons[LARD_REASONS];
	struct ring ring;
};

#define NODE_BIT(i) (1ULL << (i))

static inline uint32_t node_load(const struct node *n)
{
	return n->load + n->others + n->early;
}

static inline uint32_t total_load(const struct lard *l)
{
	return l->outstanding + l->others + l->early;
}

/* The cluster's limit holds for all together. What others say takes nobody's own part of it. */
static inline bool has_room(const struct lard *l)
{
	uint32_t part = l->limit / (l->fronts + 1);

	return total_load(l) < l->limit || (l->fronts && l->outstanding + l->early < (part ? part : 1));
}

#define for_each_node(i, set) \
	for (uint64_t set_ = (set); \
	     set_ && ((i) = (unsigned int)__builtin_ctzll(set_), true); set_ &= set_ - 1)

/**
 * struct plan - what a decision would change
 * @set:      nodes of the target afterwards
 * @ties:     wrr: the nodes that tied, whose credit moves
 * @remember: the policy keeps mappings
 * @changed:  the set's age starts anew
 * @scanned:  all nodes were compared: the next scan begins after the chosen one
 */
struct plan {
	uint64_t set;
	uint64_t ties;
	bool remember;
	bool changed;
	bool scanned;
};

/* Pure: reads the engine, writes only @d and @plan. */
void decide(const struct lard *l, uint64_t key, uint64_t now, struct lard_decision *d,
	    struct plan *plan);
void decide_retry(const struct lard *l, uint64_t key, uint64_t tried, struct lard_decision *d);

/* --- mirror.c; all do nothing without a page --- */

/* Nodes, thresholds, parameters are not what they were. */
void mirror_all(const struct lard *l);
/* The load of one is not, and perhaps the cursor. */
void mirror_load(const struct lard *l, int node);
/* What the kernel has given by now. */
void mirror_hear(struct lard *l);
uint32_t mirror_given(const struct lard *l, int node);
uint64_t mirror_chosen(const struct lard *l, int node);
/* A slot has another node. */
void mirror_begin(const struct lard *l, int node);

/* Members of a mapping that count: assigned before none of them died, and eligible. */
uint64_t target_nodes(const struct lard *l, const struct target *t);

#endif
