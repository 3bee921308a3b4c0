/* SPDX-License-Identifier: GPL-2.0 */
/* When a transfer is over, and who is told. */
#ifndef SSP_JUDGE_H
#define SSP_JUDGE_H

#include <linux/types.h>
#include <net/sock.h>

struct ssp_pair;

/* Bytes can be sent on @sk, which is locked, or will be able to once there is room. */
bool ssp_can_send(const struct sock *sk);

/* Somebody else's now: kTLS, a sockmap, a checkpoint. */
bool ssp_is_taken(const struct sock *sk);

/*
 * Both sockets locked, and what could be forwarded was: is it over, and why. Passes on
 * FINs and resets of SSP_BIDIR. @tell: wake the pollers, let go of SSP_AUTORELEASE.
 */
void ssp_judge(struct ssp_pair *p, bool tell);

/*
 * Both sockets locked: the last descriptor of @side is being closed. Ends and releases, but for the
 * destination of SSP_KEEPCOPY: the copy goes on without it.
 */
void ssp_judge_left(struct ssp_pair *p, int side);

/* Both sockets locked: it does not begin after all. */
void ssp_judge_abort(struct ssp_pair *p);

/*
 * Both sockets locked: a socket of it was taken over, or closed without our hearing of it. Ends and
 * releases: no call of a program would come to us for that.
 */
void ssp_judge_lost(struct ssp_pair *p);

/* Both sockets locked: SSP_IOC_UNSPLICE; ends and releases. */
void ssp_judge_unsplice(struct ssp_pair *p);

#endif
