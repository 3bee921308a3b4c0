/* SPDX-License-Identifier: GPL-2.0 */
/* The engine: bytes go from one socket's receive queue to the other's send queue. */
#ifndef SSP_FORWARD_H
#define SSP_FORWARD_H

#include "pair.h"

/**
 * ssp_advance - forward what there is and room for, and see whether it is over
 * @p:     both sockets locked
 * @dirs:  SSP_FROM0, SSP_FROM1: the receive queues that may be touched
 * @where: for counters
 * @tell:  wake pollers
 */
void ssp_advance(struct ssp_pair *p, unsigned int dirs, enum ssp_where where, bool tell);

/**
 * ssp_kick - something happened on @sk, which is locked, from within a callback of it
 * @dirs: as for ssp_advance()
 *
 * Under rcu_read_lock().
 */
void ssp_kick(struct ssp_pair *p, struct sock *sk, unsigned int dirs);

/*
 * As a softirq would: nobody owns the sockets meanwhile, so that what arrives does not
 * take the way over their backlogs. No lock is held; softirq or process context. False: a
 * program has one of them, and nothing was done. Where the user's time is used up it comes
 * later.
 */
bool ssp_run_light(struct ssp_pair *p, enum ssp_where where);

/*
 * Do all that is to be done; no lock is held. Process context. False: a program has one of the
 * sockets, and there is something left to do.
 */
bool ssp_run(struct ssp_pair *p, enum ssp_where where);

#endif
