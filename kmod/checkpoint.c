// SPDX-License-Identifier: GPL-2.0
/* Checkpoints: the state of an endpoint as bytes, and back, trusting nothing. */
#include <linux/string.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/tcp.h>
#include "checkpoint.h"

/* A window cannot be larger than 16 bits shifted by the largest scale. */
#define FLT_WINDOW_MAX	((u32)U16_MAX << TCP_MAX_WSCALE)
/* Sequence numbers further apart than this are not of one connection. */
#define FLT_SEQ_SPAN	BIT(30)
/* Sixteen minutes, in the largest unit used (an eighth of a microsecond). */
#define FLT_RTT_MAX	S32_MAX

#define FLT_ECN_FLAGS	(TCP_ECN_OK | TCP_ECN_QUEUE_CWR | TCP_ECN_DEMAND_CWR | TCP_ECN_SEEN)

void flt_wire_encode(struct flt_wire *wire, const struct flt_state *state)
{
	*wire = (struct flt_wire){
		.magic = cpu_to_be32(FLT_WIRE_MAGIC),
		.version = cpu_to_be16(FLT_WIRE_VERSION),
		.header_len = cpu_to_be16(sizeof(*wire)),
		.total_len = cpu_to_be32(sizeof(*wire) + state->unread),
		.flags = cpu_to_be32(state->flags),
		.family = cpu_to_be16(state->tuple.family == AF_INET ? 4 : 6),
		.client_port = state->tuple.client_port,
		.server_port = state->tuple.server_port,
		.mss_clamp = cpu_to_be16(state->mss_clamp),
		.snd_wscale = state->snd_wscale,
		.rcv_wscale = state->rcv_wscale,
		.ecn_flags = state->ecn_flags,
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
		.ts_recent = cpu_to_be32(state->ts_recent),
		.ts_recent_age = cpu_to_be32(state->ts_recent_age),
		.tsval = cpu_to_be32(state->tsval),
		.srtt_us = cpu_to_be32(state->srtt_us),
		.mdev_us = cpu_to_be32(state->mdev_us),
		.rttvar_us = cpu_to_be32(state->rttvar_us),
		.rtt_min_us = cpu_to_be32(state->rtt_min_us),
	};
	memcpy(wire->client, state->tuple.client, sizeof(wire->client));
	memcpy(wire->server, state->tuple.server, sizeof(wire->server));
}

void flt_wire_progress(const struct flt_wire *wire, struct flt_state *state)
{
	memset(&state->tuple, 0, sizeof(state->tuple));
	state->tuple.family = wire->family == cpu_to_be16(4) ? AF_INET : AF_INET6;
	state->tuple.client_port = wire->client_port;
	state->tuple.server_port = wire->server_port;
	memcpy(state->tuple.client, wire->client, sizeof(wire->client));
	memcpy(state->tuple.server, wire->server, sizeof(wire->server));
	state->flags = be32_to_cpu(wire->flags);
	state->snd_una = be32_to_cpu(wire->snd_una);
	state->snd_wnd = be32_to_cpu(wire->snd_wnd);
	state->rcv_start = be32_to_cpu(wire->rcv_start);
	state->unread = be32_to_cpu(wire->unread);
	state->rcv_wup = be32_to_cpu(wire->rcv_wup);
	state->rcv_wnd = be32_to_cpu(wire->rcv_wnd);
}

static void flt_wire_read(const struct flt_wire *wire, struct flt_state *state)
{
	*state = (struct flt_state){
		.mss_clamp = be16_to_cpu(wire->mss_clamp),
		.snd_wscale = wire->snd_wscale,
		.rcv_wscale = wire->rcv_wscale,
		.ecn_flags = wire->ecn_flags,
		.snd_wl1 = be32_to_cpu(wire->snd_wl1),
		.max_window = be32_to_cpu(wire->max_window),
		.rcv_ssthresh = be32_to_cpu(wire->rcv_ssthresh),
		.window_clamp = be32_to_cpu(wire->window_clamp),
		.ts_recent = be32_to_cpu(wire->ts_recent),
		.ts_recent_age = be32_to_cpu(wire->ts_recent_age),
		.tsval = be32_to_cpu(wire->tsval),
		.srtt_us = be32_to_cpu(wire->srtt_us),
		.mdev_us = be32_to_cpu(wire->mdev_us),
		.rttvar_us = be32_to_cpu(wire->rttvar_us),
		.rtt_min_us = be32_to_cpu(wire->rtt_min_us),
	};
	flt_wire_progress(wire, state);
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
	if (state->ecn_flags && !(state->ecn_flags & TCP_ECN_OK))
		return false;
	return state->mss_clamp != 0;
}

static bool flt_windows_ok(const struct flt_state *state)
{
	u32 rcv_nxt = flt_state_rcv_nxt(state);

	if (state->unread > FLT_CHECKPOINT_DATA_MAX)
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

static bool flt_times_ok(const struct flt_state *state)
{
	return state->srtt_us <= FLT_RTT_MAX && state->mdev_us <= FLT_RTT_MAX &&
	       state->rttvar_us <= FLT_RTT_MAX && state->ts_recent_age <= S32_MAX;
}

enum flt_refusal flt_wire_decode(const void *buf, u32 len, struct flt_state *state,
				 const void **data)
{
	struct flt_wire wire;

	/* The first eight bytes are the same in every version. */
	if (len < offsetofend(struct flt_wire, header_len))
		return FLT_REFUSE_MALFORMED;
	memcpy(&wire, buf, min_t(size_t, len, sizeof(wire)));
	if (wire.magic != cpu_to_be32(FLT_WIRE_MAGIC))
		return FLT_REFUSE_MALFORMED;
	if (wire.version != cpu_to_be16(FLT_WIRE_VERSION))
		return FLT_REFUSE_VERSION;
	if (len < sizeof(wire) || wire.header_len != cpu_to_be16(sizeof(wire)) ||
	    wire.total_len != cpu_to_be32(len) || wire.reserved)
		return FLT_REFUSE_MALFORMED;
	if (wire.family != cpu_to_be16(4) && wire.family != cpu_to_be16(6))
		return FLT_REFUSE_MALFORMED;

	flt_wire_read(&wire, state);
	if (state->unread != len - sizeof(wire))
		return FLT_REFUSE_MALFORMED;
	if (!flt_tuple_ok(&state->tuple) || !flt_options_ok(state) || !flt_windows_ok(state) ||
	    !flt_times_ok(state))
		return FLT_REFUSE_MALFORMED;
	*data = buf + sizeof(wire);
	return FLT_REFUSE_NONE;
}
