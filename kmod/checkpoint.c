// SPDX-License-Identifier: GPL-2.0
/* Checkpoints: the state of an endpoint as bytes, and back, trusting nothing. */
#include <linux/module.h>
#include <linux/string.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/tcp.h>
#include <uapi/linux/tls.h>
#include "checkpoint.h"
#include "compat/sock.h"

/* A window cannot be larger than 16 bits shifted by the largest scale. */
#define FLT_WINDOW_MAX	((u32)U16_MAX << TCP_MAX_WSCALE)
/* Sequence numbers further apart than this are not of one connection. */
#define FLT_SEQ_SPAN	BIT(30)
/* Sixteen minutes, in the largest unit used (an eighth of a microsecond). */
#define FLT_RTT_MAX	S32_MAX

#define FLT_ECN_FLAGS	(FLT_TCP_ECN_OK | TCP_ECN_QUEUE_CWR | TCP_ECN_DEMAND_CWR | TCP_ECN_SEEN)

static struct flt_section flt_section(enum flt_section_type type, u16 flags, u32 len)
{
	return (struct flt_section){
		.type = cpu_to_be16(type),
		.flags = cpu_to_be16(flags),
		.len = cpu_to_be32(len),
	};
}

#define FLT_CRITICAL(type, body)	flt_section(type, FLT_SECTION_CRITICAL, sizeof(body))

/* From the beginning to what follows the bytes of the server. */
static u32 flt_wire_streams_len(const struct flt_state *state)
{
	u32 queued = flt_state_queued(state);

	return sizeof(struct flt_wire) + state->unread +
	       (queued ? sizeof(struct flt_wire_tail) + queued : 0);
}

static u32 flt_wire_end_len(const struct flt_state *state)
{
	return state->end ? sizeof(struct flt_section) + sizeof(struct flt_wire_end) : 0;
}

u32 flt_wire_len(const struct flt_state *state)
{
	u32 len = flt_wire_streams_len(state) + flt_wire_end_len(state);

	if (state->ranges)
		len += 2 * sizeof(struct flt_section) + state->ranged +
		       state->ranges * sizeof(struct flt_wire_range);
	return len;
}

void *flt_wire_ranges(struct flt_wire *wire, const struct flt_state *state)
{
	return (void *)wire + flt_wire_streams_len(state) + flt_wire_end_len(state) +
	       sizeof(struct flt_section);
}

/* At any alignment, as all that follows the bytes of a stream. */
static void flt_end_encode(void *at, const struct flt_state *state)
{
	struct flt_section head = FLT_CRITICAL(FLT_SECTION_END, struct flt_wire_end);
	struct flt_wire_end end = { .end = state->end };

	memcpy(at, &head, sizeof(head));
	memcpy(at + sizeof(head), &end, sizeof(end));
}

/* The heads of the two sections; who has the ranges fills in the rest. */
static void flt_ranges_encode(void *at, const struct flt_state *state)
{
	u32 len = state->ranges * sizeof(struct flt_wire_range);
	struct flt_section head = flt_section(FLT_SECTION_RANGES, FLT_SECTION_CRITICAL, len);

	memcpy(at - sizeof(head), &head, sizeof(head));
	head = flt_section(FLT_SECTION_RANGEDATA, FLT_SECTION_CRITICAL, state->ranged);
	memcpy(at + len, &head, sizeof(head));
}

/* At any alignment. */
static void flt_tail_encode(void *at, const struct flt_state *state)
{
	struct flt_wire_tail tail = {
		.send_head = FLT_CRITICAL(FLT_SECTION_SEND, tail.send),
		.send = {
			.snd_nxt = cpu_to_be32(state->snd_nxt),
			.write_seq = cpu_to_be32(state->write_seq),
		},
		.data_head = flt_section(FLT_SECTION_SENDDATA, FLT_SECTION_CRITICAL,
					 flt_state_queued(state)),
	};

	static_assert(sizeof(tail) == 2 * sizeof(struct flt_section) + sizeof(tail.send));
	memcpy(at, &tail, sizeof(tail));
}

