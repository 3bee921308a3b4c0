// SPDX-License-Identifier: GPL-2.0
/* Sending a part of a received packet by reference. */

#include <linux/bvec.h>
#include <linux/uio.h>
#include <net/tcp.h>

#include "kmod/compat/bvec.h"
#include "counter.h"
#include "send.h"

/* Fragments with fewer bytes are copied: see ssp_is_small(). */
#define SSP_COPYBREAK	512

/**
 * struct ssp_batch - fragments that go to TCP in one call
 * @msg:  the call; @msg.msg_iter walks over @bv
 * @sk:   where to
 * @sn:   for counters
 * @done: bytes that were taken
 * @left: bytes that are not yet collected
 * @err:  what ended it, or 0
 * @more: further bytes follow after the last of these
 * @nr:   fragments that are collected
 * @len:  their bytes
 * @copy: page of copied bytes, with a reference, or NULL
 * @bv:   they
 */
struct ssp_batch {
	struct msghdr msg;
	struct sock *sk;
	struct ssp_net *sn;
	unsigned int done;
	unsigned int left;
	int err;
	bool more;
	unsigned int nr;
	unsigned int len;
	struct page *copy;
	struct bio_vec bv[MAX_SKB_FRAGS + 2];
};

/* TCP took @ret of @len bytes, or refused. False: stop. */
static bool ssp_batch_taken(struct ssp_batch *b, int ret, unsigned int len)
{
	ssp_count(b->sn, SSP_STAT_SENDS);
	if (ret < 0) {
		b->err = ret;
		return false;
	}
	b->done += ret;
	if (ret < len)
		b->err = -EAGAIN;
	return ret == len;
}

/*
 * Of a call with ssp_batch_fill() -EFAULT is what that says when there is no memory: the pages
 * are the kernel's own.
 */
static int ssp_batch_error(int ret)
{
	return ret == -EFAULT ? -EAGAIN : ret;
}

static int ssp_batch_flags(const struct ssp_batch *b)
{
	/* Without NOSIGNAL a dead connection would kill whom the softirq interrupts. */
	return MSG_DONTWAIT | MSG_NOSIGNAL | (b->left || b->more ? MSG_MORE : 0);
}

/*
 * TCP asks for up to @len bytes more in @skb, the last of its queue. Whole fragments go in:
 * MSG_SPLICE_PAGES would make one of each page, and every reader then works by the page.
 *
 * skb_zerocopy_iter_stream() knows two errors. -EMSGSIZE: the packet is full, and the next one
 * is begun, which always takes something. -EFAULT: the send ends. Anything else it takes for
 * success, and with no byte taken TCP would ask again for ever, in softirq.
 */
static int ssp_batch_fill(struct sk_buff *skb, struct iov_iter *from, size_t len)
{
	struct ssp_batch *b = container_of(from, struct ssp_batch, msg.msg_iter);
	struct skb_shared_info *info = skb_shinfo(skb);
	struct bvec_iter at = {
		.bi_size = min(len, iov_iter_count(from)),
		.flt_bvec_done = from->iov_offset,
	};
	unsigned int done = 0;

	/* For TCP an empty packet is one that is not charged to the socket. This one is. */
	if (info->flags & SKBFL_PURE_ZEROCOPY) {
		if (!sk_wmem_schedule(b->sk, at.bi_size))
			return -EFAULT;
		info->flags &= ~SKBFL_PURE_ZEROCOPY;
	}
	while (at.bi_size) {
		struct bio_vec v = mp_bvec_iter_bvec(from->bvec, at);
		unsigned int nr = info->nr_frags;

		if (skb_can_coalesce(skb, nr, v.bv_page, v.bv_offset)) {
			skb_frag_size_add(&info->frags[nr - 1], v.bv_len);
		} else if (nr < MAX_SKB_FRAGS) {
			get_page(v.bv_page);
			skb_fill_page_desc_noacc(skb, nr, v.bv_page, v.bv_offset, v.bv_len);
		} else {
			break;
		}
		done += v.bv_len;
		bvec_iter_advance_single(from->bvec, &at, v.bv_len);
	}
	info->flags |= SKBFL_SHARED_FRAG;
	from->bvec += at.bi_idx;
	from->nr_segs -= at.bi_idx;
	from->iov_offset = at.flt_bvec_done;
	from->count -= done;
	skb_len_add(skb, done);
	return at.bi_size ? -EMSGSIZE : 0;
}

static const struct ubuf_info_ops ssp_batch_ubuf_ops = {};

static bool ssp_batch_flush(struct ssp_batch *b)
{
	/*
	 * A zero-copy send whose packets have their own references: no flag tells them to
	 * report to @ubuf, so that it is forgotten when TCP returns.
	 */
	struct ubuf_info ubuf = {
		.ops = &ssp_batch_ubuf_ops,
		.refcnt = REFCOUNT_INIT(1),
	};
	unsigned int len = b->len;

	if (!len)
		return true;
	b->msg = (struct msghdr) {
		.msg_flags = ssp_batch_flags(b) | MSG_ZEROCOPY,
		.msg_ubuf = &ubuf,
		.sg_from_iter = ssp_batch_fill,
	};
	iov_iter_bvec(&b->msg.msg_iter, ITER_SOURCE, b->bv, b->nr, len);
	b->nr = 0;
	b->len = 0;
	return ssp_batch_taken(b, ssp_batch_error(tcp_sendmsg_locked(b->sk, &b->msg, len)), len);
}

static void ssp_batch_put(struct ssp_batch *b)
{
	if (b->copy)
		put_page(b->copy);
	b->copy = NULL;
}

