/* SPDX-License-Identifier: GPL-2.0 */
/* What this machine's card.ko has counted: blocks, and from whose memory they came. */
#ifndef LARD_STATUS_CARD_H
#define LARD_STATUS_CARD_H

#include <stdbool.h>
#include <stdint.h>

struct floor;

/* Its counters' names are card/doc/counters.md's. */
#define CARD_TABLE(X)							\
	X(READS, "CardReads", "of other nodes' disks, answered")	\
	X(HOSTED_HITS, "CardHostedHits", "blocks found in what this node keeps for others") \
	X(FROM_PEER, "CardFromPeer", "blocks from another node's memory") \
	X(FROM_CACHE, "CardFromCache", "reads from the exporter's memory") \
	X(FROM_DISK, "CardFromDisk", "reads from the exporter's disk")	\
	X(ERRORS, "CardErrors", "requests that failed")			\
	X(SERVED_CACHED, "CardServedCached", "reads of this node's disks, answered from memory") \
	X(SERVED_DISK, "CardServedDisk", "reads of this node's disks, answered from the disk") \
	X(PEER_SERVED, "CardPeerServed", "blocks of others' disks given to other nodes") \
	X(EVICTIONS, "CardEvictions", "pages that this node had to give up") \
	X(SAVES, "CardSaves", "of them, sent to another node")		\
	X(HOSTED, "CardHosted", "blocks taken in for other nodes")	\
	X(HOSTED_DROPPED, "CardHostedDropped", "of them, dropped")

enum card_counter {
#define X(id, name, about) CARD_##id,
	CARD_TABLE(X)
#undef X
	CARD_COUNTERS
};

extern const char *const card_counter_names[CARD_COUNTERS];
extern const char *const card_counter_abouts[CARD_COUNTERS];

/**
 * struct status_card - those counters
 * @there: card.ko is loaded; else all are 0
 */
struct status_card {
	bool there;
	uint64_t counts[CARD_COUNTERS];
};

void status_card_get(struct status_card *card, const struct floor *floor);

#endif
