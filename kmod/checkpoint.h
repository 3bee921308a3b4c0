/* SPDX-License-Identifier: GPL-2.0 */
/* The state of a TCP endpoint, and its form on the wire. Private to the endpoint files. */
#ifndef FLT_CHECKPOINT_H
#define FLT_CHECKPOINT_H

#include <net/tcp.h>
#include "endpoint.h"

/*
 * A checkpoint is a head and sections, one behind the other: what one version of this
 * program adds, another can skip or refuse by name. The rules:
 *
 *	The sections of enum flt_section_type mean for ever what they mean here. One may
 *	grow at its end: who knows less of it leaves the rest alone.
 *	What is new gets a section of its own. If a connection would be harmed by a taker
 *	that skips it, it is FLT_SECTION_CRITICAL: who does not know it refuses ("version").
 *	A flag that is not known makes the section one that is not known.
 *	Order means nothing. No type that is known comes twice.
 *
 * Network byte order.
 */
#define FLT_WIRE_MAGIC		0x464c5445	/* "FLTE" */
#define FLT_WIRE_VERSION	2		/* of the head and of struct flt_section only */

/* More are not believed to be a checkpoint. */
#define FLT_SECTIONS_MAX	64

/**
 * struct flt_wire_head - begins a checkpoint
 * @magic:      FLT_WIRE_MAGIC
 * @version:    FLT_WIRE_VERSION; another one is refused
 * @header_len: where the sections begin; what is between is skipped
 * @total_len:  of all
 */
struct flt_wire_head {
	__be32 magic;
	__be16 version;
	__be16 header_len;
	__be32 total_len;
};

/**
 * struct flt_section - begins a section
 * @type:  enum flt_section_type, never zero
 * @flags: FLT_SECTION_*
 * @len:   bytes that follow and are the section's
 */
struct flt_section {
	__be16 type;
	__be16 flags;
	__be32 len;
};

#define FLT_SECTION_CRITICAL	BIT(0)	/* refuse it rather than skip this */

/**
 * enum flt_section_type - wire numbers
 * @FLT_SECTION_TUPLE:    struct flt_wire_tuple; always there
 * @FLT_SECTION_OPTIONS:  struct flt_wire_options; always there
 * @FLT_SECTION_PROGRESS: struct flt_wire_progress; always there
 * @FLT_SECTION_TIMES:    struct flt_wire_times; there if the connection has timestamps
 * @FLT_SECTION_RTT:      struct flt_wire_rtt; without it there is no sample
 * @FLT_SECTION_DATA:     the unread bytes; there if there are any
 * @FLT_SECTION_SEND:     struct flt_wire_send; there if the client has not acknowledged
 *			  all that the server has written
 * @FLT_SECTION_SENDDATA: those bytes; there with FLT_SECTION_SEND
 * @FLT_SECTION_TLS:      struct flt_wire_tls; there if the bytes are records of TLS
 * @FLT_SECTION_CONGESTION: struct flt_wire_congestion; who does not know it begins anew
 * @FLT_SECTION_END:      struct flt_wire_end; there if the server has sent, or queued, its FIN
 * @FLT_SECTION_RANGES:   struct flt_wire_range, at least one: what came out of order; there if
 *			  anything did
 * @FLT_SECTION_RANGEDATA: their bytes, one range behind the other; there with FLT_SECTION_RANGES
 */
enum flt_section_type {
	FLT_SECTION_TUPLE	= 1,
	FLT_SECTION_OPTIONS	= 2,
	FLT_SECTION_PROGRESS	= 3,
	FLT_SECTION_TIMES	= 4,
	FLT_SECTION_RTT		= 5,
	FLT_SECTION_DATA	= 6,
	FLT_SECTION_SEND	= 7,
	FLT_SECTION_SENDDATA	= 8,
	FLT_SECTION_TLS		= 9,
	FLT_SECTION_CONGESTION	= 10,
	FLT_SECTION_END		= 11,
	FLT_SECTION_RANGES	= 12,
	FLT_SECTION_RANGEDATA	= 13,
	FLT_SECTION_LAST	= FLT_SECTION_RANGEDATA,
};

/* struct flt_wire_options.flags; an unknown one is malformed. */
#define FLT_WIRE_WSCALE		BIT(0)	/* both sides sent the window scale option */
#define FLT_WIRE_SACK		BIT(1)
#define FLT_WIRE_TIMESTAMP	BIT(2)
#define FLT_WIRE_USEC_TS	BIT(3)	/* timestamps tick in microseconds */
#define FLT_WIRE_FIN		BIT(4)	/* the client's FIN follows the unread bytes */
#define FLT_WIRE_ACK_PENDING	BIT(5)	/* the client waits for an acknowledgment */
#define FLT_WIRE_FLAGS		GENMASK(5, 0)

