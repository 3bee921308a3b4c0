// SPDX-License-Identifier: GPL-2.0
/* The counter table of this room. */

#include <linux/log2.h>
#include <linux/module.h>

#include "admit.h"
#include "adopt.h"
#include "counter.h"
#include "entry.h"

static const u8 hof_refusals[HOF_REFUSAL_SLOTS - 1] = {
	FLT_REFUSE_NOTTCP,
	FLT_REFUSE_STATE,
	FLT_REFUSE_SENDQUEUE,
	FLT_REFUSE_OOO,
	FLT_REFUSE_URGENT,
	FLT_REFUSE_ULP,
	FLT_REFUSE_MPTCP,
	FLT_REFUSE_PSOCK,
	FLT_REFUSE_MD5,
	FLT_REFUSE_IPOPTIONS,
	FLT_REFUSE_FASTOPEN,
	FLT_REFUSE_REPAIR,
	FLT_REFUSE_TOOMUCH,
	FLT_REFUSE_FOREIGN,
	FLT_REFUSE_SHARED,
	FLT_REFUSE_BUSY,
	FLT_REFUSE_CHANGED,
	FLT_REFUSE_FINRECV,
	FLT_REFUSE_SCOPE,
	FLT_REFUSE_ACCECN,
	FLT_REFUSE_NOLISTENER,
	FLT_REFUSE_FULL,
	FLT_REFUSE_DUPLICATE,
	FLT_REFUSE_NOROUTE,
	FLT_REFUSE_NOMEM,
	FLT_REFUSE_VERSION,
	FLT_REFUSE_MALFORMED,
	FLT_REFUSE_NOTLOCAL,
	FLT_REFUSE_POLICY,
	FLT_REFUSE_INSECURE,
	FLT_REFUSE_SERVICE,
	FLT_REFUSE_CLIENT,
	FLT_REFUSE_ROLE,
	FLT_REFUSE_KEYS,
	FLT_REFUSE_KTLS,
	FLT_REFUSE_NODEDOWN,
	FLT_REFUSE_TIMEOUT,
	FLT_REFUSE_ABORTED,
	FLT_REFUSE_TABLEFULL,
	FLT_REFUSE_NONODE,
};

