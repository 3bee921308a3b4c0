// SPDX-License-Identifier: GPL-2.0
/*
 * What waits between a giver and accept(): children with bytes that the client has not acknowledged
 * are charged to no memory cgroup yet. All of them together may take half of the memory that TCP
 * may have before it looks at how much it has (tcp_mem). Of that
 *
 *	a network namespace may have seven eighths of what the others leave;
 *	of that a giver that does not decide, and a service whose program does not accept, may each
 *	have as much as they leave to others: half, if they are alone.
 *
 * So nobody takes all, and who comes later finds something, without a number that somebody would
 * have to choose: the more there are the less each of them has.
 */
#include <linux/hashtable.h>
#include <linux/jhash.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <net/net_namespace.h>
#include <net/tcp.h>
#include "waiting.h"

/**
 * struct flt_share_key - who
 * @net:   its namespace; compared, never followed
 * @giver: of a giver, and one more: a giver may be called 0
 * @addr:  of a service
 * @port:  of a service, and its family
 * @pad:   zero
 */
struct flt_share_key {
	const struct net *net;
	u64 giver;
	u8 addr[16];
	u32 port;
	u32 pad;
};

/**
 * struct flt_share - what one of them has
 * @node:  in the table
 * @key:   who it is
 * @users: children that name it
 * @bytes: of those of them that it has
 *
 * Under flt_waiting_lock.
 */
struct flt_share {
	struct hlist_node node;
	struct flt_share_key key;
	unsigned int users;
	long bytes;
};

static DEFINE_HASHTABLE(flt_shares, 8);
static DEFINE_SPINLOCK(flt_waiting_lock);	/* the following and the table; a leaf */
static long flt_waiting_all;	/* of all namespaces, as tcp_mem is one for all */

static u32 flt_share_hash(const struct flt_share_key *key)
{
	static u32 seed __read_mostly;

	net_get_random_once(&seed, sizeof(seed));
	return jhash(key, sizeof(*key), seed);
}

/* @fresh is taken, and then NULL, if there is none. */
static struct flt_share *flt_share_get(const struct flt_share_key *key, struct flt_share **fresh)
{
	u32 hash = flt_share_hash(key);
	struct flt_share *share;

	lockdep_assert_held(&flt_waiting_lock);
	hash_for_each_possible(flt_shares, share, node, hash)
		if (!memcmp(&share->key, key, sizeof(*key)))
			goto found;
	share = *fresh;
	*fresh = NULL;
	share->key = *key;
	hash_add(flt_shares, &share->node, hash);
found:
	share->users++;
	return share;
}

static void flt_share_put(struct flt_share *share)
{
	lockdep_assert_held(&flt_waiting_lock);
	if (--share->users)
		return;
	WARN_ON_ONCE(share->bytes);
	hash_del(&share->node);
	kfree(share);
}

static void flt_waiting_put(struct flt_waiting *w)
{
	flt_share_put(w->net);
	flt_share_put(w->giver);
	flt_share_put(w->service);
}

static bool flt_waiting_fits(const struct flt_waiting *w)
{
	/* tcp_mem is in pages. */
	long most = READ_ONCE(tcp_prot.sysctl_mem[0]) / 2 << PAGE_SHIFT;
	long left;

	lockdep_assert_held(&flt_waiting_lock);
	most -= flt_waiting_all - w->net->bytes;
	left = most - most / 8 - w->net->bytes - w->bytes;
	return w->giver->bytes + w->bytes <= left && w->service->bytes + w->bytes <= left;
}

enum flt_refusal flt_waiting_begin(struct flt_waiting *w, const struct net *net,
				   const struct flt_tuple *tuple, u32 giver, u32 bytes)
{
	struct flt_share_key all = { .net = net };
	struct flt_share_key by = { .net = net, .giver = giver + 1ULL };
	struct flt_share_key to = { .net = net };
	struct flt_share *fresh[3] = {};
	bool fits = false;
	int i;

	memset(w, 0, sizeof(*w));
	if (!bytes)
		return FLT_REFUSE_NONE;
	to.port = tuple->family << 16 | ntohs(tuple->server_port);
	memcpy(to.addr, tuple->server, sizeof(to.addr));
	for (i = 0; i < ARRAY_SIZE(fresh); i++) {
		fresh[i] = kzalloc(sizeof(*fresh[i]), GFP_KERNEL);
		if (!fresh[i])
			goto free;
	}
	spin_lock_bh(&flt_waiting_lock);
	w->bytes = bytes;
	w->net = flt_share_get(&all, &fresh[0]);
	w->giver = flt_share_get(&by, &fresh[1]);
	w->service = flt_share_get(&to, &fresh[2]);
	fits = flt_waiting_fits(w);
	if (fits) {
		flt_waiting_all += bytes;
		w->net->bytes += bytes;
		w->giver->bytes += bytes;
	} else {
		flt_waiting_put(w);
		w->bytes = 0;
	}
	spin_unlock_bh(&flt_waiting_lock);
free:
	for (i = 0; i < ARRAY_SIZE(fresh); i++)
		kfree(fresh[i]);
	return fits ? FLT_REFUSE_NONE : FLT_REFUSE_NOMEM;
}

void flt_waiting_decided(struct flt_waiting *w)
{
	if (!w->bytes)
		return;
	spin_lock_bh(&flt_waiting_lock);
	w->giver->bytes -= w->bytes;
	w->service->bytes += w->bytes;
	w->decided = true;
	spin_unlock_bh(&flt_waiting_lock);
}

void flt_waiting_end(struct flt_waiting *w)
{
	if (!w->bytes)
		return;
	spin_lock_bh(&flt_waiting_lock);
	flt_waiting_all -= w->bytes;
	w->net->bytes -= w->bytes;
	if (w->decided)
		w->service->bytes -= w->bytes;
	else
		w->giver->bytes -= w->bytes;
	flt_waiting_put(w);
	w->bytes = 0;
	spin_unlock_bh(&flt_waiting_lock);
}
