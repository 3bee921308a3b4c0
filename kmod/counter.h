/* SPDX-License-Identifier: GPL-2.0 */
/* The counters of room "flotilla"; their names are in stats.c, in this order. */
#ifndef FLT_COUNTER_H
#define FLT_COUNTER_H

#include "netns.h"
#include "stats.h"

enum flt_counter {
	FLT_LINK_UP,
	FLT_LINK_DOWN,
	FLT_LINK_CONNECTS,
	FLT_LINK_CONNECT_FAILED,
	FLT_LINK_ACCEPTS,
	FLT_LINK_PEER_RESTARTED,
	FLT_LINK_HEARTBEAT_LOST,
	FLT_LINK_STOOD_STILL,
	FLT_LINK_STALLED,
	FLT_LINK_AUTH_DONE,
	FLT_LINK_AUTH_FAILED,
	FLT_REFUSED_STRANGER,
	FLT_REFUSED_ORDER,
	FLT_REFUSED_BACKOFF,
	FLT_REFUSED_NAME,
	FLT_REFUSED_PORT,
	FLT_REFUSED_ALIVE,
	FLT_REFUSED_BUSY,
	FLT_BAD_MAGIC,
	FLT_BAD_VERSION,
	FLT_BAD_LENGTH,
	FLT_BAD_TYPE,
	FLT_BAD_BODY,
	FLT_MSG_NO_HANDLER,
	FLT_MSG_IN,
	FLT_MSG_OUT,
	FLT_BYTES_IN,
	FLT_BYTES_OUT,
	FLT_SEND_DIRECT,
	FLT_SEND_BATCHES,
	FLT_SEND_NOT_CONNECTED,
	FLT_SEND_NO_BUFFERS,
	FLT_SEND_NO_MEMORY,
	FLT_EVENTS_LOST,
	FLT_LAYERS_ADDED,
	FLT_LAYERS_INHERITED,
	FLT_LAYERS_REFUSED,
	FLT_LAYERS_LOST,
	FLT_STACKS_KEPT,
	FLT_TLS_STARTED,
	FLT_TLS_FAILED,
	FLT_TLS_BROKEN,
	FLT_TLS_REKEYED,
	FLT_NR_COUNTERS
};

static inline void flt_count(struct flt_net *fn, enum flt_counter which)
{
	flt_stats_inc(fn->stats, which);
}

static inline void flt_count_add(struct flt_net *fn, enum flt_counter which, u64 n)
{
	flt_stats_add(fn->stats, which, n);
}

/* The table of this room itself. */
int flt_stats_init(void);
void flt_stats_exit(void);

#endif
