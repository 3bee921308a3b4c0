/* SPDX-License-Identifier: GPL-2.0 */
/* Changing the node table; looking into it is in node.h. */
#ifndef FLT_TABLE_H
#define FLT_TABLE_H

#include <linux/key.h>
#include <linux/netlink.h>
#include "netns.h"

/**
 * struct flt_node_spec - what a command gave, checked one by one but not together
 * @given:  bit (1 << FLT_A_NODE_x - FLT_A_NODE_ID) for each field that is set
 * @name, @addr, @fwd_addr, @weight, @admin, @role, @forward, @auth, @key: as in
 *	    struct flt_node
 */
struct flt_node_spec {
	u32 given;
	char name[FLT_NAME_MAX];
	union flt_addr addr;
	union flt_addr fwd_addr;
	u32 weight;
	u8 admin, role, forward, auth;
	s32 key;
};

#define FLT_GIVEN(attr)	BIT((attr) - FLT_A_NODE_ID)

/*
 * All return 0 or an errno with a sentence in @extack and then have changed
 * nothing. Process context; they take fn->lock.
 */
int flt_table_add(struct flt_net *fn, const struct flt_node_spec *spec,
		  struct netlink_ext_ack *extack);
int flt_table_set(struct flt_net *fn, struct flt_node *node, const struct flt_node_spec *spec,
		  struct netlink_ext_ack *extack);
/* -ENOENT: someone else has just removed it. Waits for the node's link to end. */
int flt_table_del(struct flt_net *fn, struct flt_node *node);
void flt_table_clear(struct flt_net *fn);

/* The node that has this address, any port; a reference; NULL. Any context. */
struct flt_node *flt_node_by_addr(struct flt_net *fn, const union flt_addr *addr);
/* The node of the least id from *@id on, whose id it stores; a reference; NULL. */
struct flt_node *flt_node_next(struct flt_net *fn, u32 *id);
/* Nodes that a dispatcher may give connections to: back-ends, up and active. */
unsigned int flt_node_count_ready(struct flt_net *fn);

/* Events: notifier, generic netlink, tracepoint, in this order. Process context. */
void flt_node_announce(struct flt_node *node, enum flt_event event);

/* NULL: valid; else what is wrong with it. */
const char *flt_name_check(const char *name);
const char *flt_addr_check(const union flt_addr *addr);

/* This node's identity has changed: each link that is not up begins anew. */
void flt_table_wake(struct flt_net *fn);

int flt_table_init(struct flt_net *fn);
void flt_table_exit(struct flt_net *fn);

#endif
