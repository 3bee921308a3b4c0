/* SPDX-License-Identifier: GPL-2.0 */
/* A connection that has no socket yet: its client's first segment is all that there is of it. */
#ifndef FLT_OPENING_H
#define FLT_OPENING_H

#include <linux/skbuff.h>
#include <net/sock.h>
#include <flotilla/flotilla.h>

struct flt_checkpoint;

/**
 * struct flt_door - what a listener would promise a client
 * @space:  bytes for what comes at first
 * @clamp:  it will never promise more
 * @scale:  of windows, if the client scales
 */
struct flt_door {
	u32 space;
	u32 clamp;
	u8 scale;
};

/**
 * flt_door_of - what a listener promises
 * @listener: TCP, IPv4; RCU
 * @door:     filled
 *
 * Return: false: its connections are not to be opened in its place.
 */
bool flt_door_of(const struct sock *listener, struct flt_door *door);

/* The window of a SYN-ACK, which is not scaled, for a client with segments of @mss. */
static inline u16 flt_door_window(const struct flt_door *door, u16 mss)
{
	return min_t(u32, door->space > mss ? rounddown(door->space, mss) : door->space, U16_MAX);
}

/**
 * struct flt_opening - a connection after its first segment
 * @tuple:    of it
 * @mss:      the client's
 * @snd_wscale: of the windows that it advertises; 0 without @wscale
 * @wscale:   both sides scale
 * @sack:     both sides use SACK
 * @timestamp: both sides have timestamps
 * @seq:      of the first byte of the client; all before it has been acknowledged
 * @ack:      of the first byte of the server
 * @window:   the client's, in bytes
 * @ts_recent: the client's timestamp
 * @tsval:    ours, now
 * @promised: the window of the SYN-ACK
 * @scale:    of the windows that follow; 0 without @wscale
 * @clamp:    as in struct flt_door
 */
struct flt_opening {
	struct flt_tuple tuple;
	u16 mss;
	u8 snd_wscale;
	bool wscale;
	bool sack;
	bool timestamp;
	u32 seq;
	u32 ack;
	u32 window;
	u32 ts_recent;
	u32 tsval;
	u16 promised;
	u8 scale;
	u32 clamp;
};

/**
 * flt_opening_checkpoint - as flt_endpoint_checkpoint(), of what has no socket
 * @o:      the connection
 * @skb:    with the client's first bytes
 * @offset: of these in it
 * @len:    how many, at most @o->promised
 * @data:   set to where they are in the checkpoint
 *
 * Context: any but hard interrupt; charged to the memory cgroup that is active.
 * Return: free with kvfree(); NULL: no memory, or @skb is not what it says.
 */
struct flt_checkpoint *flt_opening_checkpoint(const struct flt_opening *o,
					      const struct sk_buff *skb, unsigned int offset,
					      u32 len, const char **data);

#endif
