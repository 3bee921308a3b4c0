// SPDX-License-Identifier: GPL-2.0
/* Decisions in words. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include "engine.h"

static const char *const reason_names[LARD_REASONS] = {
	[LARD_WHY_NO_NODE] = "no-node",
	[LARD_WHY_FULL] = "full",
	[LARD_WHY_FEWEST] = "fewest",
	[LARD_WHY_HASH] = "hash",
	[LARD_WHY_RING] = "ring",
	[LARD_WHY_RING_SPILL] = "ring-spill",
	[LARD_WHY_FIRST] = "first",
	[LARD_WHY_KEEP] = "keep",
	[LARD_WHY_KEEP_BUSY] = "keep-busy",
	[LARD_WHY_MOVE_IDLE] = "move-idle",
	[LARD_WHY_MOVE_CAP] = "move-cap",
	[LARD_WHY_GROW_IDLE] = "grow-idle",
	[LARD_WHY_GROW_CAP] = "grow-cap",
	[LARD_WHY_SHRINK] = "shrink",
	[LARD_WHY_RETRY] = "retry",
};

const char *lard_reason_name(enum lard_reason why)
{
	return why < LARD_REASONS ? reason_names[why] : "unknown";
}

size_t lard_decision_text(const struct lard *l, const struct lard_decision *d, const char *target,
			  char *text, size_t size)
{
	const char *node = d->node < 0 ? "" : l->nodes[d->node].name;
	const char *from = d->from < 0 ? "" : l->nodes[d->from].name;
	uint32_t high = d->node < 0 ? 0 : l->nodes[d->node].high;
	uint32_t from_high = d->from < 0 ? 0 : l->nodes[d->from].high;
	uint32_t from_cap = d->from < 0 ? 0 : l->nodes[d->from].cap;
	int n = 0;

	switch (d->why) {
	case LARD_WHY_NO_NODE:
		n = snprintf(text, size, "no node is up, active and of non-zero weight");
		break;
	case LARD_WHY_FULL:
		n = snprintf(text, size,
			     "%u requests are outstanding and the limit is %u: %s waits",
			     d->total, d->limit, target);
		break;
	case LARD_WHY_FEWEST:
		n = snprintf(text, size, "%s has the fewest active requests for its weight (%u)",
			     node, d->load);
		break;
	case LARD_WHY_HASH:
		n = snprintf(text, size, "the hash of %s says %s, whatever its load (%u)",
			     target, node, d->load);
		break;
	case LARD_WHY_RING:
		n = snprintf(text, size, "%s is the home of %s and within its bound (load %u)",
			     node, target, d->load);
		break;
	case LARD_WHY_RING_SPILL:
		n = snprintf(text, size,
			     "%s is the home of %s but at its bound (load %u): next is %s (load %u)",
			     from, target, d->from_load, node, d->load);
		break;
	case LARD_WHY_FIRST:
		n = snprintf(text, size, "%s is new to the cluster and %s is least loaded (%u)",
			     target, node, d->load);
		break;
	case LARD_WHY_KEEP:
		n = snprintf(text, size, "%s has %s and %u active requests, not above T_high %u",
			     node, target, d->load, high);
		break;
	case LARD_WHY_KEEP_BUSY:
		n = snprintf(text, size,
			     "%s has %s; its load %u is above T_high %u but no better node is idle (least: %u)",
			     node, target, d->load, high, d->idlest);
		break;
	case LARD_WHY_MOVE_IDLE:
		n = snprintf(text, size,
			     "%s had %s; with load %u above T_high %u while %s (load %u) idles, it moves there",
			     from, target, d->from_load, from_high, node, d->load);
		break;
	case LARD_WHY_MOVE_CAP:
		n = snprintf(text, size,
			     "%s had %s; its load %u reached 2 T_high (%u): it moves to %s (load %u)",
			     from, target, d->from_load, from_cap, node, d->load);
		break;
	case LARD_WHY_GROW_IDLE:
		n = snprintf(text, size,
			     "best holder %s of %s has load %u above T_high %u while %s (load %u) idles: it gets a copy",
			     from, target, d->from_load, from_high, node, d->load);
		break;
	case LARD_WHY_GROW_CAP:
		n = snprintf(text, size,
			     "best holder %s of %s has load %u, 2 T_high (%u) or more: %s (load %u) gets a copy",
			     from, target, d->from_load, from_cap, node, d->load);
		break;
	case LARD_WHY_SHRINK:
		n = snprintf(text, size,
			     "%s serves %s (load %u); its set was stable for %" PRIu64 " s, so %s leaves it",
			     node, target, d->load, d->age_us / 1000000, from);
		break;
	case LARD_WHY_RETRY:
		n = snprintf(text, size, "%s refused %s: %s (load %u) is next best",
			     d->from < 0 ? "another node" : from, target, node, d->load);
		break;
	default:
		n = snprintf(text, size, "unknown");
		break;
	}
	return n < 0 ? 0 : n;
}
