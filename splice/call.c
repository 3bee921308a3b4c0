// SPDX-License-Identifier: GPL-2.0
/* What a program asks for: start, end, how it goes. */

#include <linux/uio.h>
#include <net/tcp.h>

#include "call.h"
#include "copy.h"
#include "counter.h"
#include "forward.h"
#include "judge.h"
#include "layer.h"
#include "loop.h"
#include "pair.h"
#include "send.h"
#include "trace.h"

static int ssp_check_state(const struct sock *sk)
{
	return (1 << sk->sk_state) & (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT) ? 0 : -ENOTCONN;
}

/* Both sockets locked. */
static int ssp_check(const struct ssp_pair *p)
{
	int i, err;

	for (i = 0; i < 2; i++) {
		err = ssp_check_state(p->sk[i]);
		if (err)
			return err;
		if (ssp_is_taken(p->sk[i]))
			return -EOPNOTSUPP;
		if (rcu_access_pointer(p->end[i]->pair) || p->end[i]->copy_bytes)
			return -EBUSY;
	}
	return 0;
}

/*
 * What waits in the source can go in one packet with the headers: MSG_MORE would not do, TCP
 * sends whole segments all the same. They wait in p->head for the first forwarding.
 */
static int ssp_keep_head(struct ssp_pair *p, struct ssp_splice *args, struct iov_iter *from)
{
	struct sock *dst = p->sk[1];
	struct page_frag *frag = sk_page_frag(dst);
	unsigned int len = args->data_len;

	if (!skb_page_frag_refill(len, frag, dst->sk_allocation))
		return -ENOMEM;
	if (copy_page_from_iter(frag->page, frag->offset, len, from) != len)
		return -EFAULT;
	get_page(frag->page);
	p->head = (struct page_frag) {
		.page = frag->page,
		.offset = frag->offset,
		.size = len,
	};
	frag->offset += len;
	args->data_done = len;
	return 0;
}

/* Headers first. Both sockets locked, no transfer yet. */
static int ssp_send_data(struct ssp_pair *p, struct ssp_splice *args)
{
	struct sock *src = p->sk[0], *dst = p->sk[1];
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	int ret;

	if (!args->data_len)
		return 0;
	ret = import_ubuf(ITER_SOURCE, u64_to_user_ptr(args->data), args->data_len, &msg.msg_iter);
	if (ret)
		return ret;
	if (args->data_len <= PAGE_SIZE && tcp_inq(src) > 0 && p->limit && ssp_can_send(dst) &&
	    ssp_has_room(dst, args->data_len))
		return ssp_keep_head(p, args, &msg.msg_iter);
	ret = tcp_sendmsg_locked(dst, &msg, args->data_len);
	if (ret < 0)
		return ret;
	args->data_done = ret;
	return ret < args->data_len ? -EAGAIN : 0;
}

/* Without memory not even the headers could be sent: it has not begun. */
static int ssp_drop_head(struct ssp_pair *p, struct ssp_splice *args)
{
	if (!p->head.page)
		return 0;
	put_page(p->head.page);
	p->head.page = NULL;
	if (!p->head.size)
		return 0;
	args->data_done -= p->head.size;
	p->head.size = 0;
	if (p->state != SSP_ENDED) {
		p->cause = SSP_CAUSE_UNSPLICED;
		ssp_pair_ended(p);
	}
	if (rcu_access_pointer(p->end[0]->pair) == p)
		ssp_pair_detach(p);
	return -EAGAIN;
}

static void ssp_fill_inbuf(struct ssp_pair *p, struct ssp_splice *args)
{
	struct msghdr msg = {};
	int ret;

	if (!args->inbuf_len)
		return;
	if (import_ubuf(ITER_DEST, u64_to_user_ptr(args->inbuf), args->inbuf_len, &msg.msg_iter))
		return;
	ret = ssp_copy_read(p->end[0], p->sk[0], &msg, false);
	if (ret > 0)
		args->inbuf_done = ret;
}

/* Both sockets locked and free. What fails once the headers are sent is the transfer's end. */
static int ssp_start(struct ssp_pair *p, struct ssp_splice *args)
{
	struct ssp_outcome out;
	int err;

	ssp_count(p->net, SSP_STAT_STARTED);
	trace_ssp_start(p);
	ssp_advance(p, SSP_FROM0 | SSP_FROM1, SSP_CALL, false);
	err = ssp_drop_head(p, args);
	if (err)
		return err;
	if (ssp_keeps_copy(p)) {
		ssp_fill_inbuf(p, args);
		ssp_judge(p, false);
		/* Forwarding may have waited for this reader. */
		if (p->held)
			ssp_pair_queue(p, 0);
	}
	/* Who waits for edges has seen none. */
	if (p->state != SSP_ENDED && ssp_copy_readable(p)) {
		p->telling = true;
		p->sk[0]->sk_data_ready(p->sk[0]);
		p->telling = false;
	}
	ssp_pair_outcome(p, &out);
	args->status = out.status;
	args->cause = out.cause;
	args->moved01 = out.moved[0];
	args->moved10 = out.moved[1];
	if (p->state == SSP_ENDED) {
		ssp_count(p->net, SSP_STAT_IN_CALL);
		ssp_pair_detach(p);
	}
	/* No event has said so. */
	ssp_layer_changed(p->sk[0]);
	ssp_layer_changed(p->sk[1]);
	return 0;
}

