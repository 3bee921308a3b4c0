/* SPDX-License-Identifier: GPL-2.0 */
#ifndef FLT_CONNWALK_H
#define FLT_CONNWALK_H

#include "conn.h"

/* As flt_conn_source.walk of whoever is registered; 0 when nobody is. */
int flt_conn_walk(struct net *net, u64 *cursor,
		  int (*emit)(const struct flt_conn *conn, void *arg), void *arg);

#endif
