/* SPDX-License-Identifier: GPL-2.0 */
/* Building the child of an adoption. Private to the adopt files. */
#ifndef FLT_ADOPT_H
#define FLT_ADOPT_H

#include "checkpoint.h"

struct flt_adoption;

/**
 * flt_segment - a segment as if it came from the client
 * @net:    network namespace
 * @state:  addresses and ports
 * @flags:  TCPHDR_*
 * @seq, @ack: of the segment
 * @window: unscaled, as on the wire
 *
 * Return: an skb as tcp_v4_rcv() or tcp_v6_rcv() would pass on, data at the
 * TCP header, or NULL.
 */
struct sk_buff *flt_segment(struct net *net, const struct flt_state *state, u8 flags,
			    u32 seq, u32 ack, u16 window);

/**
 * flt_listener_lookup - the listener that would get a SYN of this connection
 * @net:   network namespace
 * @tuple: addresses and ports
 * @skb:   the client's segment, for BPF programs that choose in a reuseport
 *	   group; or NULL: the group is then indexed by the tuple's hash
 *
 * Return: referenced, or NULL.
 */
struct sock *flt_listener_lookup(struct net *net, const struct flt_tuple *tuple,
				 struct sk_buff *skb);

/**
 * flt_tuple_vacate - make sure that nobody here has this four-tuple
 * @net:   network namespace
 * @state: of the connection to come; decides whether a TIME_WAIT may be ended
 *
 * Return: FLT_REFUSE_NONE or FLT_REFUSE_DUPLICATE.
 */
enum flt_refusal flt_tuple_vacate(struct net *net, const struct flt_state *state);

/* FLT_REFUSE_NONE when the server's address is one of @net's. */
enum flt_refusal flt_tuple_local(struct net *net, const struct flt_tuple *tuple);

/* Is there a route from the server's address to the client? */
bool flt_tuple_routed(struct net *net, const struct flt_tuple *tuple);

/**
 * flt_child_fill - make a fresh child what @state says
 * @child: ESTABLISHED, nothing sent or received yet; owned by the caller
 * @state: checked
 * @data:  the unread bytes
 *
 * Sends nothing.
 *
 * Context: process, may sleep.
 * Return: FLT_REFUSE_NONE or FLT_REFUSE_NOMEM.
 */
enum flt_refusal flt_child_fill(struct sock *child, const struct flt_state *state,
				const void *data);

#endif
