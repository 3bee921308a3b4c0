// SPDX-License-Identifier: GPL-2.0
/* The modules' counters as Prometheus wants them. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "cli.h"
#include "metric.h"
#include "tools/base/metric.h"

/**
 * struct metric - a family, or a sample more of the one before
 * @counter: as the kernel calls it; with "*" at its end every counter that begins so and has no line of its own,
 *	     whose further name is the value of the label @label
 * @name:    without "flotilla_" and "_total"; NULL: what @counter gives
 * @label:   see above
 * @unit:    of the kernel's number, in Prometheus's; 0: 1
 * @help:    a sentence
 */
struct metric {
	const char *room, *counter;
	enum metric_kind kind;
	const char *name, *label;
	double unit;
	const char *help;
};

#define COUNT(room, counter, help) { room, counter, METRIC_COUNTER, NULL, NULL, 0, help }
#define AS(room, counter, name, help) { room, counter, METRIC_COUNTER, name, NULL, 0, help }
#define EACH(room, counter, name, label, help) { room, counter, METRIC_COUNTER, name, label, 0, help }
#define TIME(room, counter, name, unit, help) { room, counter, METRIC_COUNTER, name, NULL, unit, help }
#define NOW(room, counter, help) { room, counter, METRIC_GAUGE, NULL, NULL, 0, help }

