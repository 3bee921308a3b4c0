/* SPDX-License-Identifier: GPL-2.0 */
/* What a packet in a tunnel says of itself. */
#ifndef HOF_INNER_H
#define HOF_INNER_H

#include <linux/skbuff.h>
#include <flotilla/flotilla.h>

/**
 * enum hof_inner_kind - what was found
 * @HOF_INNER_CUT:      not even as much as a header of IPv4
 * @HOF_INNER_BROKEN:   its headers are not there, or cannot be
 * @HOF_INNER_FRAGMENT: not the first one: no ports
 * @HOF_INNER_PORTS:    TCP or UDP
 * @HOF_INNER_OTHER:    another protocol: no ports
 */
enum hof_inner_kind {
	HOF_INNER_CUT,
	HOF_INNER_BROKEN,
	HOF_INNER_FRAGMENT,
	HOF_INNER_PORTS,
	HOF_INNER_OTHER,
};

/**
 * struct hof_inner - a packet, as one that a client sends
 * @protocol: behind its IP headers
 * @tuple:    its source is the client's side
 */
struct hof_inner {
	u8 protocol;
	struct flt_tuple tuple;
};

/* Of the packet at an offset of @skb; its data stays where it is. Any context. */
enum hof_inner_kind hof_inner_read(const struct sk_buff *skb, unsigned int at,
				   struct hof_inner *inner);

#endif
