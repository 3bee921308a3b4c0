/* SPDX-License-Identifier: GPL-2.0 */
/* The state of a TCP endpoint, and its form on the wire. Private to the endpoint files. */
#ifndef FLT_CHECKPOINT_H
#define FLT_CHECKPOINT_H

#include "endpoint.h"

#define FLT_WIRE_MAGIC		0x464c5445	/* "FLTE" */
#define FLT_WIRE_VERSION	1

/* struct flt_wire.flags; an unknown one is malformed. */
#define FLT_WIRE_WSCALE		BIT(0)	/* both sides sent the window scale option */
#define FLT_WIRE_SACK		BIT(1)
#define FLT_WIRE_TIMESTAMP	BIT(2)
#define FLT_WIRE_USEC_TS	BIT(3)	/* timestamps tick in microseconds */
#define FLT_WIRE_FIN		BIT(4)	/* the client's FIN follows the unread bytes */
#define FLT_WIRE_ACK_PENDING	BIT(5)	/* the client waits for an acknowledgment */
#define FLT_WIRE_FLAGS		GENMASK(5, 0)

/**
 * struct flt_wire - version 1 of a checkpoint; unread bytes follow
 *
 * Network byte order. The fields mean what struct flt_state says. A change of
 * any kind gets a new version number.
 */
struct flt_wire {
	__be32 magic;
	__be16 version;
	__be16 header_len;
	__be32 total_len;
	__be32 flags;
	__be16 family;			/* 4 or 6 */
	__be16 client_port;
	__be16 server_port;
	__be16 mss_clamp;
	u8 client[16];
	u8 server[16];
	u8 snd_wscale;
	u8 rcv_wscale;
	u8 ecn_flags;
	u8 reserved;			/* zero */
	__be32 snd_una;
	__be32 snd_wnd;
	__be32 snd_wl1;
	__be32 max_window;
	__be32 rcv_start;
	__be32 unread;
	__be32 rcv_wup;
	__be32 rcv_wnd;
	__be32 rcv_ssthresh;
	__be32 window_clamp;
	__be32 ts_recent;
	__be32 ts_recent_age;
	__be32 tsval;
	__be32 srtt_us;
	__be32 mdev_us;
	__be32 rttvar_us;
	__be32 rtt_min_us;
};

/**
 * struct flt_state - what has to be the same on the other node
 * @tuple:         addresses and ports
 * @flags:         FLT_WIRE_*
 * @mss_clamp:     the client's MSS option
 * @snd_wscale:    scale of the windows the client advertises
 * @rcv_wscale:    scale of the windows it is told
 * @ecn_flags:     tcp_sock's, TCP_ECN_OK and the ECE and CWR still owed
 * @snd_una:       next byte to send: the send queue is empty
 * @snd_wnd:       the client's window, in bytes
 * @snd_wl1:       sequence of the segment that window came in
 * @max_window:    the largest it ever was
 * @rcv_start:     first unread byte
 * @unread:        number of unread bytes, without the FIN
 * @rcv_wup:       acknowledgment number sent last
 * @rcv_wnd:       window sent with it; @rcv_wup + @rcv_wnd is the right edge,
 *		   which must never move left
 * @rcv_ssthresh:  window growth so far
 * @window_clamp:  limit of that growth
 * @ts_recent:     newest timestamp of the client
 * @ts_recent_age: seconds since it came
 * @tsval:         own timestamp clock at the time of the checkpoint
 * @srtt_us, @mdev_us, @rttvar_us, @rtt_min_us: round-trip estimate, in the
 *		   kernel's units; @srtt_us is 0 without a sample
 *
 * Left out on purpose: congestion window and threshold (restart is safe), the
 * retransmission timer's value (may be backed off, is computed anew), counters
 * of TCP_INFO, and every socket option: options come from the target's listener.
 */
struct flt_state {
	struct flt_tuple tuple;
	u32 flags;
	u16 mss_clamp;
	u8 snd_wscale, rcv_wscale;
	u8 ecn_flags;
	u32 snd_una, snd_wnd, snd_wl1, max_window;
	u32 rcv_start, unread;
	u32 rcv_wup, rcv_wnd, rcv_ssthresh, window_clamp;
	u32 ts_recent, ts_recent_age, tsval;
	u32 srtt_us, mdev_us, rttvar_us, rtt_min_us;
};

/* Sequence number after everything received, the FIN included. */
static inline u32 flt_state_rcv_nxt(const struct flt_state *state)
{
	return state->rcv_start + state->unread + !!(state->flags & FLT_WIRE_FIN);
}

/* Right edge of the receive window. */
static inline u32 flt_state_rcv_edge(const struct flt_state *state)
{
	return state->rcv_wup + state->rcv_wnd;
}

void flt_wire_encode(struct flt_wire *wire, const struct flt_state *state);

/* Of one's own checkpoint: @state's tuple, flags, and what moves as bytes come and go. */
void flt_wire_progress(const struct flt_wire *wire, struct flt_state *state);

/**
 * flt_wire_decode - check a checkpoint from anywhere and read its state
 * @buf:   the checkpoint, any alignment
 * @len:   its length
 * @state: filled
 * @data:  set to the unread bytes in @buf, @state->unread of them
 *
 * Whatever passes can be installed without harm to anything but the connection
 * that it names.
 *
 * Return: FLT_REFUSE_NONE, _VERSION or _MALFORMED.
 */
enum flt_refusal flt_wire_decode(const void *buf, u32 len, struct flt_state *state,
				 const void **data);

#endif