static bool ssp_batch_page(struct ssp_batch *b, struct page *page, unsigned int off,
			   unsigned int len)
{
	struct bio_vec *last = b->nr ? &b->bv[b->nr - 1] : NULL;

	if (last && last->bv_page == page && last->bv_offset + last->bv_len == off) {
		last->bv_len += len;
		b->len += len;
		b->left -= len;
		return true;
	}
	if (b->nr == ARRAY_SIZE(b->bv) && !ssp_batch_flush(b))
		return false;
	bvec_set_page(&b->bv[b->nr++], page, len, off);
	b->len += len;
	b->left -= len;
	return true;
}

/*
 * What a reference holds is more than what the destination is charged for, which is @len. A byte
 * can hold 32 KB, and a send buffer many bytes: small fragments are copied, and all of a
 * packet that has less in it than a quarter of its memory.
 */
static bool ssp_is_small(const struct sk_buff *skb, unsigned int len)
{
	return len < SSP_COPYBREAK || skb->len < skb->truesize / 4;
}

/*
 * To the socket's own page, behind what was copied there before. Memory of the slab allocator has
 * no references, and what is small holds too much.
 */
static bool ssp_batch_copy(struct ssp_batch *b, const void *from, unsigned int len)
{
	struct page_frag *frag = &b->sk->sk_frag;
	unsigned int n;

	ssp_count_add(b->sn, SSP_STAT_BYTES_LINEAR, len);
	for (; len; len -= n, from += n) {
		if (!b->copy || b->copy != frag->page || frag->offset == frag->size) {
			/* What lies in the page before is held no longer. */
			if (b->copy && !ssp_batch_flush(b))
				return false;
			ssp_batch_put(b);
			if (!skb_page_frag_refill(1, frag, b->sk->sk_allocation)) {
				if (ssp_batch_flush(b))
					b->err = -EAGAIN;
				return false;
			}
			b->copy = frag->page;
			get_page(b->copy);
		}
		n = min(len, frag->size - frag->offset);
		memcpy(page_address(frag->page) + frag->offset, from, n);
		if (!ssp_batch_page(b, frag->page, frag->offset, n))
			return false;
		frag->offset += n;
	}
	return true;
}

/* The linear part of @skb from @off on; of a driver that uses page fragments it is not copied. */
static bool ssp_batch_head(struct ssp_batch *b, struct sk_buff *skb, unsigned int off)
{
	unsigned int len = min(skb_headlen(skb) - off, b->left);
	unsigned char *from = skb->data + off;
	struct page *page;

	if (!skb->head_frag || ssp_is_small(skb, len))
		return ssp_batch_copy(b, from, len);
	page = virt_to_head_page(from);
	if (!sendpage_ok(page))
		return ssp_batch_copy(b, from, len);
	return ssp_batch_page(b, page, from - (unsigned char *)page_address(page), len);
}

static bool ssp_batch_frag(struct ssp_batch *b, const struct sk_buff *skb, const skb_frag_t *frag,
			   unsigned int off)
{
	unsigned int len = min(skb_frag_size(frag) - off, b->left);
	struct page *page = skb_frag_page(frag);

	if (unlikely(!sendpage_ok(page)) || ssp_is_small(skb, len))
		return ssp_batch_copy(b, skb_frag_address(frag) + off, len);
	return ssp_batch_page(b, page, skb_frag_off(frag) + off, len);
}

/* One skb, without its list, from *@off on; *@off becomes what is to be skipped after it. */
static bool ssp_batch_skb(struct ssp_batch *b, struct sk_buff *skb, unsigned int *off)
{
	unsigned int size, i;

	if (*off < skb_headlen(skb)) {
		if (!ssp_batch_head(b, skb, *off))
			return false;
		*off = 0;
	} else {
		*off -= skb_headlen(skb);
	}
	for (i = 0; i < skb_shinfo(skb)->nr_frags && b->left; i++) {
		size = skb_frag_size(&skb_shinfo(skb)->frags[i]);
		if (*off >= size) {
			*off -= size;
			continue;
		}
		if (!ssp_batch_frag(b, skb, &skb_shinfo(skb)->frags[i], *off))
			return false;
		*off = 0;
	}
	return true;
}

int ssp_send(struct sock *sk, struct sk_buff *skb, unsigned int off, unsigned int len, bool more,
	     struct page_frag *head, struct ssp_net *sn)
{
	unsigned int ahead = head ? head->size : 0;
	bool task_frag = sk->sk_use_task_frag;
	gfp_t gfp = sk->sk_allocation;
	struct sk_buff *part;
	struct ssp_batch b;

	b.sk = sk;
	b.sn = sn;
	b.done = 0;
	b.left = ahead + len;
	b.err = 0;
	b.more = more;
	b.nr = 0;
	b.len = 0;
	b.copy = NULL;

	/* No sleep, and no page fragment of the program that was interrupted. */
	sk->sk_allocation = GFP_ATOMIC | __GFP_NOWARN;
	sk->sk_use_task_frag = false;
	if (ahead)
		ssp_batch_page(&b, head->page, head->offset, ahead);
	for (; b.left && !b.err; skb = skb->next) {
		if (!ssp_batch_skb(&b, skb, &off))
			break;
		skb_walk_frags(skb, part)
			if (!b.left || !ssp_batch_skb(&b, part, &off))
				break;
	}
	if (!b.err)
		ssp_batch_flush(&b);
	ssp_batch_put(&b);
	sk->sk_allocation = gfp;
	sk->sk_use_task_frag = task_frag;
	if (ahead) {
		ahead = min(ahead, b.done);
		head->offset += ahead;
		head->size -= ahead;
	}
	return b.done - ahead ?: b.err;
}
