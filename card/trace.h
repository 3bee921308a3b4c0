/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoints: one at each decision about a disk or a request. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM card

#if !defined(CARD_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define CARD_TRACE_H

#include <linux/tracepoint.h>
#include "cache.h"
#include "disk.h"
#include "kmod/node.h"
#include "wire.h"

#define card_show_op(op) __print_symbolic(op,		\
	{ CARD_OP_READ,			"read" },	\
	{ CARD_OP_WRITE,		"write" },	\
	{ CARD_OP_FLUSH,		"flush" })

#define card_show_source(source) __print_symbolic(source,	\
	{ CARD_SOURCE_DISK,		"disk" },		\
	{ CARD_SOURCE_CACHE,		"cache" },		\
	{ CARD_SOURCE_PEER,		"peer" })

#define card_show_state(state) __print_symbolic(state,	\
	{ CARD_STATE_WAITING,		"waiting" },	\
	{ CARD_STATE_LIVE,		"live" },	\
	{ CARD_STATE_REFUSED,		"refused" },	\
	{ CARD_STATE_DEAD,		"dead" })

#define card_show_deliver(mode) __print_symbolic(mode,	\
	{ CARD_DELIVER_EVENT,		"event" },	\
	{ CARD_DELIVER_ASYNC,		"async" },	\
	{ CARD_DELIVER_SYNC,		"sync" })

#define card_show_flags(flags) __print_flags(flags, "|",	\
	{ CARD_REQ_KEEP,		"keep" },		\
	{ CARD_REQ_NOLOOKUP,		"nolookup" },		\
	{ CARD_REQ_FILE,		"file" },		\
	{ CARD_REQ_RAHEAD,		"rahead" },		\
	{ CARD_REQ_FORWARDED,		"forwarded" },		\
	{ CARD_REQ_NOCOOP,		"nocoop" },		\
	{ CARD_REQ_FUA,			"fua" })

TRACE_EVENT(card_state,
	TP_PROTO(const struct card_disk *disk, u8 from, u8 to, int why),
	TP_ARGS(disk, from, to, why),
	TP_STRUCT__entry(
		__field(unsigned int, netns)
		__field(u32, id)
		__string(node, disk->spec.node)
		__string(export, disk->spec.export)
		__field(u8, from)
		__field(u8, to)
		__field(int, why)
	),
	TP_fast_assign(
		__entry->netns = disk->cn->net->ns.inum;
		__entry->id = disk->id;
		__assign_str(node);
		__assign_str(export);
		__entry->from = from;
		__entry->to = to;
		__entry->why = why;
	),
	TP_printk("netns=%u disk=%u node=%s export=%s from=%s to=%s why=%d",
		  __entry->netns, __entry->id, __get_str(node), __get_str(export),
		  card_show_state(__entry->from), card_show_state(__entry->to), __entry->why)
);

TRACE_EVENT(card_attach,
	TP_PROTO(const struct flt_node *node, const char *export, int err),
	TP_ARGS(node, export, err),
	TP_STRUCT__entry(
		__field(unsigned int, netns)
		__string(node, node->name)
		__string(export, export)
		__field(int, err)
	),
	TP_fast_assign(
		__entry->netns = node->net->ns.inum;
		__assign_str(node);
		__assign_str(export);
		__entry->err = err;
	),
	TP_printk("netns=%u node=%s export=%s err=%d", __entry->netns, __get_str(node),
		  __get_str(export), __entry->err)
);