static const struct metric metrics[] = {
	NOW("flotilla", "Nodes", "nodes of the table"),
	NOW("flotilla", "NodesReady", "back-ends that are up and active"),
	COUNT("flotilla", "LinkUp", "links that came up"),
	COUNT("flotilla", "LinkDown", "links that went down"),
	COUNT("flotilla", "LinkConnects", "attempts of this side to make a link"),
	COUNT("flotilla", "LinkConnectFailed", "attempts of this side that got no connection"),
	COUNT("flotilla", "LinkAccepts", "connections for a link that came from listed addresses"),
	COUNT("flotilla", "LinkPeerRestarted", "peers that came back as another instance"),
	COUNT("flotilla", "LinkHeartbeatLost", "links that ended for the peer's silence"),
	COUNT("flotilla", "LinkStoodStill", "looks at links that came more than two heartbeats late"),
	COUNT("flotilla", "LinkStalled", "links that ended because the peer took no data"),
	COUNT("flotilla", "LinkAuthDone", "handshakes of links that succeeded"),
	COUNT("flotilla", "LinkAuthFailed", "handshakes of links that failed"),
	EACH("flotilla", "LinkRefused*", "link_refused", "reason", "links that were refused"),
	EACH("flotilla", "LinkBad*", "link_bad_frames", "reason", "frames that closed their link"),
	COUNT("flotilla", "MessagesIn", "messages that came for a room"),
	COUNT("flotilla", "MessagesOut", "messages that a room sent"),
	COUNT("flotilla", "MessagesNoHandler", "messages that came for no room that is loaded"),
	AS("flotilla", "LinkBytesIn", "link_receive_bytes", "bytes of all frames that came"),
	AS("flotilla", "LinkBytesOut", "link_transmit_bytes", "bytes of all frames that were sent"),
	COUNT("flotilla", "SendDirect", "writes to a link's socket by the sender itself"),
	COUNT("flotilla", "SendBatches", "writes to a link's socket by its worker"),
	COUNT("flotilla", "SendNotConnected", "messages that were refused because the link was down"),
	COUNT("flotilla", "SendNoBuffers", "messages that were refused because the link's queue was full"),
	COUNT("flotilla", "SendNoMemory", "messages that were refused for want of memory"),
	COUNT("flotilla", "EventsLost", "events of nodes that no memory was left to tell of"),
	COUNT("flotilla", "LayersAdded", "layers that were put on a socket"),
	COUNT("flotilla", "LayersInherited", "layers that a new socket got from its listener"),
	COUNT("flotilla", "LayersRefused", "layers that could not be put on a socket"),
	COUNT("flotilla", "LayersLost", "layers that a new socket did not get for want of memory"),
	COUNT("flotilla", "StacksKept", "stacks of layers that stay until their socket dies"),
	COUNT("flotilla", "TlsStarted", "adopted connections of TLS that the kernel encrypts"),
	COUNT("flotilla", "TlsFailed", "adopted connections of TLS that it could not encrypt, and reset"),
	COUNT("flotilla", "TlsBroken", "connections of TLS that a fatal alert or a wrong record ended"),
	COUNT("flotilla", "TlsRekeyed", "connections of TLS that the client's KeyUpdate ended"),

	COUNT("handoff", "HandoffSubmitted", "connections that were accepted for handoff"),
	COUNT("handoff", "HandoffDone", "connections that another node owns since"),
	COUNT("handoff", "HandoffDrained", "connections that another node owns since, whose program had not given them"),
	COUNT("handoff", "HandoffFailed", "handoffs after which the connection stayed here"),
	EACH("handoff", "HandoffRefused*", "handoff_refused", "reason", "handoffs that were refused, here or by the node"),
	{ "handoff", "HandoffUsec*", METRIC_HISTOGRAM, "handoff_duration_seconds", NULL, 1e-6,
	  "time of a handoff, from its submission to the other node's ownership" },
	COUNT("handoff", "HandoffClosed", "connections that were handed off and have ended"),
	COUNT("handoff", "HandoffNodeLost", "connections that were handed off and ended with their node"),
	COUNT("handoff", "HandoffNoPath", "handoffs for which there was no route to the node"),
	NOW("handoff", "HandoffInFlight", "handoffs under way"),
	COUNT("handoff", "AdoptRequests", "connections that other nodes offered"),
	COUNT("handoff", "AdoptPrepared", "connections that were offered and could be taken"),
	COUNT("handoff", "AdoptRefused", "connections that were offered and refused"),
	COUNT("handoff", "AdoptDrained", "connections that were offered for an address that is being drained"),
	COUNT("handoff", "AdoptCommitted", "connections that were taken and given to a listener"),
	COUNT("handoff", "AdoptCommitFailed", "connections that no listener took after all"),
	COUNT("handoff", "AdoptAborted", "connections whose taking was undone"),
	COUNT("handoff", "AdoptQueried", "adoptions that this node had to ask about"),
	COUNT("handoff", "AdoptExpired", "adoptions that were given up at their deadline"),
	COUNT("handoff", "AdoptReturned", "connections of this node that came back"),
	COUNT("handoff", "AdoptEnded", "connections that were taken and have ended"),
	NOW("handoff", "AdoptLive", "connections of other nodes that are here"),
	NOW("handoff", "AdoptPending", "connections whose adoption is undecided"),
	COUNT("handoff", "AdoptEvicted", "connections that a node handed on, and their own front-end gave before"),
	NOW("handoff", "AdoptRelayed", "connections that were handed on, whose end is still to be told"),
	COUNT("handoff", "ClaimSent", "claims of connections at the nodes where they came in"),
	COUNT("handoff", "ClaimGranted", "claims that were granted: packets come straight"),
	COUNT("handoff", "ClaimRefused", "claims that were refused: packets come by who handed on"),
	NOW("handoff", "ClaimPending", "claims without an answer"),
	NOW("handoff", "AdmitWindow", "connections that could be surplus now, over all services"),
	NOW("handoff", "AdmitWaiting", "surplus connections whose first request is not decided"),
	COUNT("handoff", "OriginClaims", "claims of other nodes, those repeated too"),
	COUNT("handoff", "OriginGranted", "connections that are forwarded to another node since it claimed them"),
	COUNT("handoff", "OriginForged", "claims of connections whose owner had not agreed"),
	COUNT("handoff", "TakeoverTaken", "connections of other nodes that are forwarded here since their front-end died"),
	COUNT("handoff", "TakeoverRefused", "answers of nodes about such connections that were not believed"),
	COUNT("handoff", "TakeoverHeld", "packets that were held back until such connections were known"),
	COUNT("handoff", "SuccessorAsked", "questions of other front-ends for connections of a service"),
	COUNT("handoff", "SuccessorRefused", "questions of other front-ends that were not answered"),
	COUNT("handoff", "SuccessorGiven", "connections that have another front-end now"),
	COUNT("handoff", "RelocateAsked", "messages of front-ends that want their connections handed on"),
	COUNT("handoff", "RelocateRefused", "such messages that were refused"),
	COUNT("handoff", "RelocateBegun", "connections that are watched for such a front-end, to be handed on"),
	COUNT("handoff", "RedirectSent", "SYNs that went to a lighter node"),
	COUNT("handoff", "RedirectAgain", "SYNs that came again and went to the same node"),
	COUNT("handoff", "RedirectSilent", "SYNs that came again and were accepted here, as the node had not answered"),
	COUNT("handoff", "RedirectNone", "SYNs that stayed since no node takes them"),
	COUNT("handoff", "RedirectHeavy", "SYNs that stayed since no node is lighter"),
	COUNT("handoff", "RedirectFull", "SYNs that stayed since too many are redirected"),
	COUNT("handoff", "RedirectNoRoute", "SYNs that stayed since there is no way to the node"),
	COUNT("handoff", "RedirectTaken", "SYNs of other nodes that were accepted"),
	COUNT("handoff", "RedirectRefused", "SYNs of other nodes that were dropped"),
	COUNT("handoff", "RedirectClosed", "redirected connections that ended"),
	COUNT("handoff", "RedirectExpired", "redirected SYNs whose client never answered"),
	COUNT("handoff", "RedirectAsked", "questions whether a node still has a redirected connection"),
	NOW("handoff", "RedirectEntries", "redirected connections"),
	NOW("handoff", "RedirectUnopened", "redirected connections whose client has not answered yet"),
	COUNT("handoff", "EarlySyns", "SYNs that were answered with a cookie before there is a socket"),
	COUNT("handoff", "EarlyUnanswered", "SYNs that were left to TCP for want of memory or of a way back"),
	COUNT("handoff", "EarlyAcks", "ACKs of such cookies without a request, which were dropped"),
	COUNT("handoff", "EarlyStrangers", "ACKs of no cookie, which were left to TCP"),
	COUNT("handoff", "EarlyGiven", "requests that went to a node before there is a socket"),
	COUNT("handoff", "EarlyProbes", "keepalive probes of connections without a request yet, which were answered"),
	COUNT("handoff", "EarlyLeft", "segments with a cookie that were left to the listener"),
	COUNT("handoff", "EarlyAgain", "copies of first segments of connections that had ended, which were dropped"),
	COUNT("handoff", "EarlyFull", "segments that were left to the listener since two minutes had too many"),
	COUNT("handoff", "EarlyTableHits", "requests that went to the node that the dispatcher's table says"),
	COUNT("handoff", "EarlyTableMisses", "requests for targets that the dispatcher's table does not have"),
	COUNT("handoff", "EarlyTableAsked", "requests for targets of the table that the dispatcher was to decide"),
	COUNT("handoff", "EarlyTableUnclear", "requests whose URL is not written in its normal form"),
	COUNT("handoff", "EarlyTableAway", "requests whose node by the table cannot be given connections now"),
	COUNT("handoff", "EarlyTableFull", "targets that found no room in the table"),
	COUNT("handoff", "HintSent", "messages that told other nodes the loads of services"),
	COUNT("handoff", "HintTaken", "such messages of other nodes"),
	COUNT("handoff", "HintRefused", "such messages that came over links without authentication"),
	COUNT("handoff", "PolicyAsked", "calls of a policy, which decides where a request is served"),
	COUNT("handoff", "PolicyMoved", "requests that went to another node by a policy"),
	COUNT("handoff", "PolicyStayed", "requests that stayed since the policy said so"),
	COUNT("handoff", "PolicyStayedMore", "requests of which the policy wanted more than came in time"),
	COUNT("handoff", "PolicyStayedCame", "requests that stayed since a policy had just moved them here"),
	COUNT("handoff", "PolicyStayedHops", "requests that stayed since their connection was moved too often"),
	COUNT("handoff", "PolicyStayedUnsure", "requests that stayed since it was not sure where they begin"),
	COUNT("handoff", "PolicyStayedEnded", "requests that stayed since their client had ended its side"),
	COUNT("handoff", "PolicyStayedTarget", "requests that stayed since no node was named that is up"),
	COUNT("handoff", "PolicyStayedRefused", "requests that stayed since the move failed"),
	COUNT("handoff", "PolicyStayedPlain", "requests that stayed since their connection was no surplus"),
	COUNT("handoff", "AdmitTagged", "surplus connections"),
	COUNT("handoff", "AdmitMoved", "surplus connections whose first request went to another node"),
	COUNT("handoff", "AdmitRejected", "surplus connections served here since the other node could not"),
	COUNT("handoff", "AdmitKept", "surplus connections served here for another reason"),
	COUNT("handoff", "AdmitDropped", "surplus connections that ended without a request"),
	COUNT("handoff", "AdmitClosed", "times that a service took no surplus any more"),
	COUNT("handoff", "AdmitNotified", "times that it did again since a node had room"),
	COUNT("handoff", "AdmitAgain", "times that it did again after so many requests"),
	COUNT("handoff", "AdmitRoomTold", "nodes told that there is room for their surplus again"),
	COUNT("handoff", "AdmitRoomIgnored", "times that a node said so of whose room nothing was closed"),
	COUNT("handoff", "LifeLost", "ends and idleness of connections that could not be told, as the link was down"),
	COUNT("handoff", "LifeLooks", "looks whether a connection is idle"),
	NOW("handoff", "ForwardEntries", "connections whose packets are forwarded"),
	NOW("handoff", "ForwardEntryBytes", "memory of one entry of the forwarding table"),
	COUNT("handoff", "ForwardPackets", "packets that were sent on to their connection's node"),
	COUNT("handoff", "ForwardBytes", "bytes of packets that were sent on"),
	COUNT("handoff", "ForwardIcmp", "ICMP errors that were sent on"),
	COUNT("handoff", "ForwardLinger", "packets of connections that had ended"),
	COUNT("handoff", "ForwardSynEarly", "SYNs of clients that used a port again before the end of its connection was known"),
	COUNT("handoff", "ForwardSynReuse", "entries that went because the client used its port again"),
	COUNT("handoff", "ForwardIdleExpired", "entries that went because no packet came for long"),
	COUNT("handoff", "ForwardLingerExpired", "entries that went some time after their connection"),
	COUNT("handoff", "ForwardLingerEvicted", "entries that went before their time, to make room"),
	COUNT("handoff", "ForwardNoRoute", "packets that could not be sent on: no route"),
	COUNT("handoff", "ForwardTooBig", "packets that could not be sent on: too long for the way"),
	COUNT("handoff", "ForwardTtlExpired", "packets that could not be sent on: too many hops"),
	COUNT("handoff", "ForwardDropped", "packets that could not be sent on: any other reason"),
	COUNT("handoff", "ForwardPathMtu", "ICMP errors about packets in tunnels that were heeded"),
	COUNT("handoff", "ForwardPathMtuRefused", "ICMP errors about packets in tunnels that were not believed"),
	COUNT("handoff", "ForwardStranger", "packets in tunnels that no node had sent"),
	COUNT("handoff", "ForwardFragments", "fragments of packets"),
	COUNT("handoff", "ForwardResets", "RSTs that were sent"),
	COUNT("handoff", "HoldQueued", "packets that waited for the end of a handoff"),
	COUNT("handoff", "HoldForwarded", "packets that waited and were sent on"),
	COUNT("handoff", "HoldReinjected", "packets that waited and stayed here"),
	COUNT("handoff", "HoldDropped", "packets that had to wait and were dropped"),
	NOW("handoff", "HoldBytes", "memory of packets that wait"),

	COUNT("splice", "SpliceStarted", "transfers that began"),
	NOW("splice", "SpliceActive", "transfers under way"),
	COUNT("splice", "SpliceDoneInCall", "transfers that ended within the call that began them"),
	EACH("splice", "SpliceRefused*", "splice_refused", "reason", "transfers that were refused"),
	EACH("splice", "SpliceEnded*", "splice_ended", "cause", "transfers that ended"),
	COUNT("splice", "SplicePaused", "waits because the user's share of time was used up"),
	EACH("splice", "SpliceBytes*", "splice_bytes", "by", "bytes that were forwarded, by who did it"),
	AS("splice", "SpliceBytesLinear", "splice_linear_bytes", "bytes that were copied because they lay in slab memory"),
	COUNT("splice", "SpliceSends", "sends to the other socket"),
	COUNT("splice", "SplicePartialPackets", "packets that were forwarded in part"),
	COUNT("splice", "SpliceGathered", "packets that waited for others"),
	COUNT("splice", "SpliceSinkFull", "stops because the other socket was full"),
	COUNT("splice", "SpliceBudgetSpent", "stops because others had to have their turn"),
	COUNT("splice", "SpliceNoMemory", "stops for want of memory"),
	COUNT("splice", "SpliceTrylockMissed", "packets left to a work item because the other socket was locked"),
	COUNT("splice", "SpliceSocketOwned", "packets left to a work item because a program had the other socket"),
	COUNT("splice", "SpliceWorkSlow", "work items and calls that found a program in one of the sockets"),
	COUNT("splice", "SpliceCopyBytes", "bytes that were kept for a program besides"),
	COUNT("splice", "SpliceCopyHeld", "waits for the program that reads what was kept"),
	COUNT("splice", "SpliceCopyOnly", "transfers whose client left before the end of what was kept"),
	COUNT("splice", "SpliceBusyCalls", "system calls of programs that a transfer forbade"),

	AS("uselect", "RegionsOpened", "uselect_regions_opened", "processes that registered"),
	AS("uselect", "RegionsClosed", "uselect_regions_closed", "registrations that ended"),
	AS("uselect", "SetsOpened", "uselect_sets_opened", "sets that were opened"),
	AS("uselect", "SetupsRefused", "uselect_setups_refused", "registrations and sets that were refused"),
	AS("uselect", "SocketsHooked", "uselect_sockets_hooked", "sockets that got a layer"),
	AS("uselect", "SocketsRefused", "uselect_sockets_refused", "sockets on which no layer could be put"),
	AS("uselect", "DescriptorsTracked", "uselect_descriptors_tracked", "descriptors whose readiness began to be kept"),
	AS("uselect", "DescriptorsUntracked", "uselect_descriptors_untracked", "descriptors whose readiness ended to be kept"),
	AS("uselect", "DescriptorsReused", "uselect_descriptors_reused", "descriptors no longer kept, as the number names another file"),
	AS("uselect", "DescriptorsForgotten", "uselect_descriptors_forgotten", "descriptors no longer kept, as the program asked for it"),
	AS("uselect", "DescriptorsEnded", "uselect_descriptors_ended", "descriptors no longer kept, as the registration ended"),
	AS("uselect", "DescriptorsForeign", "uselect_descriptors_foreign", "descriptors no longer kept, as kTLS or a sockmap took the socket"),
	AS("uselect", "Guesses", "uselect_guesses", "numbers of descriptors that were guessed"),
	AS("uselect", "GuessesWrong", "uselect_guesses_wrong", "numbers of descriptors that were guessed wrongly"),
	AS("uselect", "Searches", "uselect_searches", "numbers of descriptors that were searched for"),
	AS("uselect", "Polls", "uselect_polls", "system calls that polled a socket with a layer"),
	AS("uselect", "Events", "uselect_events", "news for a set"),
	AS("uselect", "Wakeups", "uselect_wakeups", "sleepers that news have woken"),
	AS("uselect", "RingOverflows", "uselect_ring_overflows", "news that found the ring of a set full"),

	COUNT("afpa", "AfpaHits", "requests that the kernel has answered"),
	EACH("afpa", "AfpaHits*", "afpa_hits_in", "context", "the same, by where"),
	COUNT("afpa", "AfpaHeads", "of them HEAD"),
	COUNT("afpa", "AfpaMisses", "requests for the cache that it has no object for"),
	COUNT("afpa", "AfpaDeferred", "requests that are not for the cache"),
	EACH("afpa", "AfpaDeferred*", "afpa_deferred_for", "reason", "requests of HTTP that are not for the cache, by reason"),
	COUNT("afpa", "AfpaTaken", "connections that the program has taken to itself"),
	COUNT("afpa", "AfpaPartial", "requests that came in pieces"),
	COUNT("afpa", "AfpaBytes", "bytes of answers, with their headers"),
	COUNT("afpa", "AfpaReads", "chunks of files that a thread has read"),
	COUNT("afpa", "AfpaReadErrors", "chunks of files that could not be read"),
	COUNT("afpa", "AfpaAbsent", "requests for files whose beginning was not in memory"),
	COUNT("afpa", "AfpaContinued", "times that an answer went on as the client had taken some of it"),
	COUNT("afpa", "AfpaClosed", "connections that were closed after an answer"),
	COUNT("afpa", "AfpaBursts", "times that a softirq left the rest to a work item"),
	COUNT("afpa", "AfpaNoMemory", "answers that were put off for want of memory"),
	COUNT("afpa", "AfpaFlushed", "answers that were ended for the program to go on"),
	EACH("afpa", "AfpaReset*", "afpa_reset", "reason", "connections that were reset in an answer"),
	COUNT("afpa", "AfpaLocked", "times that a program had the socket"),
	COUNT("afpa", "AfpaRefusedListener", "listeners that cannot be answered for"),
	COUNT("afpa", "AfpaLogged", "records of the access log"),
	COUNT("afpa", "AfpaLogLost", "records that found no room, as they were not read in time"),
	COUNT("afpa", "AfpaPuts", "objects that were put"),
	COUNT("afpa", "AfpaReplaced", "objects that a newer one has replaced"),
	COUNT("afpa", "AfpaDeleted", "objects that were deleted"),
	COUNT("afpa", "AfpaBanned", "objects that were banned by path or tag"),
	COUNT("afpa", "AfpaStale", "puts refused as the page was changed while it was fetched"),
	COUNT("afpa", "AfpaEvicted", "objects that made room for others"),
	COUNT("afpa", "AfpaExpired", "objects whose life was over"),
	COUNT("afpa", "AfpaShrunk", "objects that were dropped as memory was short"),
	COUNT("afpa", "AfpaShrunkAutomatic", "of them those that can be had again"),
	COUNT("afpa", "AfpaRemoteAsked", "commands of this node's programs for another node's cache"),
	COUNT("afpa", "AfpaRemoteDone", "commands of other nodes that were carried out"),
	COUNT("afpa", "AfpaRemoteRefused", "commands of other nodes that were refused"),
	NOW("afpa", "AfpaObjects", "objects of the cache"),
	NOW("afpa", "AfpaCacheBytes", "bytes of the budget in use"),
	NOW("afpa", "AfpaOutsideBytes", "bytes of objects that are being put, or went while a client is sent them"),
	NOW("afpa", "AfpaSites", "addresses that the kernel answers at"),

	COUNT("card", "CardRequests", "requests of the block layer"),
	COUNT("card", "CardReads", "reads that were answered"),
	COUNT("card", "CardWrites", "writes that were answered"),
	AS("card", "CardBytesRead", "card_read_bytes", "bytes of reads that were answered"),
	AS("card", "CardBytesWritten", "card_written_bytes", "bytes of writes that were answered"),
	COUNT("card", "CardFromDisk", "reads that the exporter's disk answered"),
	COUNT("card", "CardFromCache", "reads that the exporter's cache answered"),
	COUNT("card", "CardFromPeer", "reads that another node's memory answered"),
	COUNT("card", "CardResent", "requests that were sent again"),
	COUNT("card", "CardTimeouts", "times that an answer did not come in time"),
	COUNT("card", "CardErrors", "requests that ended with an error"),
	COUNT("card", "CardGivenUp", "requests that ended because fail_fast was over"),
	COUNT("card", "CardLateReplies", "answers for a request that was over"),
	COUNT("card", "CardBadReplies", "answers that did not fit their request"),
	COUNT("card", "CardBadCrc", "answers whose sum differed"),
	COUNT("card", "CardBuffersChanged", "requests whose buffer changed on the way"),
	COUNT("card", "CardAttached", "disks that were attached, also again"),
	COUNT("card", "CardLost", "times that an exporter went away"),
	COUNT("card", "CardRefused", "times that an exporter refused a disk"),
	COUNT("card", "CardWritesLost", "acknowledged writes that may be lost"),
	COUNT("card", "CardFlushesFailed", "flushes that failed for lost writes"),
	COUNT("card", "CardSwapRefused", "attempts to swap on a remote disk that were refused"),
	TIME("card", "CardTotalNsec", "card_read_seconds", 1e-9, "time of all reads"),
	TIME("card", "CardCopyNsec", "card_read_copy_seconds", 1e-9, "of the time of reads, for receiving into the request's pages"),
	TIME("card", "CardServiceNsec", "card_read_service_seconds", 1e-9, "of the time of reads, in the exporter"),
	TIME("card", "CardRemoteDiskUsec", "card_read_disk_seconds", 1e-6, "of the time of reads, in the exporter's disk"),
	COUNT("card", "CardServed", "reads of others that were answered"),
	COUNT("card", "CardServedCached", "reads of others that the cache answered"),
	COUNT("card", "CardServedDisk", "reads of others that the disk answered"),
	COUNT("card", "CardServedBytes", "bytes of reads of others"),
	COUNT("card", "CardServedCachedPages", "pages of reads of others that were in the cache"),
	COUNT("card", "CardServedDiskPages", "pages of reads of others that came from the disk"),
	COUNT("card", "CardServedWrites", "writes of others"),
	COUNT("card", "CardWritesOrdered", "writes of others that waited for an earlier one to the same place"),
	COUNT("card", "CardServeInline", "requests that were worked on where the message was received"),
	COUNT("card", "CardServeThread", "requests that were worked on by the thread"),
	COUNT("card", "CardDeliverSoftirq", "answers that a softirq work sent"),
	COUNT("card", "CardDeliverThread", "answers that the thread or the submitter sent"),
	COUNT("card", "CardThreadWakeups", "times that the thread was woken"),
	COUNT("card", "CardKeptPages", "pages that came into the exporter's cache"),
	COUNT("card", "CardFreshPages", "pages that were allocated because the pool was empty"),
	COUNT("card", "CardFilePages", "pages of files that were used"),
	COUNT("card", "CardFileMismatch", "pages of files that could not be used"),
	TIME("card", "CardServeNsec", "card_serve_seconds", 1e-9, "time in which reads of others were served"),
	TIME("card", "CardDiskNsec", "card_serve_disk_seconds", 1e-9, "time in which the disk worked on reads of others"),
	COUNT("card", "CardDenied", "requests of nodes that may not"),
	COUNT("card", "CardWritersFenced", "writers that lost their place"),
	COUNT("card", "CardStaleAddress", "requests for an export that is not here"),
	COUNT("card", "CardBadRange", "requests for sectors outside the disk"),
	COUNT("card", "CardSessionFull", "requests that were refused because the node has too many"),
	COUNT("card", "CardAskedAgain", "requests that came again while they were worked on"),
	COUNT("card", "CardDiskErrors", "requests that the disk failed"),
	COUNT("card", "CardRepliesNotSent", "answers that the link did not take"),
	COUNT("card", "CardBadMessages", "messages that closed their link"),
	COUNT("card", "CardHostedHits", "blocks that were found in pages hosted here"),
	COUNT("card", "CardPeerServed", "blocks that were served to other nodes from memory"),
	COUNT("card", "CardPeerRefused", "requests of other nodes that had to go to the disk after all"),
	COUNT("card", "CardForwards", "requests that were passed on"),
	COUNT("card", "CardEvictions", "pages that reclaim took"),
	COUNT("card", "CardSaves", "evicted blocks that were sent to another node"),
	COUNT("card", "CardSavesLost", "evicted blocks that were not sent"),
	COUNT("card", "CardSavesPassed", "evicted blocks that were passed on to another node"),
	COUNT("card", "CardSavesRefused", "evicted blocks that found no room"),
	COUNT("card", "CardHosted", "blocks that were taken in for others"),
	COUNT("card", "CardHostedDropped", "blocks of others that were dropped"),
	COUNT("card", "CardIndexSent", "messages about the index that were sent"),
	COUNT("card", "CardIndexReceived", "messages about the index that came"),
	COUNT("card", "CardCacheMismatch", "blocks that were no longer in memory as they had come"),

	AS("iolite", "BytesByReference", "iolite_reference_bytes", "bytes that were passed on as they lay in memory"),
	EACH("iolite", "BytesCopied*", "iolite_copied_bytes", "at", "bytes that were copied, by where"),
	AS("iolite", "PtesRead", "iolite_pages_mapped_to_read", "page table entries to read a buffer"),
	AS("iolite", "PtesFill", "iolite_pages_mapped_to_fill", "page table entries to fill a buffer"),
	AS("iolite", "WriteRevokes", "iolite_pages_write_revoked", "page table entries to fill a buffer that were taken back"),
	AS("iolite", "Seals", "iolite_buffers_sealed", "buffers that nobody can change since"),
	AS("iolite", "Zaps", "iolite_buffers_unmapped", "buffers whose readers' mappings went"),
	AS("iolite", "BuffersMade", "iolite_buffers_made", "buffers that were made"),
	AS("iolite", "BuffersRecycled", "iolite_buffers_recycled", "buffers that were used anew"),
	AS("iolite", "BuffersFreed", "iolite_buffers_freed", "buffers that were freed"),
	AS("iolite", "BuffersLimbo", "iolite_buffers_limbo", "buffers that were freed when a packet of theirs had gone"),
	AS("iolite", "BuffersReopened", "iolite_buffers_reopened", "buffers that their maker has opened again"),
	AS("iolite", "ChunksMade", "iolite_chunks_made", "chunks of memory for buffers that were made"),
	AS("iolite", "ChunksFreed", "iolite_chunks_freed", "chunks of memory for buffers that were freed"),
	AS("iolite", "PagesShed", "iolite_pages_shed", "free pages of chunks that went as memory was short"),
	AS("iolite", "PagesFilled", "iolite_pages_filled", "pages that came into such places again"),
	AS("iolite", "FileHits", "iolite_file_hits", "reads of files that the cache answered"),
	AS("iolite", "FileMisses", "iolite_file_misses", "reads of files that the cache could not answer"),
	AS("iolite", "FileBypasses", "iolite_file_bypasses", "reads of files that the cache does not keep"),
	AS("iolite", "FileInvalidated", "iolite_file_invalidated", "files whose cached data went as they had changed"),
	AS("iolite", "FileEvicted", "iolite_file_evicted", "parts of files that left the cache to make room"),
	AS("iolite", "FileEvictedReferenced", "iolite_file_evicted_referenced", "of them those that somebody still held"),
	AS("iolite", "FileEvictedChosen", "iolite_file_evicted_chosen", "of them those that a program had chosen"),
	AS("iolite", "ReclaimLooked", "iolite_reclaim_looked", "pages that reclaim looked at"),
	AS("iolite", "ReclaimAsked", "iolite_reclaim_asked", "of them those that it asked of the cache"),
	AS("iolite", "ReclaimDeclined", "iolite_reclaim_declined", "times that the half rule kept them"),
	AS("iolite", "BytesSummed", "iolite_summed_bytes", "bytes whose checksum was computed"),
	AS("iolite", "BytesSummedFromCache", "iolite_summed_from_cache_bytes", "bytes whose checksum was kept"),
	AS("iolite", "PacketsSummed", "iolite_packets_summed", "packets that were summed here"),
	AS("iolite", "PacketsNotSummed", "iolite_packets_not_summed", "packets of ours that are segmented later"),
	AS("iolite", "Grants", "iolite_grants", "pools that were granted to another domain"),
	AS("iolite", "FaultsRefused", "iolite_faults_refused", "accesses to memory that was not given"),
	AS("iolite", "SlicesRefused", "iolite_slices_refused", "names of data that was not given"),
	AS("iolite", "QuotaRefused", "iolite_quota_refused", "allocations beyond a pool's or a domain's quota"),
	AS("iolite", "UserQuotaRefused", "iolite_user_quota_refused", "allocations beyond a user's quota"),
};

