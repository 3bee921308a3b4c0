// SPDX-License-Identifier: GPL-2.0
/* Sending to a node: over the channel that is up now, or not at all. */

#include <linux/module.h>
#include <linux/sched/mm.h>

#include "counter.h"
#include "linkwork.h"
#include "table.h"

/* The channel that takes messages, referenced; NULL: there is none. */
static struct flt_chan *flt_link_chan(struct flt_link *link)
{
	struct flt_chan *chan;

	rcu_read_lock();
	chan = rcu_dereference(link->up);
	if (chan && !kref_get_unless_zero(&chan->ref))
		chan = NULL;
	rcu_read_unlock();
	return chan;
}

bool flt_node_is_proven(const struct flt_node *node)
{
	const struct flt_chan *chan;
	bool proven;

	rcu_read_lock();
	chan = rcu_dereference(node->link->up);
	proven = chan && chan->auth != FLT_AUTH_NONE;
	rcu_read_unlock();
	return proven;
}
EXPORT_SYMBOL_GPL(flt_node_is_proven);

struct mem_cgroup *flt_node_pays(struct flt_node *node)
{
	return set_active_memcg(node->link->memcg);
}
EXPORT_SYMBOL_GPL(flt_node_pays);

static int flt_link_count(struct flt_link *link, int err)
{
	if (likely(!err))
		flt_count(link->fn, FLT_MSG_OUT);
	else if (err == -ENOBUFS)
		flt_count(link->fn, FLT_SEND_NO_BUFFERS);
	else if (err == -ENOMEM)
		flt_count(link->fn, FLT_SEND_NO_MEMORY);
	else if (err == -ENOTCONN)
		flt_count(link->fn, FLT_SEND_NOT_CONNECTED);
	return err;
}

static int flt_link_give(struct flt_node *node, bool later, u8 type, const struct kvec *vec,
			 unsigned int nr, struct flt_bulk *bulk, gfp_t gfp)
{
	struct flt_chan *chan = flt_link_chan(node->link);
	int err = -ENOTCONN;

	if (chan) {
		err = later ? flt_chan_put_message(chan, type, vec, nr, bulk, gfp) :
			      flt_chan_send(chan, type, vec, nr, bulk, gfp);
		flt_chan_put(chan);
	}
	return flt_link_count(node->link, err);
}

int flt_link_send_bulk(struct flt_node *node, u8 type, const struct kvec *vec, unsigned int nr,
		       struct flt_bulk *bulk, gfp_t gfp)
{
	return flt_link_give(node, false, type, vec, nr, bulk, gfp);
}
EXPORT_SYMBOL_GPL(flt_link_send_bulk);

u32 flt_link_bulked(const struct flt_node *node)
{
	const struct flt_chan *chan;
	u32 bytes;

	rcu_read_lock();
	chan = rcu_dereference(node->link->up);
	bytes = chan ? READ_ONCE(chan->bulked) : 0;
	rcu_read_unlock();
	return bytes;
}
EXPORT_SYMBOL_GPL(flt_link_bulked);

int flt_link_queue(struct flt_node *node, u8 type, const struct kvec *vec, unsigned int nr,
		   struct flt_bulk *bulk, gfp_t gfp)
{
	return flt_link_give(node, true, type, vec, nr, bulk, gfp);
}
EXPORT_SYMBOL_GPL(flt_link_queue);

void flt_link_flush(struct flt_node *node, bool now)
{
	struct flt_chan *chan = flt_link_chan(node->link);

	if (!chan)
		return;
	flt_chan_kick(chan, now);
	flt_chan_put(chan);
}
EXPORT_SYMBOL_GPL(flt_link_flush);

int flt_link_send_secret(struct flt_node *node, u8 type, const struct kvec *vec,
			 unsigned int nr, bool clear)
{
	struct flt_chan *chan = flt_link_chan(node->link);
	int err = -ENOTCONN;

	/* Asked of the channel that takes it: the next one may be another. */
	if (chan) {
		err = -EPERM;
		if (clear || chan->auth != FLT_AUTH_NONE)
			err = flt_chan_send(chan, type, vec, nr, NULL, GFP_KERNEL);
		flt_chan_put(chan);
	}
	return flt_link_count(node->link, err);
}
EXPORT_SYMBOL_GPL(flt_link_send_secret);

int flt_link_send(struct flt_node *node, u8 type, const struct kvec *vec, unsigned int nr,
		  gfp_t gfp)
{
	return flt_link_send_bulk(node, type, vec, nr, NULL, gfp);
}
EXPORT_SYMBOL_GPL(flt_link_send);
