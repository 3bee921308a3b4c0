/* SPDX-License-Identifier: GPL-2.0 */
/* This node's name and the listeners on its addresses. */
#ifndef FLT_LISTEN_H
#define FLT_LISTEN_H

#include <linux/netlink.h>
#include "netns.h"

/**
 * flt_listen_set - become, or become another one
 * @fn:     namespace
 * @local:  name, addresses and port, each one valid; copied
 * @extack: sentence for the error
 *
 * Links that are up stay as they are; others begin anew when something changed.
 *
 * Return: 0; -EADDRNOTAVAIL; -EADDRINUSE; -EEXIST a node has that name or
 * address; then everything is as before.
 */
int flt_listen_set(struct flt_net *fn, const struct flt_local *local,
		   struct netlink_ext_ack *extack);
void flt_listen_stop(struct flt_net *fn);

#endif
