/* SPDX-License-Identifier: GPL-2.0 */
/* After a link was down: what the other node still has of our connections. */
#ifndef HOF_RESYNC_H
#define HOF_RESYNC_H

#include <linux/types.h>

struct flt_msg;
struct flt_node;
struct hof_adoption;
struct hof_net;
struct hof_peer;

/* The link is up: tell its node what we hold of it. Work of @peer. */
void hof_resync_tell(struct hof_net *hn, struct hof_peer *peer);

/* Ask about one that waits for COMMIT. Process context. */
void hof_resync_ask(const struct hof_adoption *a);

/* HELD and HELD_END of a taker. Process context. Return: 0, or -EBADMSG. */
int hof_resync_held(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg);
int hof_resync_end(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg);

#endif
