/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Load hints of services, for modules that know better than a count of connections how loaded this
 * node is: by CPU, by disk, by blocks that it caches for others. A service with a rule
 * (flotilla redirect) then goes by what they say, here and at the other nodes, until the operator
 * gives a hint himself.
 */
#ifndef HOF_HINT_H
#define HOF_HINT_H

#include <linux/types.h>

struct flt_tuple;
struct net;

/* Connections are counted again. */
#define HOF_HINT_NONE	U32_MAX

/**
 * hof_hint_set - a service's load
 * @net:  namespace
 * @at:   @at.family, @at.server and @at.server_port; NULL: of all services that have a rule
 * @load: in what all nodes understand; below HOF_HINT_NONE, or that
 *
 * Who sets one takes it back (HOF_HINT_NONE) before it goes. Other nodes hear of it within some ten
 * milliseconds.
 *
 * Context: any but hard interrupt.
 * Return: 0; -ENOENT: there is no such rule.
 */
int hof_hint_set(struct net *net, const struct flt_tuple *at, u32 load);

#endif