TRACE_EVENT(card_send,
	TP_PROTO(const struct card_disk *disk, const struct card_wire_block *ask),
	TP_ARGS(disk, ask),
	TP_STRUCT__entry(
		__field(u32, id)
		__field(u32, tag)
		__field(u32, gen)
		__field(u8, op)
		__field(u16, flags)
		__field(u64, sector)
		__field(u32, bytes)
	),
	TP_fast_assign(
		__entry->id = disk->id;
		__entry->tag = be32_to_cpu(ask->tag);
		__entry->gen = be32_to_cpu(ask->gen);
		__entry->op = ask->op;
		__entry->flags = be16_to_cpu(ask->flags);
		__entry->sector = be64_to_cpu(ask->sector);
		__entry->bytes = be32_to_cpu(ask->bytes);
	),
	TP_printk("disk=%u tag=%u gen=%u op=%s flags=%s sector=%llu bytes=%u",
		  __entry->id, __entry->tag, __entry->gen, card_show_op(__entry->op),
		  card_show_flags(__entry->flags), __entry->sector, __entry->bytes)
);

TRACE_EVENT(card_forward,
	TP_PROTO(const struct flt_node *to, const struct card_wire_block *ask, int err),
	TP_ARGS(to, ask, err),
	TP_STRUCT__entry(
		__field(unsigned int, netns)
		__string(node, to->name)
		__field(u64, sector)
		__field(u16, origin)
		__field(u8, hops)
		__field(int, err)
	),
	TP_fast_assign(
		__entry->netns = to->net->ns.inum;
		__assign_str(node);
		__entry->sector = be64_to_cpu(ask->sector);
		__entry->origin = be16_to_cpu(ask->origin);
		__entry->hops = ask->depth;
		__entry->err = err;
	),
	TP_printk("netns=%u to=%s sector=%llu origin=%u hops_left=%u err=%d", __entry->netns,
		  __get_str(node), __entry->sector, __entry->origin, __entry->hops, __entry->err)
);

TRACE_EVENT(card_saved,
	TP_PROTO(const struct card_cache *cache, const struct card_ask *ask, u16 place, bool kept),
	TP_ARGS(cache, ask, place, kept),
	TP_STRUCT__entry(
		__field(unsigned int, netns)
		__field(u64, block)
		__field(u16, origin)
		__field(u16, place)
		__field(u8, kind)
		__field(u8, depth)
		__field(bool, kept)
	),
	TP_fast_assign(
		__entry->netns = cache->cn->net->ns.inum;
		__entry->block = ask->block;
		__entry->origin = ask->origin;
		__entry->place = place;
		__entry->kind = ask->kind;
		__entry->depth = ask->depth;
		__entry->kept = kept;
	),
	TP_printk("netns=%u block=%llu origin=%u kind=%s depth=%u place=%u kept=%d",
		  __entry->netns, __entry->block, __entry->origin,
		  __entry->kind == CARD_SAVE_RECENT ? "recent" : "singlet", __entry->depth,
		  __entry->place, __entry->kept)
);

TRACE_EVENT(card_data,
	TP_PROTO(const struct card_disk *disk, const struct card_wire_block *reply, u64 total_ns,
		 u64 copy_ns, u32 service_ns, u32 disk_us),
	TP_ARGS(disk, reply, total_ns, copy_ns, service_ns, disk_us),
	TP_STRUCT__entry(
		__field(u32, id)
		__field(u32, tag)
		__field(u64, sector)
		__field(u32, bytes)
		__field(u8, source)
		__field(u64, total_ns)
		__field(u64, copy_ns)
		__field(u32, service_ns)
		__field(u32, disk_us)
	),
	TP_fast_assign(
		__entry->id = disk->id;
		__entry->tag = be32_to_cpu(reply->tag);
		__entry->sector = be64_to_cpu(reply->sector);
		__entry->bytes = be32_to_cpu(reply->bytes);
		__entry->source = reply->source;
		__entry->total_ns = total_ns;
		__entry->copy_ns = copy_ns;
		__entry->service_ns = service_ns;
		__entry->disk_us = disk_us;
	),
	TP_printk("disk=%u tag=%u sector=%llu bytes=%u source=%s total_ns=%llu copy_ns=%llu service_ns=%u disk_us=%u",
		  __entry->id, __entry->tag, __entry->sector, __entry->bytes,
		  card_show_source(__entry->source), __entry->total_ns, __entry->copy_ns,
		  __entry->service_ns, __entry->disk_us)
);