/* Both sockets locked, and attached. */
static int ssp_begin(struct ssp_pair *p, struct ssp_splice *args)
{
	int err;

	ssp_copy_init(p->end[0], p->user);
	/* Nothing is forwarded before ssp_start(): events find the sockets owned, and are left. */
	err = ssp_loop_check(p);
	if (!err)
		err = ssp_send_data(p, args);
	if (err) {
		ssp_judge_abort(p);
		return err;
	}
	return ssp_start(p, args);
}

static enum ssp_stat ssp_refusal(int err)
{
	switch (err) {
	case -EOPNOTSUPP:
		return SSP_STAT_REFUSED_SOCKET;
	case -ENOTCONN:
		return SSP_STAT_REFUSED_STATE;
	case -EBUSY:
		return SSP_STAT_REFUSED_BUSY;
	case -ENOMEM:
		return SSP_STAT_REFUSED_MEMORY;
	case -ELOOP:
		return SSP_STAT_REFUSED_LOOP;
	case -EUSERS:
		return SSP_STAT_REFUSED_USER;
	default:
		return SSP_STAT_REFUSED_DATA;
	}
}

static int ssp_splice(struct sock *sk0, struct sock *sk1, struct ssp_splice *args)
{
	struct ssp_pair *p;
	int err;

	/* A listener, or a socket that is not yet connected, gets no layer for nothing. */
	err = ssp_check_state(sk0) ?: ssp_check_state(sk1);
	if (err)
		return err;
	p = ssp_pair_alloc(sk0, sk1, args);
	if (IS_ERR(p))
		return PTR_ERR(p);
	p->end[0] = ssp_end_make(sk0);
	p->end[1] = IS_ERR(p->end[0]) ? p->end[0] : ssp_end_make(sk1);
	if (IS_ERR(p->end[1])) {
		err = PTR_ERR(p->end[1]);
		goto put;
	}

	ssp_lock_socks(sk0, sk1);
	err = ssp_check(p);
	if (!err)
		err = ssp_pair_attach(p);
	if (!err)
		err = ssp_begin(p, args);
	ssp_unlock_socks(sk0, sk1);
put:
	ssp_pair_put(p);
	return err;
}

int ssp_call_splice(struct sock *sk0, struct sock *sk1, struct ssp_splice *args)
{
	int err = ssp_splice(sk0, sk1, args);

	if (err)
		ssp_count(ssp_net(sock_net(sk0)), ssp_refusal(err));
	return err;
}

static void ssp_fill_result(struct ssp_result *args, const struct ssp_outcome *out, u32 unread)
{
	args->status = out->status;
	args->cause = out->cause;
	args->error = out->error;
	args->unread = unread;
	args->moved01 = out->moved[0];
	args->moved10 = out->moved[1];
	args->copied = out->copied;
}

int ssp_call_unsplice(struct sock *sk0, struct sock *sk1, struct ssp_result *args)
{
	struct ssp_end *end = ssp_end_find(sk0);
	struct ssp_outcome out;
	struct ssp_pair *p;
	int err = 0;

	p = end ? ssp_pair_get(end) : NULL;
	if (!p)
		return -ENOENT;
	ssp_lock_socks(p->sk[0], p->sk[1]);
	if (p->sk[!ssp_side(p, sk0)] != sk1 || rcu_access_pointer(end->pair) != p) {
		err = -ENOENT;
		goto unlock;
	}
	if (args->flags & SSP_DISCARD)
		ssp_copy_drop(p->end[0], p->sk[0]);
	ssp_judge_unsplice(p);
	ssp_pair_outcome(p, &out);
	ssp_fill_result(args, &out, p->end[0]->copy_bytes);
	ssp_layer_changed(p->sk[0]);
unlock:
	ssp_unlock_socks(p->sk[0], p->sk[1]);
	ssp_pair_put(p);
	return err;
}

int ssp_call_result(struct sock *sk, struct ssp_result *args)
{
	struct ssp_end *end = ssp_end_find(sk);
	struct ssp_outcome out = {};
	u32 unread = 0;
	struct ssp_pair *p;

	p = end ? ssp_pair_get(end) : NULL;
	if (p) {
		ssp_lock_socks(p->sk[0], p->sk[1]);
		ssp_pair_outcome(p, &out);
		unread = p->end[0]->copy_bytes;
		ssp_unlock_socks(p->sk[0], p->sk[1]);
		ssp_pair_put(p);
	} else if (end) {
		lock_sock(sk);
		out = end->last;
		unread = end->copy_bytes;
		release_sock(sk);
	}
	ssp_fill_result(args, &out, unread);
	return 0;
}
