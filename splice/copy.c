// SPDX-License-Identifier: GPL-2.0
/* SSP_KEEPCOPY: the unread copy of what was passed on. */

#include <linux/module.h>
#include <net/sock.h>

#include "copy.h"
#include "pair.h"
#include "tunable.h"
#include "user.h"

/* In the cb of each clone: what of it is unread. */
struct ssp_copy_cb {
	unsigned int off;
	unsigned int len;
};

static struct ssp_copy_cb *ssp_copy_cb(struct sk_buff *skb)
{
	return (struct ssp_copy_cb *)skb->cb;
}

void ssp_copy_init(struct ssp_end *end, struct ssp_user *user)
{
	if (!end->copies.next)
		__skb_queue_head_init(&end->copies);
	if (end->user == user)
		return;
	if (end->user)
		ssp_user_put(end->user);
	ssp_user_hold(user);
	end->user = user;
}

void ssp_copy_exit(struct ssp_end *end)
{
	if (end->user)
		ssp_user_put(end->user);
	end->user = NULL;
}

unsigned int ssp_copy_room(const struct ssp_end *end, unsigned int max)
{
	/* A packet may hold far more memory than bytes; the first one always fits. */
	if (end->copy_bytes && end->copy_size >= READ_ONCE(ssp_max_truesize))
		return 0;
	return max > end->copy_bytes ? max - end->copy_bytes : 0;
}

bool ssp_copy_extends(const struct ssp_end *end, const struct sk_buff *skb, unsigned int off)
{
	struct sk_buff *last = skb_peek_tail(&end->copies);

	/* A packet that has a clone is not changed; one that was collapsed has another head. */
	return last && last->data == skb->data && last->len == skb->len &&
	       ssp_copy_cb(last)->off + ssp_copy_cb(last)->len == off;
}

struct sk_buff *ssp_copy_make(struct ssp_end *end, struct sock *sk, struct sk_buff *skb)
{
	struct sk_buff *clone = skb_clone(skb, GFP_ATOMIC | __GFP_NOWARN);

	if (!clone)
		return NULL;
	if (!ssp_user_charge(end->user, clone->truesize))
		goto drop;
	/* The socket's first one in any case: its reader is the way out. */
	if (!sk_rmem_schedule(sk, clone, clone->truesize) && end->copy_bytes) {
		ssp_user_uncharge(end->user, clone->truesize);
		goto drop;
	}
	sk_mem_charge(sk, clone->truesize);
	return clone;

drop:
	consume_skb(clone);
	return NULL;
}

void ssp_copy_free(struct ssp_end *end, struct sock *sk, struct sk_buff *clone)
{
	ssp_user_uncharge(end->user, clone->truesize);
	sk_mem_uncharge(sk, clone->truesize);
	consume_skb(clone);
}

void ssp_copy_append(struct ssp_end *end, struct sk_buff *clone, unsigned int off,
		     unsigned int len)
{
	if (clone) {
		ssp_copy_cb(clone)->off = off;
		ssp_copy_cb(clone)->len = 0;
		__skb_queue_tail(&end->copies, clone);
		end->copy_size += clone->truesize;
	}
	ssp_copy_cb(skb_peek_tail(&end->copies))->len += len;
	WRITE_ONCE(end->copy_bytes, end->copy_bytes + len);
}

static void ssp_copy_eat(struct ssp_end *end, struct sock *sk, struct sk_buff *clone,
			 unsigned int len)
{
	struct ssp_copy_cb *cb = ssp_copy_cb(clone);

	cb->off += len;
	cb->len -= len;
	WRITE_ONCE(end->copy_bytes, end->copy_bytes - len);
	if (cb->len)
		return;
	__skb_unlink(clone, &end->copies);
	end->copy_size -= clone->truesize;
	ssp_copy_free(end, sk, clone);
}

int ssp_copy_read(struct ssp_end *end, struct sock *sk, struct msghdr *msg, bool peek)
{
	struct sk_buff *clone, *next;
	unsigned int len;
	int done = 0;

	skb_queue_walk_safe(&end->copies, clone, next) {
		len = min_t(size_t, ssp_copy_cb(clone)->len, msg_data_left(msg));
		if (!len)
			break;
		if (skb_copy_datagram_msg(clone, ssp_copy_cb(clone)->off, msg, len))
			return done ?: -EFAULT;
		done += len;
		if (!peek)
			ssp_copy_eat(end, sk, clone, len);
	}
	return done;
}

void ssp_copy_drop(struct ssp_end *end, struct sock *sk)
{
	struct sk_buff *clone;

	if (!end->copies.next)
		return;
	while ((clone = __skb_dequeue(&end->copies)))
		ssp_copy_free(end, sk, clone);
	end->copy_size = 0;
	WRITE_ONCE(end->copy_bytes, 0);
}

void ssp_copy_pin(struct ssp_end *end)
{
	bool pin = end->copy_bytes;

	if (pin == end->pinned)
		return;
	end->pinned = pin;
	if (pin)
		__module_get(THIS_MODULE);
	else
		module_put(THIS_MODULE);
}
