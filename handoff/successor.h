/* SPDX-License-Identifier: GPL-2.0 */
/* Another front-end asks for the connections of a service that were given to us. */
#ifndef HOF_SUCCESSOR_H
#define HOF_SUCCESSOR_H

struct flt_msg;
struct flt_node;
struct hof_net;

/* TAKEOVER of @node. Process context. Return: 0 or -EBADMSG. */
int hof_successor_asks(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg);

#endif
