/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SYN cookies: a SYN is answered and forgotten. They are TCP's own, in number and in timestamp, so
 * that whatever is not taken here can be left to the listener, which makes a socket of it.
 */
#ifndef HOF_COOKIE_H
#define HOF_COOKIE_H

#include <linux/types.h>

struct flt_door;
struct flt_opening;
struct hof_net;
struct sk_buff;

/*
 * All: IPv4 without options, its header and TCP's linear, their checksums right. RCU, softirq.
 */

/* Answers a SYN; false: nothing is sent. */
bool hof_cookie_answer(struct hof_net *hn, const struct flt_door *door, struct sk_buff *syn);

/* What an ACK of a cookie tells; false: it is of none. */
bool hof_cookie_read(struct hof_net *hn, const struct flt_door *door, const struct sk_buff *ack,
		     struct flt_opening *o);

/*
 * The same of a client that asks whether its connection is still there, and has not used it: it
 * sends the number before its first once more.
 */
bool hof_cookie_read_probe(struct hof_net *hn, const struct flt_door *door,
			   const struct sk_buff *probe, struct flt_opening *o);
/* It is; false: nothing is sent. */
bool hof_cookie_answer_probe(struct hof_net *hn, const struct flt_opening *o,
			     const struct sk_buff *probe);

/* It has none, but the first segment of its connection has, if @number is that of its SYN. */
bool hof_cookie_is_behind(const struct sk_buff *skb, u32 number);

#endif