int samples_add(struct samples *samples, const char *room, const char *name, uint64_t value,
		bool hidden)
{
	struct sample *at = realloc(samples->at, (samples->nr + 1) * sizeof(*at));

	if (!at)
		return -ENOMEM;
	samples->at = at;
	at += samples->nr++;
	*at = (struct sample){ .value = value, .hidden = hidden };
	snprintf(at->room, sizeof(at->room), "%s", room);
	snprintf(at->name, sizeof(at->name), "%s", name);
	return 0;
}

void samples_free(struct samples *samples)
{
	free(samples->at);
	*samples = (struct samples){ 0 };
}

/* HandoffRefusedOOO -> handoff_refused_ooo, the way Prometheus names are written. */
static void snake_case(const char *camel, char *snake, size_t size)
{
	size_t i, n = 0;

	for (i = 0; camel[i] && n + 2 < size; i++) {
		bool upper = isupper(camel[i]);
		bool starts = i && upper && (!isupper(camel[i - 1]) ||
					     (islower(camel[i + 1]) && camel[i + 1]));

		if (starts && snake[n - 1] != '_')
			snake[n++] = '_';
		snake[n++] = isalnum(camel[i]) ? tolower(camel[i]) : '_';
	}
	snake[n] = '\0';
}

/* Length of what is before the "*", 0: there is none. */
static size_t prefix(const struct metric *m)
{
	size_t len = strlen(m->counter);

	return m->counter[len - 1] == '*' ? len - 1 : 0;
}

