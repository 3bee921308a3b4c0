/* SPDX-License-Identifier: GPL-2.0 */
/* What a connection may ask for that brings no request on: more than that is a flood. */
#ifndef LARD_HTTP2_GUARD_H
#define LARD_HTTP2_GUARD_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * struct guard - what is left of each, in frames; both grow with time, and with what is useful
 * @calm:   PING, SETTINGS, PRIORITY, WINDOW_UPDATE, DATA without data. Not those that libnghttp2 leaves out,
 *	    of no known kind or of a stream that is over: they cost what bytes of a body do
 * @opened: windows that were, for which a frame with little may still come
 * @resets: streams that the client gave up, or made us give up (CVE-2023-44487, CVE-2025-8671)
 * @waste:  bytes of fields, taken out of a header block, that are of no request; by WASTE_STEP they are of @calm
 * @block:  bytes of the header block at hand, with those of the frame that comes (CVE-2024-27316)
 * @why:    not NULL: it is a flood
 */
struct guard {
	int64_t calm, opened, resets;
	uint64_t refilled_us;
	size_t waste, block;
	const char *why;
};

void guard_init(struct guard *g, uint64_t now_us);
/* Frames are about to be read. */
void guard_refill(struct guard *g, uint64_t now_us);
/* A frame's header has come. */
void guard_frame(struct guard *g, const nghttp2_frame_hd *hd);
/* It was one that brings nothing. */
void guard_nothing(struct guard *g);
/* A field that nobody keeps: one byte can stand for 4 KB of it. */
void guard_waste(struct guard *g, size_t bytes);
void guard_reset(struct guard *g);
/*
 * A frame with data was sent: the client may say that it has room again. @cut: to less, by its window; then once
 * for each that it has opened, which SETTINGS does for all streams at a time.
 */
void guard_sent(struct guard *g, size_t len, bool cut);
/* A request was answered to its end. */
void guard_answered(struct guard *g);

#endif
