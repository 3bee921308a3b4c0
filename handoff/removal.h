/* SPDX-License-Identifier: GPL-2.0 */
/* A front-end has this node hand on what it gave to it. */
#ifndef HOF_REMOVAL_H
#define HOF_REMOVAL_H

struct flt_msg;
struct flt_node;
struct hof_net;

int hof_removal_init(void);
void hof_removal_exit(void);
void hof_removal_net_init(struct hof_net *hn);
/* What is asked for ends, and no message comes any more. Process context. */
void hof_removal_withdraw(struct hof_net *hn);

/* RELOCATE of @node. Process context. Return: 0 or -EBADMSG. */
int hof_removal_asks(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg);

#endif
