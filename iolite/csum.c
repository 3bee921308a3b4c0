// SPDX-License-Identifier: GPL-2.0
/*
 * The checksum cache. A packet that leaves through a device which does not sum is summed here, from
 * what is known of its pages; the kernel's own way would copy a packet with shared pages first.
 * Segments that are cut later (GSO) pass by: for them this is too early.
 */
#include <linux/highmem.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <net/checksum.h>
#include <net/net_namespace.h>

#include "kmod/param.h"

#include "chunk.h"
#include "counter.h"
#include "csum.h"

static bool csum_cache = true;
module_param(csum_cache, admin_bool, 0644);
MODULE_PARM_DESC(csum_cache, "keep checksums of sealed data; used where the device sums nothing (Y)");

/**
 * iol_sums_forget - the contents of some pages will change
 * @chunk:  whose; no packet has these pages
 * @first:  page
 * @npages: how many
 */
void iol_sums_forget(struct iol_chunk *chunk, unsigned int first, unsigned int npages)
{
	struct iol_sums *sums = chunk->sums;
	unsigned int block = first * IOL_SUM_PAGE_BLOCKS;
	size_t size = npages * IOL_SUM_PAGE_BLOCKS * sizeof(u32);

	if (!sums)
		return;
	memset(&sums->whole[block], 0, size);
	memset(&sums->front[block], 0, size);
}

static struct iol_sums *iol_sums_of(struct iol_chunk *chunk)
{
	struct iol_sums *sums = READ_ONCE(chunk->sums), *there;

	if (sums)
		return sums;
	sums = kzalloc(sizeof(*sums), GFP_ATOMIC | __GFP_NOWARN);
	if (!sums)
		return NULL;
	there = cmpxchg(&chunk->sums, NULL, sums);
	if (!there)
		return sums;
	kfree(sums);
	return there;
}

static __wsum iol_sum_page(struct page *page, u32 off, u32 len)
{
	void *at = kmap_local_page(page);
	__wsum sum = csum_partial(at + off, len, 0);

	kunmap_local(at);
	iol_count_add(IOL_BYTES_SUMMED, len);
	return sum;
}

static u32 iol_word(__wsum sum, u32 len)
{
	return IOL_SUM_VALID | (len & IOL_SUM_LEN_MASK) << IOL_SUM_LEN_SHIFT |
	       (__force u16)~csum_fold(sum);
}

/* Is the sum of the first @len bytes known by this word? */
static bool iol_word_of(u32 word, u32 len)
{
	return (word & ~0xffffU) == (IOL_SUM_VALID | (len & IOL_SUM_LEN_MASK) << IOL_SUM_LEN_SHIFT);
}

static __wsum iol_word_sum(u32 word)
{
	return (__force __wsum)(word & 0xffff);
}

/* The first @len bytes of a block, or all of it; from memory only the first time. */
static __wsum iol_sum_front(u32 *known, struct page *page, u32 off, u32 len)
{
	u32 word = READ_ONCE(*known);
	__wsum sum;

	if (iol_word_of(word, len)) {
		iol_count_add(IOL_BYTES_SUMMED_CACHED, len);
		return iol_word_sum(word);
	}
	sum = iol_sum_page(page, off, len);
	WRITE_ONCE(*known, iol_word(sum, len));
	return sum;
}

/* The rest of a block behind its first @front bytes: the difference, when both are known. */
static __wsum iol_sum_rest(u32 *whole, u32 *known, struct page *page, u32 off, u32 front)
{
	u32 all = READ_ONCE(*whole), word = READ_ONCE(*known);
	u32 len = IOL_SUM_BLOCK - front;
	__wsum sum;

	if (iol_word_of(all, IOL_SUM_BLOCK) && iol_word_of(word, front)) {
		iol_count_add(IOL_BYTES_SUMMED_CACHED, len);
		return csum_shift(csum_sub(iol_word_sum(all), iol_word_sum(word)), front);
	}
	sum = iol_sum_page(page, off, len);
	if (iol_word_of(all, IOL_SUM_BLOCK))
		WRITE_ONCE(*known, iol_word(csum_block_sub(iol_word_sum(all), sum, front), front));
	else if (iol_word_of(word, front))
		WRITE_ONCE(*whole, iol_word(csum_block_add(iol_word_sum(word), sum, front),
					    IOL_SUM_BLOCK));
	return sum;
}

/* Bytes of one block of a page of ours. */
static __wsum iol_sum_in_block(struct iol_sums *sums, struct page *page, unsigned int block,
			       u32 off, u32 len)
{
	u32 start = off % IOL_SUM_BLOCK;

	if (len == IOL_SUM_BLOCK)
		return iol_sum_front(&sums->whole[block], page, off, len);
	if (!start)
		return iol_sum_front(&sums->front[block], page, off, len);
	if (start + len == IOL_SUM_BLOCK)
		return iol_sum_rest(&sums->whole[block], &sums->front[block], page, off, start);
	return iol_sum_page(page, off, len);
}