static bool has_own_line(const struct sample *s)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(metrics); i++)
		if (!strcmp(metrics[i].room, s->room) && !strcmp(metrics[i].counter, s->name))
			return true;
	return false;
}

static bool belongs(const struct metric *m, const struct sample *s)
{
	size_t len = prefix(m);

	if (strcmp(m->room, s->room))
		return false;
	return len ? !strncmp(m->counter, s->name, len) && !has_own_line(s) :
		     !strcmp(m->counter, s->name);
}

enum metric_kind metric_kind(const struct sample *s)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(metrics); i++)
		if (belongs(&metrics[i], s))
			return metrics[i].kind;
	return METRIC_COUNTER;
}

/* Is any of it asked for? */
static bool is_wanted(const struct metric *m, const struct samples *samples)
{
	size_t i;

	for (i = 0; i < samples->nr; i++)
		if (!samples->at[i].hidden && belongs(m, &samples->at[i]))
			return true;
	return false;
}

static void put_number(FILE *out, const struct metric *m, uint64_t value)
{
	if (m->unit)
		fprintf(out, "%.9g\n", value * m->unit);
	else
		fprintf(out, "%" PRIu64 "\n", value);
}

static void put_samples(FILE *out, const struct metric *m, const char *name,
			struct samples *samples)
{
	char value[64];
	size_t i;