/* The fields of the sections mean what struct flt_state says. */
struct flt_wire_tuple {
	__be16 family;			/* 4 or 6 */
	__be16 client_port;
	__be16 server_port;
	__be16 zero;
	u8 client[16];
	u8 server[16];
};

struct flt_wire_options {
	__be32 flags;			/* FLT_WIRE_* */
	__be16 mss_clamp;
	u8 snd_wscale;
	u8 rcv_wscale;
	u8 ecn_flags;
	u8 zero[3];
};

struct flt_wire_progress {
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
};

struct flt_wire_times {
	__be32 ts_recent;
	__be32 ts_recent_age;
	__be32 tsval;
};

struct flt_wire_rtt {
	__be32 srtt_us;
	__be32 mdev_us;
	__be32 rttvar_us;
	__be32 rtt_min_us;
};

struct flt_wire_congestion {
	__be32 snd_cwnd;
	__be32 snd_ssthresh;
	__be32 sent_age_ms;
};

struct flt_wire_send {
	__be32 snd_nxt;
	__be32 write_seq;
};

/**
 * enum flt_end - where the server's FIN is; wire numbers
 * @FLT_END_NONE:   it has not said its last word
 * @FLT_END_QUEUED: behind the last byte, not sent
 * @FLT_END_SENT:   sent, not acknowledged
 * @FLT_END_ACKED:  the client has it
 */
enum flt_end {
	FLT_END_NONE	= 0,
	FLT_END_QUEUED	= 1,
	FLT_END_SENT	= 2,
	FLT_END_ACKED	= 3,
};

/* Only nodes with FLT_FEATURE_HALFCLOSED are sent this. */
struct flt_wire_end {
	u8 end;				/* enum flt_end, not NONE */
	u8 zero[3];
};

/* A range that ends with the client's FIN; only the last may. */
#define FLT_RANGE_FIN	BIT(0)

/* More are refused: each is a buffer of its own at the taker. */
#define FLT_RANGES_MAX	1024

/* In order, with a gap before each. Only nodes with FLT_FEATURE_OOO are sent these. */
struct flt_wire_range {
	__be32 seq;
	__be32 len;
	__be32 flags;			/* FLT_RANGE_*; an unknown one is malformed */
};

/* Only who gets a link that is encrypted sends this. */
struct flt_wire_tls {
	__be16 version;
	__be16 cipher;
	__be16 port;			/* of the listener; 0: the connection's own */
	__be16 zero;
	struct flt_tls_way tx, rx;
};

/**
 * struct flt_wire - a checkpoint as this version writes it; the unread bytes follow
 *
 * Behind these comes struct flt_wire_tail, unless the client has acknowledged everything, then
 * FLT_SECTION_END, _RANGES and _RANGEDATA. Only the writer relies on this order.
 */
struct flt_wire {
	struct flt_wire_head head;
	struct flt_section tuple_head;
	struct flt_wire_tuple tuple;
	struct flt_section options_head;
	struct flt_wire_options options;
	struct flt_section progress_head;
	struct flt_wire_progress progress;
	struct flt_section times_head;
	struct flt_wire_times times;
	struct flt_section rtt_head;
	struct flt_wire_rtt rtt;
	struct flt_section congestion_head;
	struct flt_wire_congestion congestion;
	struct flt_section data_head;
};

/* The rest of it; the bytes from snd_una to write_seq follow. */
struct flt_wire_tail {
	struct flt_section send_head;
	struct flt_wire_send send;
	struct flt_section data_head;
};

/**
 * struct flt_state - what has to be the same on the other node
 * @tuple:         addresses and ports
 * @flags:         FLT_WIRE_*
 * @mss_clamp:     the client's MSS option
 * @snd_wscale:    scale of the windows the client advertises
 * @rcv_wscale:    scale of the windows it is told
 * @ecn_flags:     tcp_sock's, TCP_ECN_OK and the ECE and CWR still owed
 * @snd_una:       first byte that the client has not acknowledged
 * @snd_nxt:       first byte that has not been sent
 * @write_seq:     first byte that the server has not written
 * @snd_wnd:       the client's window, in bytes
 * @snd_wl1:       sequence of the segment that window came in
 * @max_window:    the largest it ever was
 * @rcv_start:     first unread byte
 * @unread:        number of unread bytes, without the FIN
 * @end:           enum flt_end; the numbers of the sending side are without this FIN as long as
 *		   it is not acknowledged
 * @ranges:        how many ranges came out of order
 * @ranged:        number of their bytes
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
 * @snd_cwnd:      congestion window in segments; 0: not said, or not to be believed
 * @snd_ssthresh:  where slow start ends
 * @sent_age_ms:   since the last segment with data was sent: a window that was not used is not
 *		   to be believed either, and TCP sees to that by itself
 *
 * Left out on purpose: the retransmission timer's value (may be backed off, is
 * computed anew), what a congestion control remembers besides, counters of TCP_INFO,
 * and every socket option: options come from the target's listener.
 */