static const char *const hof_stat_names[] = {
	[HOF_STAT_HANDOFF_SUBMITTED] = "HandoffSubmitted",
	[HOF_STAT_HANDOFF_DONE] = "HandoffDone",
	[HOF_STAT_HANDOFF_FAILED] = "HandoffFailed",
	[HOF_STAT_HANDOFF_CLOSED] = "HandoffClosed",
	[HOF_STAT_HANDOFF_NODE_LOST] = "HandoffNodeLost",
	[HOF_STAT_HANDOFF_NO_PATH] = "HandoffNoPath",
	[HOF_STAT_HANDOFF_DRAINED] = "HandoffDrained",
	[HOF_STAT_ADOPT_REQUESTS] = "AdoptRequests",
	[HOF_STAT_ADOPT_PREPARED] = "AdoptPrepared",
	[HOF_STAT_ADOPT_REFUSED] = "AdoptRefused",
	[HOF_STAT_ADOPT_DRAINED] = "AdoptDrained",
	[HOF_STAT_ADOPT_COMMITTED] = "AdoptCommitted",
	[HOF_STAT_ADOPT_COMMIT_FAILED] = "AdoptCommitFailed",
	[HOF_STAT_ADOPT_ABORTED] = "AdoptAborted",
	[HOF_STAT_ADOPT_QUERIED] = "AdoptQueried",
	[HOF_STAT_ADOPT_EXPIRED] = "AdoptExpired",
	[HOF_STAT_ADOPT_RETURNED] = "AdoptReturned",
	[HOF_STAT_ADOPT_ENDED] = "AdoptEnded",
	[HOF_STAT_ADOPT_EVICTED] = "AdoptEvicted",
	[HOF_STAT_CLAIM_SENT] = "ClaimSent",
	[HOF_STAT_CLAIM_GRANTED] = "ClaimGranted",
	[HOF_STAT_CLAIM_REFUSED] = "ClaimRefused",
	[HOF_STAT_ORIGIN_CLAIMS] = "OriginClaims",
	[HOF_STAT_ORIGIN_GRANTED] = "OriginGranted",
	[HOF_STAT_ORIGIN_FORGED] = "OriginForged",
	[HOF_STAT_TAKEOVER_TAKEN] = "TakeoverTaken",
	[HOF_STAT_TAKEOVER_REFUSED] = "TakeoverRefused",
	[HOF_STAT_TAKEOVER_HELD] = "TakeoverHeld",
	[HOF_STAT_SUCCESSOR_ASKED] = "SuccessorAsked",
	[HOF_STAT_SUCCESSOR_REFUSED] = "SuccessorRefused",
	[HOF_STAT_SUCCESSOR_GIVEN] = "SuccessorGiven",
	[HOF_STAT_RELOCATE_ASKED] = "RelocateAsked",
	[HOF_STAT_RELOCATE_REFUSED] = "RelocateRefused",
	[HOF_STAT_RELOCATE_BEGUN] = "RelocateBegun",
	[HOF_STAT_LIFE_LOST] = "LifeLost",
	[HOF_STAT_LIFE_LOOKS] = "LifeLooks",
	[HOF_STAT_FORWARD_PACKETS] = "ForwardPackets",
	[HOF_STAT_FORWARD_BYTES] = "ForwardBytes",
	[HOF_STAT_FORWARD_ICMP] = "ForwardIcmp",
	[HOF_STAT_FORWARD_LINGER] = "ForwardLinger",
	[HOF_STAT_FORWARD_SYN_EARLY] = "ForwardSynEarly",
	[HOF_STAT_FORWARD_SYN_REUSE] = "ForwardSynReuse",
	[HOF_STAT_FORWARD_IDLE_EXPIRED] = "ForwardIdleExpired",
	[HOF_STAT_FORWARD_LINGER_EXPIRED] = "ForwardLingerExpired",
	[HOF_STAT_FORWARD_LINGER_EVICTED] = "ForwardLingerEvicted",
	[HOF_STAT_FORWARD_NO_ROUTE] = "ForwardNoRoute",
	[HOF_STAT_FORWARD_TOO_BIG] = "ForwardTooBig",
	[HOF_STAT_FORWARD_PATH_MTU] = "ForwardPathMtu",
	[HOF_STAT_FORWARD_PATH_MTU_REFUSED] = "ForwardPathMtuRefused",
	[HOF_STAT_FORWARD_STRANGER] = "ForwardStranger",
	[HOF_STAT_FORWARD_TTL_EXPIRED] = "ForwardTtlExpired",
	[HOF_STAT_FORWARD_FRAGMENTS] = "ForwardFragments",
	[HOF_STAT_FORWARD_DROPPED] = "ForwardDropped",
	[HOF_STAT_FORWARD_RESETS] = "ForwardResets",
	[HOF_STAT_HOLD_QUEUED] = "HoldQueued",
	[HOF_STAT_HOLD_DROPPED] = "HoldDropped",
	[HOF_STAT_HOLD_FORWARDED] = "HoldForwarded",
	[HOF_STAT_HOLD_REINJECTED] = "HoldReinjected",
	[HOF_STAT_EARLY_SYNS] = "EarlySyns",
	[HOF_STAT_EARLY_UNANSWERED] = "EarlyUnanswered",
	[HOF_STAT_EARLY_ACKS] = "EarlyAcks",
	[HOF_STAT_EARLY_STRANGERS] = "EarlyStrangers",
	[HOF_STAT_EARLY_GIVEN] = "EarlyGiven",
	[HOF_STAT_EARLY_PROBES] = "EarlyProbes",
	[HOF_STAT_EARLY_LEFT] = "EarlyLeft",
	[HOF_STAT_EARLY_AGAIN] = "EarlyAgain",
	[HOF_STAT_EARLY_FULL] = "EarlyFull",
	[HOF_STAT_EARLY_TABLE_HITS] = "EarlyTableHits",
	[HOF_STAT_EARLY_TABLE_MISSES] = "EarlyTableMisses",
	[HOF_STAT_EARLY_TABLE_ASKED] = "EarlyTableAsked",
	[HOF_STAT_EARLY_TABLE_UNCLEAR] = "EarlyTableUnclear",
	[HOF_STAT_EARLY_TABLE_AWAY] = "EarlyTableAway",
	[HOF_STAT_EARLY_TABLE_FULL] = "EarlyTableFull",
	[HOF_STAT_ROOM_TOLD] = "AdmitRoomTold",
	[HOF_STAT_ROOM_IGNORED] = "AdmitRoomIgnored",
	[HOF_STAT_REDIRECT_CLOSED] = "RedirectClosed",
	[HOF_STAT_REDIRECT_EXPIRED] = "RedirectExpired",
	[HOF_STAT_REDIRECT_ASKED] = "RedirectAsked",
	[HOF_STAT_HINT_SENT] = "HintSent",
	[HOF_STAT_HINT_TAKEN] = "HintTaken",
	[HOF_STAT_HINT_REFUSED] = "HintRefused",
	/* in the order of enum hof_redirect_stat */
	[HOF_STAT_REDIRECT] = "RedirectSent",
	"RedirectAgain",
	"RedirectSilent",
	"RedirectNone",
	"RedirectHeavy",
	"RedirectFull",
	"RedirectNoRoute",
	"RedirectTaken",
	"RedirectRefused",
	/* in the order of enum hof_policy_stat */
	[HOF_STAT_POLICY] = "PolicyAsked",
	"PolicyMoved",
	"PolicyStayed",
	"PolicyStayedMore",
	"PolicyStayedCame",
	"PolicyStayedHops",
	"PolicyStayedUnsure",
	"PolicyStayedEnded",
	"PolicyStayedTarget",
	"PolicyStayedRefused",
	"PolicyStayedPlain",
	/* in the order of enum hof_admit_stat */
	[HOF_STAT_ADMIT] = "AdmitTagged",
	"AdmitMoved",
	"AdmitRejected",
	"AdmitKept",
	"AdmitDropped",
	"AdmitClosed",
	"AdmitNotified",
	"AdmitAgain",
	/* in the order of hof_refusals[] */
	[HOF_STAT_REFUSED] = "HandoffRefusedNotTcp",
	"HandoffRefusedState",
	"HandoffRefusedSendQueue",
	"HandoffRefusedOoo",
	"HandoffRefusedUrgent",
	"HandoffRefusedUlp",
	"HandoffRefusedMptcp",
	"HandoffRefusedPsock",
	"HandoffRefusedMd5",
	"HandoffRefusedIpOptions",
	"HandoffRefusedFastOpen",
	"HandoffRefusedRepair",
	"HandoffRefusedTooMuch",
	"HandoffRefusedForeign",
	"HandoffRefusedShared",
	"HandoffRefusedBusy",
	"HandoffRefusedChanged",
	"HandoffRefusedFinRecv",
	"HandoffRefusedScope",
	"HandoffRefusedAccEcn",
	"HandoffRefusedNoListener",
	"HandoffRefusedFull",
	"HandoffRefusedDuplicate",
	"HandoffRefusedNoRoute",
	"HandoffRefusedNoMem",
	"HandoffRefusedVersion",
	"HandoffRefusedMalformed",
	"HandoffRefusedNotLocal",
	"HandoffRefusedPolicy",
	"HandoffRefusedInsecure",
	"HandoffRefusedService",
	"HandoffRefusedClient",
	"HandoffRefusedRole",
	"HandoffRefusedKeys",
	"HandoffRefusedKtls",
	"HandoffRefusedNodeDown",
	"HandoffRefusedTimeout",
	"HandoffRefusedAborted",
	"HandoffRefusedTableFull",
	"HandoffRefusedNoNode",
	"HandoffRefusedOther",
	[HOF_STAT_LATENCY] = "HandoffUsec1",
	"HandoffUsec2",
	"HandoffUsec4",
	"HandoffUsec8",
	"HandoffUsec16",
	"HandoffUsec32",
	"HandoffUsec64",
	"HandoffUsec128",
	"HandoffUsec256",
	"HandoffUsec512",
	"HandoffUsec1024",
	"HandoffUsec2048",
	"HandoffUsec4096",
	"HandoffUsec8192",
	"HandoffUsec16384",
	"HandoffUsec32768",
	"HandoffUsec65536",
	"HandoffUsec131072",
	"HandoffUsec262144",
	"HandoffUsec524288",
	"HandoffUsec1048576",
	"HandoffUsecMore",
	[HOF_STAT_LATENCY_SUM] = "HandoffUsecSum",
	/* computed at the time of the dump, see hof_stats_gauge() */
	[HOF_STAT_MAX] = "ForwardEntries",
	"ForwardEntryBytes",
	"HandoffInFlight",
	"AdoptLive",
	"AdoptPending",
	"HoldBytes",
	"AdoptRelayed",
	"ClaimPending",
	"AdmitWindow",
	"AdmitWaiting",
	"RedirectEntries",
	"RedirectUnopened",
};

