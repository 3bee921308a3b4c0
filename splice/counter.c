// SPDX-License-Identifier: GPL-2.0
/* The counter table of this room. */

#include <linux/module.h>
#include <flotilla/splice.h>

#include "counter.h"

static const char *const ssp_stat_names[] = {
	[SSP_STAT_STARTED] = "SpliceStarted",
	[SSP_STAT_IN_CALL] = "SpliceDoneInCall",
	[SSP_STAT_REFUSED_SOCKET] = "SpliceRefusedSocket",
	[SSP_STAT_REFUSED_STATE] = "SpliceRefusedState",
	[SSP_STAT_REFUSED_BUSY] = "SpliceRefusedBusy",
	[SSP_STAT_REFUSED_OFF] = "SpliceRefusedOff",
	[SSP_STAT_REFUSED_DATA] = "SpliceRefusedData",
	[SSP_STAT_REFUSED_MEMORY] = "SpliceRefusedMemory",
	[SSP_STAT_REFUSED_LOOP] = "SpliceRefusedLoop",
	[SSP_STAT_REFUSED_USER] = "SpliceRefusedUser",
	[SSP_STAT_REFUSED_DENIED] = "SpliceRefusedDenied",
	/* in the order of enum ssp_cause */
	[SSP_STAT_ENDED] = "SpliceEndedLimit",
	"SpliceEndedEof",
	"SpliceEndedSource",
	"SpliceEndedSink",
	"SpliceEndedClosed",
	"SpliceEndedUnspliced",
	"SpliceEndedBoth",
	"SpliceEndedUrgent",
	"SpliceEndedTaken",
	[SSP_STAT_BYTES] = "SpliceBytesSoftirq",
	[SSP_STAT_BYTES_WORKER] = "SpliceBytesWorker",
	[SSP_STAT_BYTES_CALL] = "SpliceBytesCall",
	[SSP_STAT_BYTES_LINEAR] = "SpliceBytesLinear",
	[SSP_STAT_SENDS] = "SpliceSends",
	[SSP_STAT_PARTIAL] = "SplicePartialPackets",
	[SSP_STAT_GATHERED] = "SpliceGathered",
	[SSP_STAT_FULL] = "SpliceSinkFull",
	[SSP_STAT_BUDGET] = "SpliceBudgetSpent",
	[SSP_STAT_NO_MEMORY] = "SpliceNoMemory",
	[SSP_STAT_TRYLOCK_MISSED] = "SpliceTrylockMissed",
	[SSP_STAT_OWNED] = "SpliceSocketOwned",
	[SSP_STAT_WORK_SLOW] = "SpliceWorkSlow",
	[SSP_STAT_COPY_BYTES] = "SpliceCopyBytes",
	[SSP_STAT_COPY_HELD] = "SpliceCopyHeld",
	[SSP_STAT_COPY_ONLY] = "SpliceCopyOnly",
	[SSP_STAT_BUSY_CALLS] = "SpliceBusyCalls",
	[SSP_STAT_PAUSED] = "SplicePaused",
	/* computed at the time of the dump, see ssp_stats_gauge() */
	[SSP_STAT_MAX] = "SpliceActive",
};

/* The name of each slot is given by its place: none may be missing. */
static_assert(ARRAY_SIZE(ssp_stat_names) == SSP_STAT_MAX + 1);
static_assert(SSP_STAT_ENDED_LAST - SSP_STAT_ENDED == SSP_CAUSE_TAKEN - SSP_CAUSE_LIMIT);

static u64 __percpu *ssp_stats_values(struct net *net)
{
	return ssp_net(net)->stats;
}

static u64 ssp_stats_gauge(struct net *net, unsigned int index)
{
	return atomic_read(&ssp_net(net)->active);
}

static struct flt_stats ssp_stats = {
	.room = "splice",
	.names = ssp_stat_names,
	.nr = SSP_STAT_MAX,
	.nr_gauges = ARRAY_SIZE(ssp_stat_names) - SSP_STAT_MAX,
	.values = ssp_stats_values,
	.gauge = ssp_stats_gauge,
	.owner = THIS_MODULE,
};

int ssp_stats_register(void)
{
	return flt_stats_register(&ssp_stats);
}

void ssp_stats_unregister(void)
{
	flt_stats_unregister(&ssp_stats);
}