struct flt_state {
	struct flt_tuple tuple;
	u32 flags;
	u16 mss_clamp;
	u8 snd_wscale, rcv_wscale;
	u8 ecn_flags;
	u32 snd_una, snd_nxt, write_seq;
	u32 snd_wnd, snd_wl1, max_window;
	u32 rcv_start, unread;
	u8 end;
	u32 ranges, ranged;
	u32 rcv_wup, rcv_wnd, rcv_ssthresh, window_clamp;
	u32 ts_recent, ts_recent_age, tsval;
	u32 srtt_us, mdev_us, rttvar_us, rtt_min_us;
	u32 snd_cwnd, snd_ssthresh, sent_age_ms;
};

/* The timestamp that a segment would have now: not of the time when the last packet came. */
static inline u32 flt_tsval(const struct tcp_sock *tp)
{
	return (u32)tcp_clock_ts(tp->tcp_usec_ts) + tp->tsoffset;
}

/* Sequence number after everything received, the FIN included. */
static inline u32 flt_state_rcv_nxt(const struct flt_state *state)
{
	return state->rcv_start + state->unread + !!(state->flags & FLT_WIRE_FIN);
}

/* Bytes that the client may still need: sent or not, not acknowledged. */
static inline u32 flt_state_queued(const struct flt_state *state)
{
	return state->write_seq - state->snd_una;
}

/* Those of them that have been sent. */
static inline u32 flt_state_flying(const struct flt_state *state)
{
	return state->snd_nxt - state->snd_una;
}

/* Right edge of the receive window. */
static inline u32 flt_state_rcv_edge(const struct flt_state *state)
{
	return state->rcv_wup + state->rcv_wnd;
}

/* Bytes of a key; 0: not a cipher that is known here. */
unsigned int flt_tls_key_size(u16 cipher);

/* Bytes of the checkpoint of @state. */
u32 flt_wire_len(const struct flt_state *state);

/* All of it but the bytes of the streams, which have their places in it. */
void flt_wire_encode(struct flt_wire *wire, const struct flt_state *state);

/* What the client has not acknowledged, be it only the FIN. */
static inline bool flt_state_owes(const struct flt_state *state)
{
	return flt_state_queued(state) || state->end == FLT_END_QUEUED ||
	       state->end == FLT_END_SENT;
}

/* Where the ranges are, if there are any; their bytes are a section's head further. */
void *flt_wire_ranges(struct flt_wire *wire, const struct flt_state *state);

/* Where the unacknowledged bytes are, if there are any. */
static inline void *flt_wire_sent(struct flt_wire *wire, const struct flt_state *state)
{
	return (void *)(wire + 1) + state->unread + sizeof(struct flt_wire_tail);
}

/**
 * struct flt_streams - the bytes of a checkpoint, in it
 * @unread: of the client, flt_state.unread of them; NULL if there are none
 * @sent:   of the server, flt_state_queued() of them, from snd_una on; NULL if there are none
 * @tls:    struct flt_wire_tls; NULL if the connection is in clear text
 * @ranges: flt_state.ranges of struct flt_wire_range, any alignment; NULL if there are none
 * @ranged: their bytes
 */
struct flt_streams {
	const void *unread;
	const void *sent;
	const void *tls;
	const void *ranges;
	const void *ranged;
};

/**
 * flt_wire_decode - check a checkpoint from anywhere and read its state
 * @buf:   the checkpoint, any alignment
 * @len:   its length
 * @state: filled; after a refusal it may have less in it
 * @data:  set to the bytes in @buf
 *
 * Whatever passes can be installed without harm to anything but the connection
 * that it names.
 *
 * Return: FLT_REFUSE_NONE; _VERSION: of another form, or with a critical section that is not
 * known here; _MALFORMED.
 */
enum flt_refusal flt_wire_decode(const void *buf, u32 len, struct flt_state *state,
				 struct flt_streams *data);

/**
 * flt_wire_tls_read - what flt_streams.tls says
 * @at:  there, any alignment
 * @tls: filled; to be zeroed after use
 *
 * Return: FLT_REFUSE_NONE; _MALFORMED; _KTLS: not known here.
 */
enum flt_refusal flt_wire_tls_read(const void *at, struct flt_tls *tls);

#endif