TRACE_EVENT(card_complete,
	TP_PROTO(const struct card_disk *disk, const struct request *rq, blk_status_t status,
		 u64 total_ns, u32 tries),
	TP_ARGS(disk, rq, status, total_ns, tries),
	TP_STRUCT__entry(
		__field(u32, id)
		__field(u32, tag)
		__field(u64, sector)
		__field(u32, bytes)
		__field(u8, status)
		__field(u64, total_ns)
		__field(u32, tries)
	),
	TP_fast_assign(
		__entry->id = disk->id;
		__entry->tag = rq->tag;
		__entry->sector = blk_rq_pos(rq);
		__entry->bytes = blk_rq_bytes(rq);
		__entry->status = (__force u8)status;
		__entry->total_ns = total_ns;
		__entry->tries = tries;
	),
	TP_printk("disk=%u tag=%u sector=%llu bytes=%u status=%u total_ns=%llu tries=%u",
		  __entry->id, __entry->tag, __entry->sector, __entry->bytes, __entry->status,
		  __entry->total_ns, __entry->tries)
);

TRACE_EVENT(card_serve,
	TP_PROTO(const struct flt_node *node, const struct card_wire_block *ask, u8 source,
		 u8 deliver, u64 service_ns, u64 disk_ns),
	TP_ARGS(node, ask, source, deliver, service_ns, disk_ns),
	TP_STRUCT__entry(
		__field(unsigned int, netns)
		__string(node, node->name)
		__field(u32, export)
		__field(u64, sector)
		__field(u32, bytes)
		__field(u16, flags)
		__field(u8, source)
		__field(u8, deliver)
		__field(bool, softirq)
		__field(u64, service_ns)
		__field(u64, disk_ns)
	),
	TP_fast_assign(
		__entry->netns = node->net->ns.inum;
		__assign_str(node);
		__entry->export = be32_to_cpu(ask->export);
		__entry->sector = be64_to_cpu(ask->sector);
		__entry->bytes = be32_to_cpu(ask->bytes);
		__entry->flags = be16_to_cpu(ask->flags);
		__entry->source = source;
		__entry->deliver = deliver;
		__entry->softirq = in_serving_softirq();
		__entry->service_ns = service_ns;
		__entry->disk_ns = disk_ns;
	),
	TP_printk("netns=%u node=%s export=%u sector=%llu bytes=%u flags=%s source=%s deliver=%s softirq=%d service_ns=%llu disk_ns=%llu",
		  __entry->netns, __get_str(node), __entry->export, __entry->sector,
		  __entry->bytes, card_show_flags(__entry->flags),
		  card_show_source(__entry->source), card_show_deliver(__entry->deliver),
		  __entry->softirq, __entry->service_ns, __entry->disk_ns)
);

TRACE_EVENT(card_refuse,
	TP_PROTO(const struct flt_node *node, const struct card_wire_block *ask, int err),
	TP_ARGS(node, ask, err),
	TP_STRUCT__entry(
		__field(unsigned int, netns)
		__string(node, node->name)
		__field(u32, export)
		__field(u8, op)
		__field(u64, sector)
		__field(u32, bytes)
		__field(int, err)
	),
	TP_fast_assign(
		__entry->netns = node->net->ns.inum;
		__assign_str(node);
		__entry->export = be32_to_cpu(ask->export);
		__entry->op = ask->op;
		__entry->sector = be64_to_cpu(ask->sector);
		__entry->bytes = be32_to_cpu(ask->bytes);
		__entry->err = err;
	),
	TP_printk("netns=%u node=%s export=%u op=%s sector=%llu bytes=%u err=%d",
		  __entry->netns, __get_str(node), __entry->export, card_show_op(__entry->op),
		  __entry->sector, __entry->bytes, __entry->err)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
