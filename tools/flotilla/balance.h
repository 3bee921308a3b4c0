/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which connections would have to be elsewhere for each node to have its fair share. It asks nobody and changes nothing.
 *
 * A fair share is the node's part of the load of all, by its weight. Within so many percent of it a node is left alone;
 * where no whole number of connections is, within the two nearest to the share, so that the bound can be met. A move is
 * planned only when one of its two nodes is outside the bound, and when it brings the two nearer to their shares; none
 * is taken past the bound on the other side.
 */
#ifndef FLOTILLA_BALANCE_H
#define FLOTILLA_BALANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BALANCE_STAYS	UINT32_MAX

/**
 * struct balance_node - a node that counts
 * @load:   of its connections, those that cannot move among them
 * @weight: more than 0
 * @gives, @takes: it may lose some, get some
 * @share, @low, @high: out: what it should have, and what is near enough
 * @after:  out: what it would have
 */
struct balance_node {
	uint64_t load;
	uint32_t weight;
	bool gives, takes;
	uint64_t share, low, high, after;
};

/**
 * struct balance_conn - a connection that can move
 * @node: index of who has it
 * @load: 1, when connections are counted; one of 0 is never moved
 * @rank: of two that are alike the one with the lower rank goes
 * @to:   out: index of who would get it, or BALANCE_STAYS
 */
struct balance_conn {
	uint32_t node;
	uint32_t load;
	uint32_t rank;
	uint32_t to;
};

/**
 * struct balance - what is to be balanced
 * @may: @from may give to @to; NULL: everybody to everybody
 * @max: so many moves at most
 */
struct balance {
	struct balance_node *nodes;
	uint32_t nr_nodes;
	struct balance_conn *conns;
	size_t nr_conns;
	bool (*may)(const void *arg, uint32_t from, uint32_t to);
	const void *arg;
	size_t max;
};

/* @share, @low and @high, and @after as it is now. The shares have the same sum as the loads. */
void balance_bounds(struct balance_node *nodes, uint32_t nr, uint32_t within_percent);
/* As it is in @after. */
bool balance_is_near(const struct balance_node *node);
bool balance_is_within(const struct balance_node *nodes, uint32_t nr);
/* After balance_bounds(). Return: how many connections would move, or -1: out of memory. */
long balance_plan(const struct balance *b);

#endif
