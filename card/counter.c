// SPDX-License-Identifier: GPL-2.0
/* The counter table of this room. */

#include <linux/module.h>

#include "counter.h"

static const char *const card_stat_names[] = {
	[CARD_STAT_REQUESTS] = "CardRequests",
	[CARD_STAT_READS] = "CardReads",
	[CARD_STAT_WRITES] = "CardWrites",
	[CARD_STAT_BYTES_READ] = "CardBytesRead",
	[CARD_STAT_BYTES_WRITTEN] = "CardBytesWritten",
	[CARD_STAT_FROM_DISK] = "CardFromDisk",
	[CARD_STAT_FROM_CACHE] = "CardFromCache",
	[CARD_STAT_FROM_PEER] = "CardFromPeer",
	[CARD_STAT_RESENT] = "CardResent",
	[CARD_STAT_TIMEOUTS] = "CardTimeouts",
	[CARD_STAT_ERRORS] = "CardErrors",
	[CARD_STAT_LATE] = "CardLateReplies",
	[CARD_STAT_BAD_CRC] = "CardBadCrc",
	[CARD_STAT_RACED] = "CardBuffersChanged",
	[CARD_STAT_BAD_REPLY] = "CardBadReplies",
	[CARD_STAT_ATTACHED] = "CardAttached",
	[CARD_STAT_LOST] = "CardLost",
	[CARD_STAT_REFUSED] = "CardRefused",
	[CARD_STAT_GIVEN_UP] = "CardGivenUp",
	[CARD_STAT_WRITES_LOST] = "CardWritesLost",
	[CARD_STAT_FLUSHES_FAILED] = "CardFlushesFailed",
	[CARD_STAT_SWAP_REFUSED] = "CardSwapRefused",
	[CARD_STAT_TOTAL_NS] = "CardTotalNsec",
	[CARD_STAT_COPY_NS] = "CardCopyNsec",
	[CARD_STAT_SERVICE_NS] = "CardServiceNsec",
	[CARD_STAT_REMOTE_DISK_US] = "CardRemoteDiskUsec",
	[CARD_STAT_SERVED] = "CardServed",
	[CARD_STAT_SERVED_CACHED] = "CardServedCached",
	[CARD_STAT_SERVED_DISK] = "CardServedDisk",
	[CARD_STAT_SERVED_BYTES] = "CardServedBytes",
	[CARD_STAT_SERVED_CACHED_PAGES] = "CardServedCachedPages",
	[CARD_STAT_SERVED_DISK_PAGES] = "CardServedDiskPages",
	[CARD_STAT_SERVED_WRITES] = "CardServedWrites",
	[CARD_STAT_WRITES_ORDERED] = "CardWritesOrdered",
	[CARD_STAT_SERVE_INLINE] = "CardServeInline",
	[CARD_STAT_SERVE_THREAD] = "CardServeThread",
	[CARD_STAT_DELIVER_SOFTIRQ] = "CardDeliverSoftirq",
	[CARD_STAT_DELIVER_THREAD] = "CardDeliverThread",
	[CARD_STAT_THREAD_WAKEUPS] = "CardThreadWakeups",
	[CARD_STAT_KEPT_PAGES] = "CardKeptPages",
	[CARD_STAT_FRESH_PAGES] = "CardFreshPages",
	[CARD_STAT_FILE_PAGES] = "CardFilePages",
	[CARD_STAT_FILE_MISMATCH] = "CardFileMismatch",
	[CARD_STAT_SERVE_NS] = "CardServeNsec",
	[CARD_STAT_DISK_NS] = "CardDiskNsec",
	[CARD_STAT_DENIED] = "CardDenied",
	[CARD_STAT_STOLEN] = "CardWritersFenced",
	[CARD_STAT_STALE] = "CardStaleAddress",
	[CARD_STAT_RANGE] = "CardBadRange",
	[CARD_STAT_BUSY] = "CardSessionFull",
	[CARD_STAT_ASKED_AGAIN] = "CardAskedAgain",
	[CARD_STAT_DISK_ERRORS] = "CardDiskErrors",
	[CARD_STAT_NOT_SENT] = "CardRepliesNotSent",
	[CARD_STAT_HOSTED_HITS] = "CardHostedHits",
	[CARD_STAT_PEER_SERVED] = "CardPeerServed",
	[CARD_STAT_FORWARDS] = "CardForwards",
	[CARD_STAT_PEER_REFUSED] = "CardPeerRefused",
	[CARD_STAT_EVICTIONS] = "CardEvictions",
	[CARD_STAT_SAVES] = "CardSaves",
	[CARD_STAT_SAVES_LOST] = "CardSavesLost",
	[CARD_STAT_SAVES_PASSED] = "CardSavesPassed",
	[CARD_STAT_SAVES_REFUSED] = "CardSavesRefused",
	[CARD_STAT_HOSTED] = "CardHosted",
	[CARD_STAT_HOSTED_DROPPED] = "CardHostedDropped",
	[CARD_STAT_INDEX_SENT] = "CardIndexSent",
	[CARD_STAT_INDEX_RECEIVED] = "CardIndexReceived",
	[CARD_STAT_CACHE_MISMATCH] = "CardCacheMismatch",
	[CARD_STAT_BAD_MESSAGE] = "CardBadMessages",
};

/* The name of each slot is given by its place: none may be missing. */
static_assert(ARRAY_SIZE(card_stat_names) == CARD_STAT_MAX);

static u64 __percpu *card_stats_values(struct net *net)
{
	return card_net(net)->stats;
}

static struct flt_stats card_stats = {
	.room = "card",
	.names = card_stat_names,
	.nr = CARD_STAT_MAX,
	.values = card_stats_values,
	.owner = THIS_MODULE,
};

int card_stats_net_init(struct card_net *cn)
{
	cn->stats = __alloc_percpu(CARD_STAT_MAX * sizeof(u64), sizeof(u64));
	return cn->stats ? 0 : -ENOMEM;
}

void card_stats_net_exit(struct card_net *cn)
{
	free_percpu(cn->stats);
}

int card_stats_register(void)
{
	return flt_stats_register(&card_stats);
}

void card_stats_unregister(void)
{
	flt_stats_unregister(&card_stats);
}