	for (i = 0; i < samples->nr; i++) {
		struct sample *s = &samples->at[i];

		if (!belongs(m, s))
			continue;
		s->done = true;
		if (s->hidden)
			continue;
		snake_case(s->name + prefix(m), value, sizeof(value));
		if (m->label)
			metric_labels(out, name, m->label, value, NULL);
		else
			metric_labels(out, name, NULL);
		put_number(out, m, s->value);
	}
}

/*
 * Counters PREFIX1, PREFIX2, PREFIX4, ... have what took up to so long and longer than the one before, PREFIXMore
 * the rest, and PREFIXSum, which older modules do not have, all the time. They are told whole or not at all.
 */
static void put_histogram(FILE *out, const struct metric *m, const char *name,
			  struct samples *samples)
{
	const struct sample *sum = NULL;
	char part[160], bound[32];
	uint64_t count = 0;
	size_t i;

	snprintf(part, sizeof(part), "%s_bucket", name);
	for (i = 0; i < samples->nr; i++) {
		struct sample *s = &samples->at[i];
		const char *rest = s->name + prefix(m);

		if (!belongs(m, s))
			continue;
		s->done = true;
		if (!strcmp(rest, "Sum")) {
			sum = s;
			continue;
		}
		count += s->value;
		if (isdigit(*rest))
			snprintf(bound, sizeof(bound), "%.7g", strtoull(rest, NULL, 10) * m->unit);
		else
			strcpy(bound, "+Inf");
		metric_labels(out, part, "le", bound, NULL);
		fprintf(out, "%" PRIu64 "\n", count);
	}
	if (!sum)
		return;
	fprintf(out, "%s_sum ", name);
	put_number(out, m, sum->value);
	fprintf(out, "%s_count %" PRIu64 "\n", name, count);
}

