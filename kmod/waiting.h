/* SPDX-License-Identifier: GPL-2.0 */
/* Whom the unacknowledged bytes of children count for that nobody has accepted. */
#ifndef FLT_WAITING_H
#define FLT_WAITING_H

#include <linux/types.h>
#include <flotilla/flotilla.h>

struct net;
struct flt_share;

/**
 * struct flt_waiting - the bytes of one child, charged to nobody until it is accepted
 * @bytes:   0: none, and nothing else is set
 * @net:     the namespace's share, which has them
 * @giver:   the giving node's, which has them until its decision
 * @service: its, which has them from then on
 * @decided: it has them
 */
struct flt_waiting {
	u32 bytes;
	struct flt_share *net;
	struct flt_share *giver;
	struct flt_share *service;
	bool decided;
};

/**
 * flt_waiting_begin - may so many bytes more wait
 * @w:     filled
 * @net:   the service's namespace
 * @tuple: names the service
 * @giver: names who gives, within @net
 * @bytes: of the child's write queue
 *
 * Context: process, may sleep.
 * Return: FLT_REFUSE_NONE; _NOMEM: too many wait already.
 */
enum flt_refusal flt_waiting_begin(struct flt_waiting *w, const struct net *net,
				   const struct flt_tuple *tuple, u32 giver, u32 bytes);

/* The giver has done its part: from here on they wait for the service's program. */
void flt_waiting_decided(struct flt_waiting *w);

/* Accepted, or gone. Any context but hard interrupts. */
void flt_waiting_end(struct flt_waiting *w);

#endif
