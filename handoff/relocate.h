/* SPDX-License-Identifier: GPL-2.0 */
/* This node has another one hand on what it gave to it. */
#ifndef HOF_RELOCATE_H
#define HOF_RELOCATE_H

struct flt_msg;
struct flt_node;
struct hof_file;
struct hof_net;

void hof_relocate_net_init(struct hof_net *hn);

/* HOF_IOC_RELOCATE. */
int hof_relocate_ioctl(struct hof_file *file, void __user *arg);

/* RELOCATED of @node. Process context. Return: 0 or -EBADMSG. */
int hof_relocate_answer(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg);

#endif
