// SPDX-License-Identifier: GPL-2.0
/*
 * A channel's receiving side: bytes to frames, frames to handlers, in order.
 * Nothing in a frame is believed: a length is compared with what that type may
 * have before anything is allocated for it.
 */

#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <net/sock.h>
#include "auth.h"
#include "chan.h"
#include "counter.h"
#include "linkwork.h"
#include "report.h"
#include "trace.h"

/* Buffers read before the worker lets others run. */
#define FLT_RX_BUDGET	16

static void flt_rx_refuse(struct flt_chan *chan, u8 type, u32 len, enum flt_why why)
{
	static const u8 counters[] = {
		[FLT_WHY_MAGIC]		= FLT_BAD_MAGIC,
		[FLT_WHY_VERSION]	= FLT_BAD_VERSION,
		[FLT_WHY_LENGTH]	= FLT_BAD_LENGTH,
		[FLT_WHY_TYPE]		= FLT_BAD_TYPE,
		[FLT_WHY_BODY]		= FLT_BAD_BODY,
		[FLT_WHY_NAME]		= FLT_REFUSED_NAME,
	};

	if (why < ARRAY_SIZE(counters) && counters[why])
		flt_count(chan->fn, counters[why]);
	trace_flt_msg_refused(chan->link->node, type, len, why);
	flt_chan_fail(chan, why);
}

static enum flt_why flt_rx_hello(struct flt_chan *chan, const void *body, u32 len)
{
	const struct flt_hello_more *more = body + sizeof(struct flt_hello);
	const struct flt_hello *hello = body;

	/* Another version's HELLO may be anything; magic and version come first. */
	if (len < offsetofend(struct flt_hello, version))
		return FLT_WHY_LENGTH;
	if (hello->magic != cpu_to_be32(FLT_FRAME_MAGIC))
		return FLT_WHY_MAGIC;
	if (hello->version != cpu_to_be16(FLT_FRAME_VERSION))
		return FLT_WHY_VERSION;
	if (len != sizeof(*hello) && len < sizeof(*hello) + sizeof(*more))
		return FLT_WHY_LENGTH;
	if (hello->zero || !hello->heartbeat_ms || !hello->instance ||
	    strnlen(hello->name, sizeof(hello->name)) == sizeof(hello->name))
		return FLT_WHY_BODY;
	if (strcmp(hello->name, chan->link->node->name))
		return FLT_WHY_NAME;
	chan->peer = *hello;
	chan->more = len > sizeof(*hello);
	chan->features = chan->more ? be64_to_cpu(more->features) : 0;
	return FLT_WHY_NONE;
}

static enum flt_why flt_rx_reject(struct flt_chan *chan, const struct flt_msg *msg)
{
	const struct flt_reject *reject = msg->body;

	if (msg->len != sizeof(*reject))
		return FLT_WHY_LENGTH;
	if (chan->outbound && chan->more && be32_to_cpu(reject->why) == FLT_WHY_LENGTH &&
	    READ_ONCE(chan->state) == FLT_CHAN_HELLO)
		WRITE_ONCE(chan->link->brief, true);
	pr_warn_ratelimited("node %s refuses our link: %s\n", chan->link->node->name,
			    flt_why_name(be32_to_cpu(reject->why)));
	return FLT_WHY_REJECTED;
}

/* The first frame; the link's work decides what becomes of the channel then. */
static void flt_rx_first(struct flt_chan *chan, const struct flt_msg *msg)
{
	enum flt_why why = FLT_WHY_TYPE;

	if (msg->type == FLT_FRAME_REJECT)
		why = flt_rx_reject(chan, msg);
	else if (msg->type == FLT_FRAME_HELLO)
		why = flt_rx_hello(chan, msg->body, msg->len);
	if (why) {
		flt_rx_refuse(chan, msg->type, msg->len, why);
		return;
	}
	WRITE_ONCE(chan->state, FLT_CHAN_GREETED);
	flt_link_kick(chan->link);
}

static void flt_rx_pong(struct flt_chan *chan, const struct flt_ping *ping)
{
	u64 now = ktime_get_ns(), then = be64_to_cpu(ping->stamp);

	/* A stamp that is not ours tells nothing; only the peer itself can send one. */
	if (then >= now)
		return;
	if (then > READ_ONCE(chan->ponged)) {
		WRITE_ONCE(chan->ponged, then);
		/* Somebody may wait for it. */
		if (READ_ONCE(chan->challenged))
			flt_link_kick(chan->link);
	}
	WRITE_ONCE(chan->link->rtt_us, min_t(u64, (now - then) / 1000, U32_MAX));
}

static enum flt_why flt_rx_absent(struct flt_chan *chan, const struct flt_msg *msg)
{
	const struct flt_absent *absent = msg->body;

