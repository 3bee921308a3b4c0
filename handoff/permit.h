/* SPDX-License-Identifier: GPL-2.0 */
/* Who may give this node which connections. */
#ifndef HOF_PERMIT_H
#define HOF_PERMIT_H

#include <flotilla/flotilla.h>

struct flt_node;
struct hof_net;

/**
 * hof_permit - may a node give us the connection of a checkpoint
 * @hn:   namespace
 * @node: the giver, in the handler of its message
 * @wire: the checkpoint; not trusted
 * @len:  bytes of it
 *
 * Asked before anything is done with the checkpoint. What is refused because of how the nodes
 * are configured is told in the kernel's log, too.
 *
 * Return: FLT_REFUSE_NONE; _INSECURE, _KEYS, _CLIENT, _SERVICE, _ROLE; _VERSION, _MALFORMED, _KTLS.
 */
enum flt_refusal hof_permit(struct hof_net *hn, struct flt_node *node, const void *wire,
			    u32 len);

/* May keys of a client's connection be told to @node, or come from it? */
bool hof_permit_keys(const struct hof_net *hn, const struct flt_node *node);

#endif
