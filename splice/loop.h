/* SPDX-License-Identifier: GPL-2.0 */
/* Circles: transfers that would feed themselves. */
#ifndef SSP_LOOP_H
#define SSP_LOOP_H

struct ssp_pair;

/**
 * ssp_loop_check - would what this transfer sends come back to it
 * @p: attached, nothing forwarded yet; both sockets locked
 *
 * Follows the bytes: from the destination to the socket at the other end of its connection, if that
 * is in this network namespace; from there through the transfer that it is the source of; and on.
 * As a transfer is attached before it looks, the last of two that close a circle sees the other.
 *
 * Return: 0, or -ELOOP: a circle, or a chain of more than 16 transfers.
 */
int ssp_loop_check(struct ssp_pair *p);

#endif