	if (msg->len != sizeof(*absent))
		return FLT_WHY_LENGTH;
	if (absent->type < 16 || absent->zero[0] || absent->zero[1] || absent->zero[2])
		return FLT_WHY_BODY;
	flt_handle_absent(chan, absent->type);
	return FLT_WHY_NONE;
}

static enum flt_why flt_rx_own(struct flt_chan *chan, const struct flt_msg *msg)
{
	switch (msg->type) {
	case FLT_FRAME_PING:
	case FLT_FRAME_PONG:
		if (msg->len != sizeof(struct flt_ping))
			return FLT_WHY_LENGTH;
		if (msg->type == FLT_FRAME_PONG) {
			flt_rx_pong(chan, msg->body);
			return FLT_WHY_NONE;
		}
		flt_chan_say_pong(chan, msg->body);
		flt_report_say(chan, msg->body);
		return FLT_WHY_NONE;
	case FLT_FRAME_REPORT:
		return flt_report_take(chan->link, msg->body, msg->len);
	case FLT_FRAME_ABSENT:
		return flt_rx_absent(chan, msg);
	case FLT_FRAME_REJECT:
		return flt_rx_reject(chan, msg);
	default:
		return FLT_WHY_TYPE;
	}
}

static void flt_rx_message(struct flt_chan *chan, u8 type, const void *body, u32 len)
{
	struct flt_msg msg = { .type = type, .len = len, .body = body };
	enum flt_why why = FLT_WHY_NONE;
	int err;

	WRITE_ONCE(chan->whole, jiffies);
	if (READ_ONCE(chan->state) == FLT_CHAN_HELLO) {
		flt_rx_first(chan, &msg);
		return;
	}
	if (type < 16) {
		why = flt_rx_own(chan, &msg);
	} else {
		flt_count(chan->fn, FLT_MSG_IN);
		WRITE_ONCE(chan->handling, true);
		err = flt_handle(chan, &msg);
		WRITE_ONCE(chan->heard, jiffies);
		WRITE_ONCE(chan->handling, false);
		if (err == -EPROTONOSUPPORT)
			why = FLT_WHY_TYPE;
		else if (err < 0)
			why = FLT_WHY_BODY;
	}
	if (why)
		flt_rx_refuse(chan, type, len, why);
}

static bool flt_rx_open(const struct flt_chan *chan)
{
	u8 state = READ_ONCE(chan->state);

	return (state == FLT_CHAN_HELLO || state == FLT_CHAN_UP) && !READ_ONCE(chan->why);
}

/* What a head promises, checked before a byte of it is awaited. */
static enum flt_why flt_rx_check_head(const struct flt_chan *chan, const struct flt_frame *head)
{
	u32 max = FLT_MSG_MAX;

	if (READ_ONCE(chan->state) == FLT_CHAN_HELLO)
		max = FLT_HELLO_MAX;
	else if (head->type == FLT_FRAME_REPORT)
		max = FLT_REPORT_MAX;
	else if (head->type < 16)
		max = sizeof(struct flt_ping);
	if (be32_to_cpu(head->len) > max)
		return FLT_WHY_LENGTH;
	if (head->zero[0] || head->zero[1] || head->zero[2])
		return FLT_WHY_BODY;
	return FLT_WHY_NONE;
}

