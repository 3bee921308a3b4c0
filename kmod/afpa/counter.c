// SPDX-License-Identifier: GPL-2.0
/* The counter table of this room. */

#include <linux/module.h>

#include "counter.h"

enum {
	AFPA_GAUGE_OBJECTS = AFPA_STAT_MAX,
	AFPA_GAUGE_USED,
	AFPA_GAUGE_OUTSIDE,
	AFPA_GAUGE_SITES,
	AFPA_GAUGE_END
};

static const char *const afpa_stat_names[] = {
	[AFPA_STAT_HITS] = "AfpaHits",
	[AFPA_STAT_HITS_SOFTIRQ] = "AfpaHitsSoftirq",
	[AFPA_STAT_HITS_ACCEPT] = "AfpaHitsAccept",
	[AFPA_STAT_HITS_WORKER] = "AfpaHitsWorker",
	[AFPA_STAT_HEADS] = "AfpaHeads",
	[AFPA_STAT_MISSES] = "AfpaMisses",
	[AFPA_STAT_DEFERRED] = "AfpaDeferred",
	[AFPA_STAT_DEFERRED_METHOD] = "AfpaDeferredMethod",
	[AFPA_STAT_DEFERRED_LINE] = "AfpaDeferredLine",
	[AFPA_STAT_DEFERRED_PATH] = "AfpaDeferredPath",
	[AFPA_STAT_DEFERRED_HOST] = "AfpaDeferredHost",
	[AFPA_STAT_DEFERRED_FIELD] = "AfpaDeferredField",
	[AFPA_STAT_DEFERRED_CONNECTION] = "AfpaDeferredConnection",
	[AFPA_STAT_DEFERRED_BODY] = "AfpaDeferredBody",
	[AFPA_STAT_DEFERRED_CONDITION] = "AfpaDeferredCondition",
	[AFPA_STAT_DEFERRED_COOKIE] = "AfpaDeferredCookie",
	[AFPA_STAT_DEFERRED_CREDENTIALS] = "AfpaDeferredCredentials",
	[AFPA_STAT_DEFERRED_FRESH] = "AfpaDeferredFresh",
	[AFPA_STAT_DEFERRED_LARGE] = "AfpaDeferredLarge",
	[AFPA_STAT_TAKEN] = "AfpaTaken",
	[AFPA_STAT_PARTIAL] = "AfpaPartial",
	[AFPA_STAT_BYTES] = "AfpaBytes",
	[AFPA_STAT_READS] = "AfpaReads",
	[AFPA_STAT_READ_ERRORS] = "AfpaReadErrors",
	[AFPA_STAT_ABSENT] = "AfpaAbsent",
	[AFPA_STAT_CONTINUED] = "AfpaContinued",
	[AFPA_STAT_CLOSED] = "AfpaClosed",
	[AFPA_STAT_BURSTS] = "AfpaBursts",
	[AFPA_STAT_NO_MEMORY] = "AfpaNoMemory",
	[AFPA_STAT_FLUSHED] = "AfpaFlushed",
	[AFPA_STAT_RESET_STALLED] = "AfpaResetStalled",
	[AFPA_STAT_RESET_SITE] = "AfpaResetSite",
	[AFPA_STAT_RESET_FILE] = "AfpaResetFile",
	[AFPA_STAT_LOCKED] = "AfpaLocked",
	[AFPA_STAT_REFUSED] = "AfpaRefusedListener",
	[AFPA_STAT_LOGGED] = "AfpaLogged",
	[AFPA_STAT_LOG_LOST] = "AfpaLogLost",
	[AFPA_STAT_PUTS] = "AfpaPuts",
	[AFPA_STAT_REPLACED] = "AfpaReplaced",
	[AFPA_STAT_DELETED] = "AfpaDeleted",
	[AFPA_STAT_BANNED] = "AfpaBanned",
	[AFPA_STAT_STALE] = "AfpaStale",
	[AFPA_STAT_EVICTED] = "AfpaEvicted",
	[AFPA_STAT_EXPIRED] = "AfpaExpired",
	[AFPA_STAT_SHRUNK] = "AfpaShrunk",
	[AFPA_STAT_SHRUNK_AUTOMATIC] = "AfpaShrunkAutomatic",
	[AFPA_STAT_REMOTE_ASKED] = "AfpaRemoteAsked",
	[AFPA_STAT_REMOTE_DONE] = "AfpaRemoteDone",
	[AFPA_STAT_REMOTE_REFUSED] = "AfpaRemoteRefused",
	/* computed at the time of the dump, see afpa_stats_gauge() */
	[AFPA_GAUGE_OBJECTS] = "AfpaObjects",
	[AFPA_GAUGE_USED] = "AfpaCacheBytes",
	[AFPA_GAUGE_OUTSIDE] = "AfpaOutsideBytes",
	[AFPA_GAUGE_SITES] = "AfpaSites",
};

/* The name of each slot is given by its place: none may be missing. */
static_assert(ARRAY_SIZE(afpa_stat_names) == AFPA_GAUGE_END);

static u64 __percpu *afpa_stats_values(struct net *net)
{
	return afpa_net(net)->stats;
}

static u64 afpa_stats_gauge(struct net *net, unsigned int index)
{
	struct afpa_net *an = afpa_net(net);

	switch (index) {
	case AFPA_GAUGE_OBJECTS:
		return READ_ONCE(an->cache.objects);
	case AFPA_GAUGE_USED:
		return READ_ONCE(an->cache.used[AFPA_CLOCK_ALL]);
	case AFPA_GAUGE_OUTSIDE:
		return afpa_cache_outside(&an->cache);
	default:
		return READ_ONCE(an->nr_sites);
	}
}

static struct flt_stats afpa_stats = {
	.room = "afpa",
	.names = afpa_stat_names,
	.nr = AFPA_STAT_MAX,
	.nr_gauges = AFPA_GAUGE_END - AFPA_STAT_MAX,
	.values = afpa_stats_values,
	.gauge = afpa_stats_gauge,
	.owner = THIS_MODULE,
};

int afpa_stats_register(void)
{
	return flt_stats_register(&afpa_stats);
}

void afpa_stats_unregister(void)
{
	flt_stats_unregister(&afpa_stats);
}