void flt_wire_encode(struct flt_wire *wire, const struct flt_state *state)
{
	/* Nothing between the parts, so that there is nothing of our memory in it. */
	static_assert(sizeof(*wire) == sizeof(wire->head) + 7 * sizeof(struct flt_section) +
		      sizeof(wire->tuple) + sizeof(wire->options) + sizeof(wire->progress) +
		      sizeof(wire->times) + sizeof(wire->rtt) + sizeof(wire->congestion));

	wire->head = (struct flt_wire_head){
		.magic = cpu_to_be32(FLT_WIRE_MAGIC),
		.version = cpu_to_be16(FLT_WIRE_VERSION),
		.header_len = cpu_to_be16(sizeof(wire->head)),
		.total_len = cpu_to_be32(flt_wire_len(state)),
	};
	wire->tuple_head = FLT_CRITICAL(FLT_SECTION_TUPLE, wire->tuple);
	wire->tuple = (struct flt_wire_tuple){
		.family = cpu_to_be16(state->tuple.family == AF_INET ? 4 : 6),
		.client_port = state->tuple.client_port,
		.server_port = state->tuple.server_port,
	};
	memcpy(wire->tuple.client, state->tuple.client, sizeof(wire->tuple.client));
	memcpy(wire->tuple.server, state->tuple.server, sizeof(wire->tuple.server));
	wire->options_head = FLT_CRITICAL(FLT_SECTION_OPTIONS, wire->options);
	wire->options = (struct flt_wire_options){
		.flags = cpu_to_be32(state->flags),
		.mss_clamp = cpu_to_be16(state->mss_clamp),
		.snd_wscale = state->snd_wscale,
		.rcv_wscale = state->rcv_wscale,
		.ecn_flags = state->ecn_flags,
	};
	wire->progress_head = FLT_CRITICAL(FLT_SECTION_PROGRESS, wire->progress);
	wire->progress = (struct flt_wire_progress){
		.snd_una = cpu_to_be32(state->snd_una),
		.snd_wnd = cpu_to_be32(state->snd_wnd),
		.snd_wl1 = cpu_to_be32(state->snd_wl1),
		.max_window = cpu_to_be32(state->max_window),
		.rcv_start = cpu_to_be32(state->rcv_start),
		.unread = cpu_to_be32(state->unread),
		.rcv_wup = cpu_to_be32(state->rcv_wup),
		.rcv_wnd = cpu_to_be32(state->rcv_wnd),
		.rcv_ssthresh = cpu_to_be32(state->rcv_ssthresh),
		.window_clamp = cpu_to_be32(state->window_clamp),
	};
	wire->times_head = FLT_CRITICAL(FLT_SECTION_TIMES, wire->times);
	wire->times = (struct flt_wire_times){
		.ts_recent = cpu_to_be32(state->ts_recent),
		.ts_recent_age = cpu_to_be32(state->ts_recent_age),
		.tsval = cpu_to_be32(state->tsval),
	};
	wire->rtt_head = flt_section(FLT_SECTION_RTT, 0, sizeof(wire->rtt));
	wire->rtt = (struct flt_wire_rtt){
		.srtt_us = cpu_to_be32(state->srtt_us),
		.mdev_us = cpu_to_be32(state->mdev_us),
		.rttvar_us = cpu_to_be32(state->rttvar_us),
		.rtt_min_us = cpu_to_be32(state->rtt_min_us),
	};
	wire->congestion_head = flt_section(FLT_SECTION_CONGESTION, 0, sizeof(wire->congestion));
	wire->congestion = (struct flt_wire_congestion){
		.snd_cwnd = cpu_to_be32(state->snd_cwnd),
		.snd_ssthresh = cpu_to_be32(state->snd_ssthresh),
		.sent_age_ms = cpu_to_be32(state->sent_age_ms),
	};
	wire->data_head = flt_section(FLT_SECTION_DATA, FLT_SECTION_CRITICAL, state->unread);
	if (flt_state_queued(state))
		flt_tail_encode((void *)(wire + 1) + state->unread, state);
	if (state->end)
		flt_end_encode((void *)wire + flt_wire_streams_len(state), state);
	if (state->ranges)
		flt_ranges_encode(flt_wire_ranges(wire, state), state);
}

