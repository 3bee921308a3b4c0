/* SPDX-License-Identifier: GPL-2.0 */
/* Telling a client that its connection is lost. */
#ifndef HOF_RESET_H
#define HOF_RESET_H

#include <linux/types.h>
#include <flotilla/flotilla.h>

struct hof_net;

/**
 * hof_reset_client - send a RST in the name of the service's address
 * @seq: what the client expects next: what it acknowledged last
 *
 * RCU; any context but hard interrupt.
 */
void hof_reset_client(struct hof_net *hn, const struct flt_tuple *tuple, u32 seq);

#endif