/* A range of one of our pages, block by block. */
static __wsum iol_sum_ours(struct iol_sums *sums, struct page *page, unsigned int nth, u32 off,
			   u32 len)
{
	__wsum sum = 0;
	u32 done = 0;

	while (done < len) {
		u32 at = off + done;
		u32 part = min_t(u32, len - done, IOL_SUM_BLOCK - at % IOL_SUM_BLOCK);
		unsigned int block = nth * IOL_SUM_PAGE_BLOCKS + at / IOL_SUM_BLOCK;

		sum = csum_block_add(sum, iol_sum_in_block(sums, page, block, at, part), done);
		done += part;
	}
	return sum;
}

/* One page of a fragment, ours or not; @ours tells. */
static __wsum iol_sum_any(struct page *page, u32 off, u32 len, bool *ours)
{
	struct iol_chunk *chunk;
	struct iol_sums *sums;
	unsigned int nth;

	chunk = iol_chunk_peek_page(page, &nth);
	sums = chunk ? iol_sums_of(chunk) : NULL;
	if (!sums)
		return iol_sum_page(page, off, len);
	*ours = true;
	return iol_sum_ours(sums, page, nth, off, len);
}

static __wsum iol_sum_frags(const struct sk_buff *skb, __wsum sum, u32 at, bool *ours)
{
	int i;

	for (i = 0; i < skb_shinfo(skb)->nr_frags; i++) {
		const skb_frag_t *frag = &skb_shinfo(skb)->frags[i];
		u32 off, len, copied;
		struct page *page;

		skb_frag_foreach_page(frag, skb_frag_off(frag), skb_frag_size(frag), page, off,
				      len, copied) {
			sum = csum_block_add(sum, iol_sum_any(page, off, len, ours), at);
			at += len;
		}
	}
	return sum;
}

/* Is there a page of ours, so that it is worth our while? */
static bool iol_skb_is_ours(const struct sk_buff *skb)
{
	unsigned int nth;
	int i;

	for (i = 0; i < skb_shinfo(skb)->nr_frags; i++)
		if (iol_chunk_peek_page(skb_frag_page(&skb_shinfo(skb)->frags[i]), &nth))
			return true;
	return false;
}

/* The field holds the sum of the pseudo-header, so summing over it comes out right. */
static bool iol_skb_sum(struct sk_buff *skb)
{
	int start = skb_checksum_start_offset(skb);
	u32 field = start + skb->csum_offset;
	u32 head = skb_headlen(skb) - start;
	bool ours = false;
	__sum16 *check;
	__wsum sum;

	if (start < 0 || field + sizeof(*check) > skb_headlen(skb) ||
	    skb_ensure_writable(skb, field + sizeof(*check)))
		return false;
	sum = csum_partial(skb->data + start, head, 0);
	iol_count_add(IOL_BYTES_SUMMED, head);
	sum = iol_sum_frags(skb, sum, head, &ours);
	check = (__sum16 *)(skb->data + field);
	*check = csum_fold(sum) ?: CSUM_MANGLED_0;
	skb->ip_summed = CHECKSUM_NONE;
	return true;
}

static unsigned int iol_post_routing(void *priv, struct sk_buff *skb,
				     const struct nf_hook_state *state)
{
	bool summed = false;

	if (!READ_ONCE(csum_cache) || skb->ip_summed != CHECKSUM_PARTIAL ||
	    !skb_shinfo(skb)->nr_frags || skb_has_frag_list(skb) ||
	    skb_csum_is_sctp(skb) || !skb_frags_readable(skb) ||
	    (state->out->features & NETIF_F_CSUM_MASK))
		return NF_ACCEPT;
	rcu_read_lock();
	if (iol_skb_is_ours(skb)) {
		summed = !skb_is_gso(skb) && iol_skb_sum(skb);
		iol_count(summed ? IOL_PACKETS_SUMMED : IOL_PACKETS_NOT_SUMMED);
	}
	rcu_read_unlock();
	return NF_ACCEPT;
}

static const struct nf_hook_ops iol_hooks[] = {
	{
		.hook = iol_post_routing,
		.pf = NFPROTO_IPV4,
		.hooknum = NF_INET_POST_ROUTING,
		.priority = NF_IP_PRI_LAST,
	},
	{
		.hook = iol_post_routing,
		.pf = NFPROTO_IPV6,
		.hooknum = NF_INET_POST_ROUTING,
		.priority = NF_IP6_PRI_LAST,
	},
};

static int __net_init iol_net_init(struct net *net)
{
	return nf_register_net_hooks(net, iol_hooks, ARRAY_SIZE(iol_hooks));
}

static void __net_exit iol_net_exit(struct net *net)
{
	nf_unregister_net_hooks(net, iol_hooks, ARRAY_SIZE(iol_hooks));
}

static struct pernet_operations iol_net_ops = {
	.init = iol_net_init,
	.exit = iol_net_exit,
};

int iol_csum_register(void)
{
	return register_pernet_subsys(&iol_net_ops);
}

void iol_csum_unregister(void)
{
	unregister_pernet_subsys(&iol_net_ops);
}