static void flt_tuple_read(const struct flt_wire_tuple *tuple, struct flt_state *state)
{
	memset(&state->tuple, 0, sizeof(state->tuple));
	state->tuple.family = tuple->family == cpu_to_be16(4) ? AF_INET : AF_INET6;
	state->tuple.client_port = tuple->client_port;
	state->tuple.server_port = tuple->server_port;
	memcpy(state->tuple.client, tuple->client, sizeof(tuple->client));
	memcpy(state->tuple.server, tuple->server, sizeof(tuple->server));
}

static void flt_options_read(const struct flt_wire_options *options, struct flt_state *state)
{
	state->flags = be32_to_cpu(options->flags);
	state->mss_clamp = be16_to_cpu(options->mss_clamp);
	state->snd_wscale = options->snd_wscale;
	state->rcv_wscale = options->rcv_wscale;
	state->ecn_flags = options->ecn_flags;
}

static void flt_progress_read(const struct flt_wire_progress *progress, struct flt_state *state)
{
	state->snd_una = be32_to_cpu(progress->snd_una);
	state->snd_nxt = state->snd_una;
	state->write_seq = state->snd_una;
	state->snd_wnd = be32_to_cpu(progress->snd_wnd);
	state->snd_wl1 = be32_to_cpu(progress->snd_wl1);
	state->max_window = be32_to_cpu(progress->max_window);
	state->rcv_start = be32_to_cpu(progress->rcv_start);
	state->unread = be32_to_cpu(progress->unread);
	state->rcv_wup = be32_to_cpu(progress->rcv_wup);
	state->rcv_wnd = be32_to_cpu(progress->rcv_wnd);
	state->rcv_ssthresh = be32_to_cpu(progress->rcv_ssthresh);
	state->window_clamp = be32_to_cpu(progress->window_clamp);
}

static void flt_send_read(const struct flt_wire_send *send, struct flt_state *state)
{
	state->snd_nxt = be32_to_cpu(send->snd_nxt);
	state->write_seq = be32_to_cpu(send->write_seq);
}

static bool flt_address_ok(u16 family, const u8 *bytes)
{
	static const u8 zeros[12];

	if (family == AF_INET) {
		__be32 addr;

		memcpy(&addr, bytes, sizeof(addr));
		return !memcmp(bytes + 4, zeros, sizeof(zeros)) && !ipv4_is_zeronet(addr) &&
		       !ipv4_is_multicast(addr) && !ipv4_is_lbcast(addr);
	} else {
		struct in6_addr addr;
		int type;

		memcpy(&addr, bytes, sizeof(addr));
		type = ipv6_addr_type(&addr);
		/* A link-local address means nothing without its interface. */
		return (type & IPV6_ADDR_UNICAST) && !(type & (IPV6_ADDR_MAPPED |
							       IPV6_ADDR_LINKLOCAL));
	}
}

static bool flt_tuple_ok(const struct flt_tuple *tuple)
{
	return tuple->client_port && tuple->server_port &&
	       flt_address_ok(tuple->family, tuple->client) &&
	       flt_address_ok(tuple->family, tuple->server);
}

static bool flt_options_ok(const struct flt_state *state)
{
	if (state->flags & ~FLT_WIRE_FLAGS)
		return false;
	if ((state->flags & FLT_WIRE_USEC_TS) && !(state->flags & FLT_WIRE_TIMESTAMP))
		return false;
	if (state->snd_wscale > TCP_MAX_WSCALE || state->rcv_wscale > TCP_MAX_WSCALE)
		return false;
	if (!(state->flags & FLT_WIRE_WSCALE) && (state->snd_wscale || state->rcv_wscale))
		return false;
	if (state->ecn_flags & ~FLT_ECN_FLAGS)
		return false;
	if (state->ecn_flags && !(state->ecn_flags & FLT_TCP_ECN_OK))
		return false;
	return state->mss_clamp != 0;
}