/* A message larger than the buffer: the rest is received where it belongs. */
static void flt_rx_begin_big(struct flt_chan *chan, u8 type, u32 len, const u8 *have, u32 nr)
{
	struct mem_cgroup *old = set_active_memcg(chan->link->memcg);

	chan->big = kvmalloc(len, GFP_NOIO | __GFP_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
	set_active_memcg(old);
	if (!chan->big) {
		flt_chan_fail(chan, FLT_WHY_NOMEM);
		return;
	}
	memcpy(chan->big, have, nr);
	if (flt_msg_is_secret(type))
		memzero_explicit(chan->buf, FLT_RX_SIZE);
	chan->big_type = type;
	chan->big_len = len;
	chan->big_have = nr;
	chan->have = 0;
}

static void flt_rx_end_sink(struct flt_chan *chan)
{
	int err;

	WRITE_ONCE(chan->handling, true);
	err = flt_handle_sunk(chan, 0);
	WRITE_ONCE(chan->heard, jiffies);
	WRITE_ONCE(chan->whole, jiffies);
	WRITE_ONCE(chan->handling, false);
	if (err)
		flt_rx_refuse(chan, 0, 0, FLT_WHY_BODY);
}

/*
 * The head of a bulk message is at @body, @have bytes of the message are there.
 * The rest of the data is received where its handler wants it. Returns how many
 * bytes were used.
 */
static u32 flt_rx_begin_sink(struct flt_chan *chan, u8 type, u32 len, const u8 *body, u32 have,
			     u32 bulk_head)
{
	struct flt_msg msg = { .type = type, .len = len, .body = body };
	u32 data = len - bulk_head, here = min(have - bulk_head, data);
	int err;

	flt_count(chan->fn, FLT_MSG_IN);
	iov_iter_discard(&chan->sink.iter, ITER_DEST, data);
	chan->sink.type = type;
	WRITE_ONCE(chan->handling, true);
	err = flt_handle_sink(chan, &msg);
	WRITE_ONCE(chan->handling, false);
	if (!err && iov_iter_count(&chan->sink.iter) < data)
		err = -EIO;
	if (err) {
		flt_rx_refuse(chan, type, len, FLT_WHY_BODY);
		return 0;
	}
	if (copy_to_iter(body + bulk_head, here, &chan->sink.iter) != here) {
		flt_chan_fail(chan, FLT_WHY_NOMEM);
		return 0;
	}
	chan->sink_left = data - here;
	if (!chan->sink_left)
		flt_rx_end_sink(chan);
	return bulk_head + here;
}

/*
 * The head of a message that is larger than the buffer, @have bytes of it are at @body. No memory
 * for one that nobody takes. Returns how many bytes were used, if the next one begins behind them.
 */
static u32 flt_rx_begin_long(struct flt_chan *chan, u8 type, u32 len, u8 *body, u32 have)
{
	int takes = flt_handler_takes(type);

	if (takes < 0) {
		flt_rx_refuse(chan, type, len, FLT_WHY_TYPE);
		return 0;
	}
	if (takes) {
		flt_rx_begin_big(chan, type, len, body, have);
		return 0;
	}
	flt_count(chan->fn, FLT_MSG_IN);
	flt_handler_missing(chan, type);
	iov_iter_discard(&chan->sink.iter, ITER_DEST, len - have);
	chan->sink_left = len - have;
	if (flt_msg_is_secret(type))
		memzero_explicit(body, have);
	return have;
}

/* The rest, from @off on, moves to the start: what is secret of it is not left behind, too. */
static void flt_rx_shift(struct flt_chan *chan, u32 off)
{
	const struct flt_frame *head = (const struct flt_frame *)chan->buf;

	chan->have -= off;
	if (!off || !chan->have)
		return;
	memmove(chan->buf, chan->buf + off, chan->have);
	if (chan->have > sizeof(*head) && flt_msg_is_secret(head->type))
		memzero_explicit(chan->buf + chan->have, off);
}

/* Delivers the whole frames in the buffer and moves the rest to its start. */
static void flt_rx_parse(struct flt_chan *chan)
{
	u32 off = 0, len, bulk_head;
	struct flt_frame head;
	enum flt_why why;

	while (flt_rx_open(chan) && !chan->sink_left && chan->have - off >= sizeof(head)) {
		memcpy(&head, chan->buf + off, sizeof(head));
		len = be32_to_cpu(head.len);
		why = flt_rx_check_head(chan, &head);
		if (why) {
			flt_rx_refuse(chan, head.type, len, why);
			return;
		}
		bulk_head = READ_ONCE(chan->state) == FLT_CHAN_UP ?
			    flt_handler_bulk_head(head.type) : 0;
		if (bulk_head && len < bulk_head) {
			flt_rx_refuse(chan, head.type, len, FLT_WHY_LENGTH);
			return;
		}
		chan->bulky = len > bulk_head ? bulk_head : 0;
		if (chan->bulky) {
			if (chan->have - off < sizeof(head) + bulk_head)
				break;
			off += sizeof(head);
			off += flt_rx_begin_sink(chan, head.type, len, chan->buf + off,
						 chan->have - off, bulk_head);
			continue;
		}
		if (sizeof(head) + len > FLT_RX_SIZE) {
			off += sizeof(head);
			off += flt_rx_begin_long(chan, head.type, len, chan->buf + off,
						 chan->have - off);
			if (chan->big)
				return;
			continue;
		}
		if (chan->have - off < sizeof(head) + len)
			break;
		flt_rx_message(chan, head.type, chan->buf + off + sizeof(head), len);
		if (flt_msg_is_secret(head.type))
			memzero_explicit(chan->buf + off + sizeof(head), len);
		off += sizeof(head) + len;
	}
	flt_rx_shift(chan, off);
}

static void flt_rx_end_big(struct flt_chan *chan)
{
	void *body = chan->big;

	chan->big = NULL;
	flt_rx_message(chan, chan->big_type, body, chan->big_len);
	if (flt_msg_is_secret(chan->big_type))
		memzero_explicit(body, chan->big_len);
	kvfree(body);
}

/* Room for the next read into the buffer. */
static u32 flt_rx_room(const struct flt_chan *chan)
{
	u32 head = sizeof(struct flt_frame) + chan->bulky;

	/* What is read past a bulk message's head has to be copied a second time. */
	if (chan->bulky && chan->have < head)
		return head - chan->have;
	return FLT_RX_SIZE - chan->have;
}

/* Where the next bytes go. */
static void flt_rx_where(struct flt_chan *chan, struct kvec *vec, struct iov_iter *iter)
{
	if (chan->sink_left) {
		*iter = chan->sink.iter;
		iov_iter_truncate(iter, chan->sink_left);
		return;
	}
	if (chan->big) {
		vec->iov_base = chan->big + chan->big_have;
		vec->iov_len = chan->big_len - chan->big_have;
	} else {
		vec->iov_base = chan->buf + chan->have;
		vec->iov_len = flt_rx_room(chan);
	}
	iov_iter_kvec(iter, ITER_DEST, vec, 1, vec->iov_len);
}

/*
 * TCP has given less than asked: what comes now rings data_ready, and the work
 * runs again. Not so with TLS, which gives a record, nor behind a FIN, which
 * may have rung already.
 */
static bool flt_rx_is_empty(const struct flt_chan *chan)
{
	const struct sock *sk = chan->sock->sk;

	return chan->auth == FLT_AUTH_NONE && !READ_ONCE(sk->sk_shutdown) && !READ_ONCE(sk->sk_err);
}

/* Of a long message each part is given the time of a short one. */
static void flt_rx_progress(struct flt_chan *chan, u32 left, u32 n)
{
	if ((left + n) / FLT_MSG_SMALL != left / FLT_MSG_SMALL)
		WRITE_ONCE(chan->whole, jiffies);
}

static void flt_rx_took(struct flt_chan *chan, u32 n)
{
	if (chan->sink_left) {
		iov_iter_advance(&chan->sink.iter, n);
		chan->sink_left -= n;
		/* Whoever unregisters a handler that waits for the data waits, too. */
		if (!chan->sinker)
			flt_rx_progress(chan, chan->sink_left, n);
		if (!chan->sink_left)
			flt_rx_end_sink(chan);
	} else if (chan->big) {
		chan->big_have += n;
		flt_rx_progress(chan, chan->big_len - chan->big_have, n);
		if (chan->big_have == chan->big_len)
			flt_rx_end_big(chan);
	} else {
		chan->have += n;
		flt_rx_parse(chan);
	}
}

/* Reads once. False: nothing more now, or the channel is over. */
static bool flt_rx_read(struct flt_chan *chan)
{
	struct iov_iter iter;
	struct kvec vec;
	size_t room;
	bool more;
	int n;

	flt_rx_where(chan, &vec, &iter);
	room = iov_iter_count(&iter);
	n = flt_auth_recv(chan, &iter);
	if (n == -EAGAIN)
		return false;
	if (n == -ENOMSG) {
		flt_rx_refuse(chan, 0, 0, FLT_WHY_TYPE);
		return false;
	}
	if (n <= 0) {
		flt_chan_fail(chan, FLT_WHY_CLOSED);
		return false;
	}
	WRITE_ONCE(chan->heard, jiffies);
	if (!chan->partial)
		WRITE_ONCE(chan->whole, jiffies);
	flt_count_add(chan->fn, FLT_BYTES_IN, n);
	more = n == room || !flt_rx_is_empty(chan);
	flt_rx_took(chan, n);
	WRITE_ONCE(chan->partial, chan->sink_left || chan->big || chan->have);
	return more;
}

static void flt_chan_rx_work(struct work_struct *work)
{
	struct flt_chan *chan = container_of(work, struct flt_chan, rx_work);
	int budget = FLT_RX_BUDGET;

	if (!flt_rx_open(chan))
		return;
	WRITE_ONCE(chan->rx_task, current);
	/* What came behind the HELLO, before the link was up. */
	if (chan->have)
		flt_rx_parse(chan);
	while (flt_rx_open(chan) && flt_rx_read(chan)) {
		/* Answers of the handlers that just ran leave in one batch. */
		flt_chan_flush(chan);
		if (!--budget) {
			queue_work(flt_msg_wq, work);
			break;
		}
	}
	WRITE_ONCE(chan->rx_task, NULL);
	flt_chan_flush(chan);
}

int flt_chan_rx_init(struct flt_chan *chan)
{
	chan->buf = kmalloc(FLT_RX_SIZE, FLT_GFP);
	if (!chan->buf)
		return -ENOMEM;
	INIT_WORK(&chan->rx_work, flt_chan_rx_work);
	return 0;
}

void flt_chan_rx_end(struct flt_chan *chan)
{
	flt_handle_sunk(chan, -ECONNRESET);
	chan->sink_left = 0;
}

void flt_chan_rx_free(struct flt_chan *chan)
{
	/* A message may have come in part, and was secret. */
	kfree_sensitive(chan->buf);
	kvfree_sensitive(chan->big, chan->big_len);
}
