/* SPDX-License-Identifier: GPL-2.0 */
/* The node where a connection's packets come in says who is forwarded what. */
#ifndef HOF_ORIGIN_H
#define HOF_ORIGIN_H

#include <linux/types.h>

struct flt_msg;
struct flt_node;
struct hof_adoption;
struct hof_msg_origin;
struct hof_net;

/**
 * hof_origin_name - what a taker is told with a checkpoint
 * @id:   that we give it the connection by
 * @node: it, which knows of origins
 * @from: by what we have the connection, or NULL: it began here
 * @out:  filled
 * @back: set if it is given back, see HOF_ADOPT_BACK
 *
 * Return: the proof that belongs into COMMIT; 0: no origin is named.
 */
u64 hof_origin_name(struct hof_net *hn, u64 id, const struct flt_node *node,
		    struct hof_adoption *from, struct hof_msg_origin *out, bool *back);

/* CLAIM of @node. Process context. */
int hof_origin_claims(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg);

#endif