static bool flt_windows_ok(const struct flt_state *state)
{
	u32 rcv_nxt = flt_state_rcv_nxt(state);

	if (state->unread > FLT_CHECKPOINT_MAX || flt_state_queued(state) > FLT_CHECKPOINT_MAX ||
	    state->ranged > FLT_CHECKPOINT_MAX - state->unread)
		return false;
	/* Sent is what has been written; this holds for numbers that lie before snd_una, too. */
	if (flt_state_flying(state) > flt_state_queued(state))
		return false;
	if (state->snd_wnd > FLT_WINDOW_MAX || state->max_window > FLT_WINDOW_MAX ||
	    state->snd_wnd > state->max_window)
		return false;
	/* Both numbers name something that has been received. */
	if (rcv_nxt - state->snd_wl1 > FLT_SEQ_SPAN || rcv_nxt - state->rcv_wup > FLT_SEQ_SPAN)
		return false;
	return state->rcv_wnd <= FLT_WINDOW_MAX && state->rcv_ssthresh <= FLT_WINDOW_MAX &&
	       state->window_clamp <= FLT_WINDOW_MAX;
}

/*
 * As many segments as the largest window has bytes. TCP keeps the threshold at two or more, and
 * makes a window of it, which must not be empty.
 */
static bool flt_congestion_ok(const struct flt_state *state)
{
	return state->snd_cwnd <= FLT_WINDOW_MAX && state->snd_ssthresh <= TCP_INFINITE_SSTHRESH &&
	       (!state->snd_cwnd || state->snd_ssthresh >= 2) && state->sent_age_ms <= S32_MAX;
}

static bool flt_times_ok(const struct flt_state *state)
{
	return state->srtt_us <= FLT_RTT_MAX && state->mdev_us <= FLT_RTT_MAX &&
	       state->rttvar_us <= FLT_RTT_MAX && state->rtt_min_us <= FLT_RTT_MAX &&
	       state->ts_recent_age <= S32_MAX;
}

/* What a section has at least; what follows that is of a later version. */
static const u16 flt_section_size[FLT_SECTION_LAST + 1] = {
	[FLT_SECTION_TUPLE]	= sizeof(struct flt_wire_tuple),
	[FLT_SECTION_OPTIONS]	= sizeof(struct flt_wire_options),
	[FLT_SECTION_PROGRESS]	= sizeof(struct flt_wire_progress),
	[FLT_SECTION_TIMES]	= sizeof(struct flt_wire_times),
	[FLT_SECTION_RTT]	= sizeof(struct flt_wire_rtt),
	[FLT_SECTION_SEND]	= sizeof(struct flt_wire_send),
	[FLT_SECTION_TLS]	= sizeof(struct flt_wire_tls),
	[FLT_SECTION_CONGESTION] = sizeof(struct flt_wire_congestion),
	[FLT_SECTION_END]	= sizeof(struct flt_wire_end),
	[FLT_SECTION_RANGES]	= sizeof(struct flt_wire_range),
};

/**
 * struct flt_sections - where the sections of a checkpoint are
 * @body: in it, any alignment; NULL: there is none
 * @len:  of the body, at least flt_section_size
 */
struct flt_sections {
	const void *body[FLT_SECTION_LAST + 1];
	u32 len[FLT_SECTION_LAST + 1];
};

static enum flt_refusal flt_head_check(const void *buf, u32 len, u32 *at)
{
	struct flt_wire_head head;

	/* The first eight bytes are the same in every version. */
	if (len < offsetofend(struct flt_wire_head, header_len))
		return FLT_REFUSE_MALFORMED;
	memcpy(&head, buf, min_t(size_t, len, sizeof(head)));
	if (head.magic != cpu_to_be32(FLT_WIRE_MAGIC))
		return FLT_REFUSE_MALFORMED;
	if (head.version != cpu_to_be16(FLT_WIRE_VERSION))
		return FLT_REFUSE_VERSION;
	*at = be16_to_cpu(head.header_len);
	if (len < sizeof(head) || head.total_len != cpu_to_be32(len) || *at < sizeof(head) ||
	    *at > len)
		return FLT_REFUSE_MALFORMED;
	return FLT_REFUSE_NONE;
}

