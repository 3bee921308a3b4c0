/* SPDX-License-Identifier: GPL-2.0 */
/* This node asks the others for the connections of a service address that it has now. */
#ifndef HOF_TAKEOVER_H
#define HOF_TAKEOVER_H

#include <linux/types.h>
#include <flotilla/flotilla.h>

struct flt_msg;
struct flt_node;
struct hof_file;
struct hof_msg_claim;
struct hof_net;

/* HOF_IOC_TAKEOVER. */
int hof_takeover_ioctl(struct hof_file *file, void __user *arg);

/*
 * @node answers with a connection: FLT_REFUSE_NONE it is forwarded there from now on; _BUSY: to be
 * said again. Process context.
 */
enum flt_refusal hof_takeover_claim(struct hof_net *hn, struct flt_node *node,
				    const struct hof_msg_claim *claim,
				    const struct flt_tuple *tuple);

/* TAKEN of @node. Process context. Return: 0 or -EBADMSG. */
int hof_takeover_taken(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg);

#endif
