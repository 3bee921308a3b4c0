/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What goes over a link: frames of a fixed head and a body. Network byte order.
 *
 * The connecting side speaks first: HELLO. The other side checks it and answers
 * with its own HELLO, or with REJECT and the end of the connection. Only then
 * other frames may follow, both ways. PING asks for a PONG with the same body. Behind that
 * comes a REPORT, about once a second, for a peer with FLT_FEATURE_REPORT. ABSENT answers a
 * message whose sender waits and which no room here takes, to a peer with FLT_FEATURE_CACHE.
 */
#ifndef FLT_FRAME_H
#define FLT_FRAME_H

#include <linux/types.h>
#include "link.h"

#define FLT_FRAME_MAGIC		0x464c544c	/* "FLTL" */
#define FLT_FRAME_VERSION	1

/**
 * struct flt_frame - head of every frame
 * @len:  bytes that follow
 * @type: FLT_FRAME_*, or a type of a registered range
 * @zero: must be zero
 */
struct flt_frame {
	__be32 len;
	u8 type;
	u8 zero[3];
} __packed;

enum flt_frame_type {
	FLT_FRAME_HELLO		= FLT_MSG_LINK + 0,
	FLT_FRAME_PING		= FLT_MSG_LINK + 1,
	FLT_FRAME_PONG		= FLT_MSG_LINK + 2,
	FLT_FRAME_REJECT	= FLT_MSG_LINK + 3,
	FLT_FRAME_REPORT	= FLT_MSG_LINK + 4,
	FLT_FRAME_ABSENT	= FLT_MSG_LINK + 5,
};

/**
 * struct flt_hello - body of FLT_FRAME_HELLO
 * @magic:        FLT_FRAME_MAGIC
 * @version:      FLT_FRAME_VERSION; another one is refused
 * @zero:         must be zero
 * @instance:     random number of the sender's table: another one is another boot
 * @heartbeat_ms: how often the sender will send PING
 * @name:         the sender's node name, NUL-terminated, zeros to the end
 *
 * struct flt_hello_more may follow, and behind that whatever a later program adds: who
 * does not know it leaves it alone. Another version may have another form; its first three
 * fields stay what they are.
 *
 * Programs from before flt_hello_more refuse a HELLO that has it (FLT_WHY_LENGTH). Who
 * connects and hears that says HELLO without it the next time; who answers adds it only if
 * it was in the HELLO that came.
 */
struct flt_hello {
	__be32 magic;
	__be16 version;
	__be16 zero;
	__be64 instance;
	__be32 heartbeat_ms;
	char name[FLT_NAME_MAX];
} __packed;

/**
 * struct flt_hello_more - what the sender of a HELLO knows
 * @features: enum flt_feature, and bits that are not known here
 */
struct flt_hello_more {
	__be64 features;
} __packed;

/* Of this program. */
#define FLT_FEATURES	(FLT_FEATURE_SECTIONS | FLT_FEATURE_SENDQUEUE | FLT_FEATURE_CLAIM | \
			 FLT_FEATURE_TLS | FLT_FEATURE_TAKEOVER | FLT_FEATURE_RELOCATE | \
			 FLT_FEATURE_NOTIFY | FLT_FEATURE_REDIRECT | FLT_FEATURE_REPORT | \
			 FLT_FEATURE_LARGE | FLT_FEATURE_CACHE | FLT_FEATURE_HALFCLOSED | \
			 FLT_FEATURE_OOO)

/* Bodies before the HELLO was accepted are at most this long. */
#define FLT_HELLO_MAX	256

/**
 * struct flt_ping - body of FLT_FRAME_PING and FLT_FRAME_PONG
 * @stamp: the asker's clock; means nothing to the other side
 */
struct flt_ping {
	__be64 stamp;
} __packed;

/* @age_s of a node that nobody has examined. */
#define FLT_REPORT_NEVER	U32_MAX

/* A later version's may be longer. */
#define FLT_REPORT_MAX		512

/**
 * struct flt_report - body of FLT_FRAME_REPORT: what the sender says of itself
 * @stamp:    of the PING
 * @clock:    its CLOCK_REALTIME, in ns
 * @age_s:    seconds since somebody examined it, or FLT_REPORT_NEVER, and zeros in the next three
 * @faults, @warnings: that were found
 * @version:  of its modules; NUL-terminated printable ASCII
 * @wrong:    names of what is wrong; NUL-terminated printable ASCII
 *
 * What a later version adds stands behind that, and who does not know it leaves it alone.
 */
struct flt_report {
	__be64 stamp;
	__be64 clock;
	__be32 age_s;
	__be32 faults;
	__be32 warnings;
	char version[FLT_VERSION_MAX];
	char wrong[FLT_WRONG_MAX];
} __packed;

/**
 * struct flt_absent - body of FLT_FRAME_ABSENT
 * @type: of the message that nobody takes
 * @zero: must be zero
 */
struct flt_absent {
	u8 type;
	u8 zero[3];
} __packed;

/**
 * struct flt_reject - body of FLT_FRAME_REJECT
 * @why: enum flt_why of link.c's side, for the log of the one refused
 */
struct flt_reject {
	__be32 why;
} __packed;

#endif