/* No length is used before it is known to end within @len. */
static enum flt_refusal flt_sections_find(const void *buf, u32 at, u32 len,
					  struct flt_sections *found)
{
	unsigned int left = FLT_SECTIONS_MAX;
	struct flt_section head;
	u16 type, flags;
	u16 wanted = 0;
	u32 size;

	for (; at < len; at += size) {
		if (!left-- || len - at < sizeof(head))
			return FLT_REFUSE_MALFORMED;
		memcpy(&head, buf + at, sizeof(head));
		at += sizeof(head);
		type = be16_to_cpu(head.type);
		flags = be16_to_cpu(head.flags);
		size = be32_to_cpu(head.len);
		if (!type || size > len - at)
			return FLT_REFUSE_MALFORMED;
		if (type > FLT_SECTION_LAST || flags & ~FLT_SECTION_CRITICAL) {
			if (flags & FLT_SECTION_CRITICAL)
				wanted = type;
			continue;
		}
		if (found->body[type] || size < flt_section_size[type])
			return FLT_REFUSE_MALFORMED;
		found->body[type] = buf + at;
		found->len[type] = size;
	}
	if (!wanted)
		return FLT_REFUSE_NONE;
	pr_warn_ratelimited("a connection comes with section %u, which this version must not skip and does not know\n",
			    wanted);
	return FLT_REFUSE_VERSION;
}

static enum flt_refusal flt_sections_read(const struct flt_sections *found,
					  struct flt_state *state)
{
	struct flt_wire_progress progress;
	struct flt_wire_options options;
	struct flt_wire_tuple tuple;

	if (!found->body[FLT_SECTION_TUPLE] || !found->body[FLT_SECTION_OPTIONS] ||
	    !found->body[FLT_SECTION_PROGRESS])
		return FLT_REFUSE_MALFORMED;
	memcpy(&tuple, found->body[FLT_SECTION_TUPLE], sizeof(tuple));
	memcpy(&options, found->body[FLT_SECTION_OPTIONS], sizeof(options));
	memcpy(&progress, found->body[FLT_SECTION_PROGRESS], sizeof(progress));
	if ((tuple.family != cpu_to_be16(4) && tuple.family != cpu_to_be16(6)) || tuple.zero ||
	    memchr_inv(options.zero, 0, sizeof(options.zero)))
		return FLT_REFUSE_MALFORMED;
	flt_tuple_read(&tuple, state);
	flt_options_read(&options, state);
	flt_progress_read(&progress, state);

	if (found->body[FLT_SECTION_TIMES]) {
		struct flt_wire_times times;

		memcpy(&times, found->body[FLT_SECTION_TIMES], sizeof(times));
		state->ts_recent = be32_to_cpu(times.ts_recent);
		state->ts_recent_age = be32_to_cpu(times.ts_recent_age);
		state->tsval = be32_to_cpu(times.tsval);
	} else if (state->flags & FLT_WIRE_TIMESTAMP) {
		return FLT_REFUSE_MALFORMED;
	}
	if (found->body[FLT_SECTION_RTT]) {
		struct flt_wire_rtt rtt;

		memcpy(&rtt, found->body[FLT_SECTION_RTT], sizeof(rtt));
		state->srtt_us = be32_to_cpu(rtt.srtt_us);
		state->mdev_us = be32_to_cpu(rtt.mdev_us);
		state->rttvar_us = be32_to_cpu(rtt.rttvar_us);
		state->rtt_min_us = be32_to_cpu(rtt.rtt_min_us);
	}
	if (found->body[FLT_SECTION_CONGESTION]) {
		struct flt_wire_congestion congestion;

		memcpy(&congestion, found->body[FLT_SECTION_CONGESTION], sizeof(congestion));
		state->snd_cwnd = be32_to_cpu(congestion.snd_cwnd);
		state->snd_ssthresh = be32_to_cpu(congestion.snd_ssthresh);
		state->sent_age_ms = be32_to_cpu(congestion.sent_age_ms);
	}
	if (found->body[FLT_SECTION_SEND]) {
		struct flt_wire_send send;

		memcpy(&send, found->body[FLT_SECTION_SEND], sizeof(send));
		flt_send_read(&send, state);
	}
	if (found->body[FLT_SECTION_END]) {
		struct flt_wire_end end;

		memcpy(&end, found->body[FLT_SECTION_END], sizeof(end));
		if (!end.end || end.end > FLT_END_ACKED ||
		    memchr_inv(end.zero, 0, sizeof(end.zero)))
			return FLT_REFUSE_MALFORMED;
		state->end = end.end;
	}
	/* Each is said twice. */
	return found->len[FLT_SECTION_DATA] == state->unread &&
	       found->len[FLT_SECTION_SENDDATA] == flt_state_queued(state) ?
	       FLT_REFUSE_NONE : FLT_REFUSE_MALFORMED;
}

