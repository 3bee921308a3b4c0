/* SPDX-License-Identifier: GPL-2.0 */
/* What nodes tell each other about themselves, to be shown and for nothing else. */
#ifndef FLT_REPORT_H
#define FLT_REPORT_H

#include <linux/types.h>
#include <flotilla/flotilla.h>

struct flt_chan;
struct flt_link;
struct flt_net;
struct flt_ping;
struct genl_info;
struct sk_buff;

/**
 * struct flt_verdict - what somebody who examined a node found
 * @there:    somebody did
 * @when:     second of this machine's boot time clock
 * @faults, @warnings: how many
 * @wrong:    names of what is wrong, printable ASCII
 */
struct flt_verdict {
	bool there;
	time64_t when;
	u32 faults;
	u32 warnings;
	char wrong[FLT_WRONG_MAX];
};

/**
 * struct flt_told - what a peer has told
 * @there:    it has, on the link that is up
 * @clock_us: how far its clock is ahead of ours, give or take @clock_error_us
 * @version:  printable ASCII
 * @verdict:  its own, its time in our clock
 */
struct flt_told {
	bool there;
	s64 clock_us;
	u32 clock_error_us;
	char version[FLT_VERSION_MAX];
	struct flt_verdict verdict;
};

/* A PING has been answered: say what this node is, if the peer may hear it and it is time. */
void flt_report_say(struct flt_chan *chan, const struct flt_ping *ping);
/* What the peer says. Return: enum flt_why. */
u32 flt_report_take(struct flt_link *link, const void *body, u32 len);
/* The link has ended. */
void flt_report_forget(struct flt_link *link);

/* FLT_CMD_REPORT_SET, and what FLT_CMD_NODE_GET says of a peer. */
int flt_report_set(struct sk_buff *skb, struct genl_info *info);
int flt_report_put_attrs(struct sk_buff *skb, struct flt_link *link);

#endif