static void put_metric(FILE *out, const struct metric *m, struct samples *samples)
{
	static const char *const types[] = { "counter", "gauge", "histogram" };
	char snake[96], name[128];

	snake_case(m->counter, snake, sizeof(snake));
	snprintf(name, sizeof(name), "flotilla_%s%s", m->name ? m->name : snake,
		 m->kind == METRIC_COUNTER ? "_total" : "");
	if (is_wanted(m, samples))
		metric_family(out, name, types[m->kind], m->help);
	if (m->kind != METRIC_HISTOGRAM)
		put_samples(out, m, name, samples);
	else if (is_wanted(m, samples))
		put_histogram(out, m, name, samples);
}

static void put_stranger(FILE *out, const struct sample *s)
{
	char snake[96], name[160];

	snake_case(s->name, snake, sizeof(snake));
	snprintf(name, sizeof(name), "flotilla_%s_%s", s->room, snake);
	metric_family(out, name, "untyped", "a counter of a module that is newer than this program");
	fprintf(out, "%s %" PRIu64 "\n", name, s->value);
}

void metrics_write(FILE *out, struct samples *samples)
{
	size_t i;

	metric_family(out, "flotilla_build_info", "gauge", "always 1; the program's version");
	metric_labels(out, "flotilla_build_info", "version", FLT_VERSION, NULL);
	fputs("1\n", out);
	for (i = 0; i < ARRAY_SIZE(metrics); i++)
		put_metric(out, &metrics[i], samples);
	for (i = 0; i < samples->nr; i++)
		if (!samples->at[i].done && !samples->at[i].hidden)
			put_stranger(out, &samples->at[i]);
}