/*
 * What came out of order lies behind what came in order, each range behind the one before and not
 * next to it, and no further than a window is wide.
 */
static enum flt_refusal flt_ranges_read(const struct flt_sections *found,
					struct flt_state *state)
{
	u32 rcv_nxt = flt_state_rcv_nxt(state), end = 0, at, len, flags, i;
	const void *body = found->body[FLT_SECTION_RANGES];
	struct flt_wire_range range;
	bool fin = false;

	if (!body)
		return found->body[FLT_SECTION_RANGEDATA] ? FLT_REFUSE_MALFORMED : FLT_REFUSE_NONE;
	state->ranges = found->len[FLT_SECTION_RANGES] / sizeof(range);
	state->ranged = found->len[FLT_SECTION_RANGEDATA];
	if (found->len[FLT_SECTION_RANGES] % sizeof(range) || state->ranges > FLT_RANGES_MAX ||
	    state->ranged > FLT_CHECKPOINT_MAX || (state->flags & FLT_WIRE_FIN))
		return FLT_REFUSE_MALFORMED;
	for (i = 0, at = 0; i < state->ranges; i++, at += len) {
		memcpy(&range, body + i * sizeof(range), sizeof(range));
		len = be32_to_cpu(range.len);
		flags = be32_to_cpu(range.flags);
		if (fin || flags & ~FLT_RANGE_FIN || len > state->ranged - at ||
		    be32_to_cpu(range.seq) - rcv_nxt <= end ||
		    be32_to_cpu(range.seq) - rcv_nxt > FLT_WINDOW_MAX)
			return FLT_REFUSE_MALFORMED;
		fin = flags & FLT_RANGE_FIN;
		if (!len && !fin)
			return FLT_REFUSE_MALFORMED;
		end = be32_to_cpu(range.seq) - rcv_nxt + len + fin;
	}
	return at == state->ranged ? FLT_REFUSE_NONE : FLT_REFUSE_MALFORMED;
}

/* What is not acknowledged is not before a FIN that is, nor what is not sent before a sent one. */
static bool flt_end_ok(const struct flt_state *state)
{
	if (state->end == FLT_END_ACKED)
		return !flt_state_queued(state) && !(state->flags & FLT_WIRE_FIN);
	return state->end != FLT_END_SENT || state->snd_nxt == state->write_seq;
}

enum flt_refusal flt_wire_decode(const void *buf, u32 len, struct flt_state *state,
				 struct flt_streams *data)
{
	struct flt_sections found = {};
	enum flt_refusal why;
	u32 at;

	*state = (struct flt_state){};
	why = flt_head_check(buf, len, &at);
	if (why == FLT_REFUSE_NONE)
		why = flt_sections_find(buf, at, len, &found);
	if (why != FLT_REFUSE_NONE)
		return why;
	why = flt_sections_read(&found, state);
	if (why == FLT_REFUSE_NONE)
		why = flt_ranges_read(&found, state);
	if (why != FLT_REFUSE_NONE)
		return why;
	if (!flt_end_ok(state))
		return FLT_REFUSE_MALFORMED;
	if (!flt_tuple_ok(&state->tuple) || !flt_options_ok(state) || !flt_windows_ok(state) ||
	    !flt_times_ok(state) || !flt_congestion_ok(state))
		return FLT_REFUSE_MALFORMED;
	data->unread = found.body[FLT_SECTION_DATA];
	data->sent = found.body[FLT_SECTION_SENDDATA];
	data->tls = found.body[FLT_SECTION_TLS];
	data->ranges = found.body[FLT_SECTION_RANGES];
	data->ranged = found.body[FLT_SECTION_RANGEDATA];
	return FLT_REFUSE_NONE;
}

