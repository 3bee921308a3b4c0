/* SPDX-License-Identifier: GPL-2.0 */
/* Connections leave nodes that have too many for nodes that have too few, until each is near its share. */
#ifndef FLOTILLA_REBALANCE_H
#define FLOTILLA_REBALANCE_H

#include <flotilla/relocate.h>
#include "balance.h"
#include "cli.h"
#include "follow.h"

/* Traffic is counted for so long. */
#define SAMPLE_MS	2000

#define NOT_NAMED	UINT32_MAX

/* Of a pair of nodes, besides enum flt_refusal. */
#define BARRED_THROUGH	UINT16_MAX
#define BARRED_FORGOT	(UINT16_MAX - 1)
/* A node that does not know a connection so often never will; nor will it move what it has forgotten so often. */
#define UNKNOWN_MAX	3

/**
 * enum left_out - does a node count?
 * @COUNTS:  yes
 * @MEANT:   no: who runs it wants that, or it is down
 * @REFUSES: no, but it should: others are balanced without it, and the command has not done what it was asked
 */
enum left_out { COUNTS, MEANT, REFUSES };

/**
 * struct reb_node - a back-end
 * @counted: index among those that count
 * @why:    it does not count
 * @lost_ms: since when its link is down, which it was not at first; 0: it is not
 * @known:  it was found the last time
 * @gave, @took: a node does one of the two for as long as the command lasts: nothing goes to and fro
 * @silent_ms: since when it does not answer; 0: it does
 * @steps:  that it is asked for just now
 * @first:  load at the beginning
 * @load:   now
 * @bounds: of it, if it counts
 */
struct reb_node {
	uint32_t id, weight, counted;
	char name[FLT_NAME_MAX];
	uint64_t features;
	uint8_t state, admin;
	enum left_out out;
	char why[160];
	bool known, gave, took;
	uint64_t silent_ms, lost_ms;
	unsigned int steps;
	uint64_t first, load, moved_out, moved_in;
	struct balance_node bounds;
};

/**
 * struct reb_conn - a connection of a back-end
 * @node:    index of it
 * @packets: of its client, so far
 * @load:    1, or how many packets came while that was measured
 * @tries:   so often it was named and has not moved
 * @named_to: index of the node that it was to go to in the last round; NOT_NAMED: none
 * @fixed:   it cannot
 * @active:  packets came lately
 */
struct reb_conn {
	struct flt_tuple tuple;
	uint32_t node;
	uint64_t packets;
	uint32_t load;
	uint32_t named_to;
	uint16_t tries;
	bool fixed, active;
};

/**
 * struct reb_pair - what one node gives another, in all
 * @planned: so many should move; @moved: so many have
 * @arrived: of these, those that were seen in the table: some move when the node is told that it is over
 * @named, @said, @stayed: in the last round: how many were named, have moved as the giver says, are with it still;
 *	    @named is 0 when it was not over by itself
 * @forgot: so often in a row the giver had begun with some, and nothing came of it
 * @since:   why
 * @last:    what the giver said last
 */
struct reb_pair {
	uint32_t from, to;
	uint64_t planned, moved, arrived, named, said, stayed;
	unsigned int forgot;
	char since[160];
	struct hof_relocate last;
};

/**
 * struct reb_move - that is planned
 */
struct reb_move {
	uint32_t to;
	size_t conn;
};

/**
 * struct rebalance - the command
 * @within, @by_load, @idle_ms, @wait_ms, @max, @service, @dry_run, @explain: its options
 * @conns: sorted by their tuples
 * @barred: why a pair of nodes is of no use: a row for each that gives
 * @moves: of the present round, by giver and taker
 * @counted, @nr_counted: nodes that count, in the order that @counted of a node says
 * @patience_ms: how long a round waits for something to move
 */
struct rebalance {
	struct cli *cli;
	uint64_t within, idle_ms, wait_ms, max;
	bool by_load, dry_run, explain;
	struct sockaddr_storage service;
	int device;
	struct reb_node *nodes;
	uint32_t nr_nodes;
	struct reb_conn *conns;
	size_t nr_conns, room;
	uint16_t *barred;
	struct reb_pair *pairs;
	size_t nr_pairs;
	struct reb_move *moves;
	size_t nr_moves;
	struct balance_node *counted;
	uint32_t nr_counted;
	uint64_t begun_ms, moved, patience_ms;
	unsigned int rounds;
	char outcome[320];
};

/* These return an exit status, after saying why. */

/* The nodes and their connections, as the kernel has them. */
int rebalance_look(struct rebalance *r);
/* Shares, bounds, and @moves. */
int rebalance_plan(struct rebalance *r);
/* The moves of the plan are asked for, until nothing more comes of it. */
int rebalance_round(struct rebalance *r);

uint16_t *rebalance_barred(const struct rebalance *r, uint32_t from, uint32_t to);
const char *rebalance_why_barred(uint16_t why, char *text, size_t size);
void rebalance_leave_out(struct reb_node *node, enum left_out how, const char *why);
bool rebalance_is_over(const struct rebalance *r);
/* Its pair in @pairs, new if need be; NULL: out of memory. */
struct reb_pair *rebalance_pair(struct rebalance *r, uint32_t from, uint32_t to);
/* So many more have moved. */
void rebalance_count(struct rebalance *r, struct reb_pair *pair, uint64_t nr);
void rebalance_sleep(uint64_t ms);

#endif
