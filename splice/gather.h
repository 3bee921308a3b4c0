/* SPDX-License-Identifier: GPL-2.0 */
/* Waiting for more bytes: few large sends cost less than many small ones. */
#ifndef SSP_GATHER_H
#define SSP_GATHER_H

#include "pair.h"

void ssp_gather_init(struct ssp_pair *p);

/**
 * ssp_gather - data has come: shall it wait for more?
 * @sk: the source, locked; under rcu_read_lock()
 *
 * Only while the destination has not acknowledged all that it was sent, so that it has
 * something to do meanwhile, or was sent something less than gather_us ago; never for longer than
 * gather_us; never at the end.
 *
 * Return: true if it waits; an ACK, more data or the timer will end that.
 */
bool ssp_gather(struct ssp_pair *p, const struct sock *sk);

/* Data waits, and may go on waiting; any lock of the two. */
bool ssp_gathers(struct ssp_pair *p);

/* Both sockets locked: the waiting is over. */
void ssp_gather_end(struct ssp_pair *p);

/* Both sockets locked: while there is something to acknowledge, ACKs are heard. */
void ssp_gather_hear(struct ssp_pair *p);

#endif