void hof_count_refusal(struct hof_net *hn, enum flt_refusal why)
{
	unsigned int slot;

	for (slot = 0; slot < ARRAY_SIZE(hof_refusals); slot++)
		if (hof_refusals[slot] == why)
			break;
	hof_count(hn, HOF_STAT_REFUSED + slot);
}

void hof_count_latency(struct hof_net *hn, u32 usec)
{
	unsigned int slot = usec > 1 ? ilog2(usec - 1) + 1 : 0;

	hof_count(hn, HOF_STAT_LATENCY + min_t(unsigned int, slot, HOF_LATENCY_SLOTS - 1));
	hof_count_add(hn, HOF_STAT_LATENCY_SUM, usec);
}

static u64 hof_stats_gauge(struct net *net, unsigned int index)
{
	struct hof_net *hn = hof_net(net);

	switch (index - HOF_STAT_MAX) {
	case 0:
		return hof_entry_count(hn);
	case 1:
		return hof_entry_size(AF_INET);
	case 2:
		return READ_ONCE(hn->flight.nr);
	case 3:
		return READ_ONCE(hn->nr_adopted);
	case 4:
		return READ_ONCE(hn->nr_pending);
	case 5:
		return atomic_long_read(&hn->held);
	case 6:
		return READ_ONCE(hn->nr_relays);
	case 7:
		return READ_ONCE(hn->nr_claims);
	case 8:
		return hof_admit_windows(hn);
	case 9:
		return hof_admit_waiting(hn);
	case 10:
		return atomic_read(&hn->nr_redirected);
	case 11:
		return atomic_read(&hn->nr_unopened);
	default:
		return 0;
	}
}

/* The name of each slot is given by its place: none may be missing. */
static_assert(ARRAY_SIZE(hof_stat_names) == HOF_STAT_MAX + 12);

static u64 __percpu *hof_stats_values(struct net *net)
{
	return hof_net(net)->stats;
}

static struct flt_stats hof_stats = {
	.room = "handoff",
	.names = hof_stat_names,
	.nr = HOF_STAT_MAX,
	.nr_gauges = ARRAY_SIZE(hof_stat_names) - HOF_STAT_MAX,
	.values = hof_stats_values,
	.gauge = hof_stats_gauge,
	.owner = THIS_MODULE,
};

int hof_stats_net_init(struct hof_net *hn)
{
	hn->stats = __alloc_percpu(HOF_STAT_MAX * sizeof(u64), sizeof(u64));
	return hn->stats ? 0 : -ENOMEM;
}

void hof_stats_net_exit(struct hof_net *hn)
{
	free_percpu(hn->stats);
}

int hof_stats_register(void)
{
	return flt_stats_register(&hof_stats);
}

void hof_stats_unregister(void)
{
	flt_stats_unregister(&hof_stats);
}