void flt_checkpoint_with_tls(const struct flt_checkpoint *ckpt, const struct flt_tls *tls,
			     struct flt_tls_wire *buf, struct kvec *vec)
{
	struct flt_wire_head *head = (struct flt_wire_head *)buf->head;
	struct flt_section section = FLT_CRITICAL(FLT_SECTION_TLS, struct flt_wire_tls);
	struct flt_wire_tls wire = {
		.version = cpu_to_be16(tls->version),
		.cipher = cpu_to_be16(tls->cipher),
		.port = cpu_to_be16(tls->port),
		.tx = tls->tx,
		.rx = tls->rx,
	};

	static_assert(sizeof(buf->head) == sizeof(*head));
	static_assert(sizeof(buf->section) == sizeof(section) + sizeof(wire));
	memcpy(buf->head, ckpt->wire, sizeof(*head));
	head->total_len = cpu_to_be32(ckpt->len + sizeof(buf->section));
	memcpy(buf->section, &section, sizeof(section));
	memcpy(buf->section + sizeof(section), &wire, sizeof(wire));
	memzero_explicit(&wire, sizeof(wire));
	vec[0] = (struct kvec){ buf->head, sizeof(buf->head) };
	vec[1] = (struct kvec){ (void *)ckpt->wire + sizeof(*head), ckpt->len - sizeof(*head) };
	vec[2] = (struct kvec){ buf->section, sizeof(buf->section) };
}
EXPORT_SYMBOL_GPL(flt_checkpoint_with_tls);

/* Sizes of the kernel's interface: a key of zero bytes is no cipher of ours. */
unsigned int flt_tls_key_size(u16 cipher)
{
	switch (cipher) {
	case TLS_CIPHER_AES_GCM_128:
		return TLS_CIPHER_AES_GCM_128_KEY_SIZE;
	case TLS_CIPHER_AES_GCM_256:
		return TLS_CIPHER_AES_GCM_256_KEY_SIZE;
	case TLS_CIPHER_CHACHA20_POLY1305:
		return TLS_CIPHER_CHACHA20_POLY1305_KEY_SIZE;
	default:
		return 0;
	}
}

bool flt_tls_ok(const struct flt_tls *tls)
{
	unsigned int size = flt_tls_key_size(tls->cipher);

	return tls->version == TLS_1_3_VERSION && size && !tls->pad &&
	       !memchr_inv(tls->tx.key + size, 0, sizeof(tls->tx.key) - size) &&
	       !memchr_inv(tls->rx.key + size, 0, sizeof(tls->rx.key) - size);
}
EXPORT_SYMBOL_GPL(flt_tls_ok);

enum flt_refusal flt_wire_tls_read(const void *at, struct flt_tls *tls)
{
	struct flt_wire_tls wire;
	enum flt_refusal why = FLT_REFUSE_NONE;

	memcpy(&wire, at, sizeof(wire));
	*tls = (struct flt_tls){
		.version = be16_to_cpu(wire.version),
		.cipher = be16_to_cpu(wire.cipher),
		.port = be16_to_cpu(wire.port),
		.tx = wire.tx,
		.rx = wire.rx,
	};
	if (wire.zero)
		why = FLT_REFUSE_MALFORMED;
	else if (tls->version != TLS_1_3_VERSION || !flt_tls_key_size(tls->cipher))
		why = FLT_REFUSE_KTLS;
	else if (!flt_tls_ok(tls))
		why = FLT_REFUSE_MALFORMED;
	memzero_explicit(&wire, sizeof(wire));
	return why;
}
