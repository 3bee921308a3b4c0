/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who is here, by client address: how many connections each has, of all workers. An IPv6 address
 * counts with all of its /64, of which a host has as many as it likes.
 */
#ifndef LARD_CROWD_H
#define LARD_CROWD_H

#include <stdint.h>
#include "address.h"

struct crowd;
struct crowd_address;

/* @seed: a secret, lest somebody pick addresses that share a place. NULL: no memory. */
struct crowd *crowd_new(uint64_t seed);
/* With all that are counted. NULL is fine. */
void crowd_free(struct crowd *crowd);

/*
 * One connection more of @peer, who may have @most; to be given back. NULL: he has as many, or there
 * is no memory.
 */
struct crowd_address *crowd_enter(struct crowd *crowd, const union address *peer,
				  unsigned int most);
/* NULL is fine: it was not counted. */
void crowd_leave(struct crowd *crowd, struct crowd_address *address);

/* Addresses that have a connection. */
unsigned int crowd_size(struct crowd *crowd);

#endif
