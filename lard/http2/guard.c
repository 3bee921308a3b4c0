// SPDX-License-Identifier: GPL-2.0
#include "guard.h"

#define CALM_MAX	2000
#define CALM_SECOND	100
#define RESETS_MAX	200	/* who leaves a page gives up as many streams as there may be */
#define RESETS_SECOND	10
#define BLOCK_MAX	65536	/* of a header, as it comes */
#define WASTE_STEP	4096
#define SENT_LEAST	1024	/* who has no room for more makes us work for next to nothing */

static void add(int64_t *to, int64_t more, int64_t most)
{
	*to = *to + more < most ? *to + more : most;
}

void guard_init(struct guard *g, uint64_t now_us)
{
	*g = (struct guard){ .calm = CALM_MAX, .resets = RESETS_MAX, .refilled_us = now_us };
}

void guard_refill(struct guard *g, uint64_t now_us)
{
	uint64_t seconds = (now_us - g->refilled_us) / 1000000;

	if (!seconds)
		return;
	g->refilled_us += seconds * 1000000;
	if (seconds > 60)
		seconds = 60;
	add(&g->calm, seconds * CALM_SECOND, CALM_MAX);
	add(&g->resets, seconds * RESETS_SECOND, RESETS_MAX);
}

void guard_nothing(struct guard *g)
{
	if (--g->calm < 0)
		g->why = "frames that bring nothing";
}

void guard_waste(struct guard *g, size_t bytes)
{
	for (g->waste += bytes; g->waste >= WASTE_STEP; g->waste -= WASTE_STEP)
		guard_nothing(g);
}

void guard_frame(struct guard *g, const nghttp2_frame_hd *hd)
{
	if (hd->type == NGHTTP2_HEADERS)
		g->block = hd->length;
	else if (hd->type == NGHTTP2_CONTINUATION)
		g->block += hd->length;
	if (g->block > BLOCK_MAX)
		g->why = "a header without an end";
	if (hd->type == NGHTTP2_WINDOW_UPDATE)
		add(&g->opened, 1, CALM_MAX);
	if (hd->type != NGHTTP2_HEADERS && hd->type != NGHTTP2_DATA)
		guard_nothing(g);
}

void guard_reset(struct guard *g)
{
	if (--g->resets < 0)
		g->why = "streams that are given up";
}

void guard_sent(struct guard *g, size_t len, bool cut)
{
	if (!cut || len >= SENT_LEAST) {
		add(&g->calm, 4, CALM_MAX);
	} else if (g->opened) {
		g->opened--;
		add(&g->calm, 1, CALM_MAX);
	}
}

void guard_answered(struct guard *g)
{
	add(&g->calm, 4, CALM_MAX);
	add(&g->resets, 1, RESETS_MAX);
}
