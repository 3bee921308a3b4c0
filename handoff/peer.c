// SPDX-License-Identifier: GPL-2.0
/* Peers, and what happens to their connections when they die. */

#include <linux/netdevice.h>
#include <linux/slab.h>

#include "adopt.h"
#include "claim.h"
#include "entry.h"
#include "guard.h"
#include "net.h"
#include "path.h"
#include "peer.h"
#include "redirect.h"
#include "resync.h"
#include "transfer.h"

/* For works that may wait; flushed before a namespace or the module goes. */
static struct workqueue_struct *hof_peer_wq;

static void hof_peer_free_rcu(struct rcu_head *rcu)
{
	struct hof_peer *peer = container_of(rcu, struct hof_peer, rcu);

	hof_path_free(rcu_dereference_protected(peer->path, 1));
	flt_node_put(peer->node);
	kfree(peer);
}

void hof_peer_put(struct hof_peer *peer)
{
	if (refcount_dec_and_test(&peer->ref))
		call_rcu(&peer->rcu, hof_peer_free_rcu);
}

/* What it had of ours is gone, or nobody knows. */
static void hof_peer_lose(struct hof_net *hn, struct hof_peer *peer)
{
	hof_adopt_node_down(hn, peer->node);
	atomic_inc(&peer->downs);
	/* Pairs with hof_transfer_done(), for a handoff that is being decided just now. */
	smp_mb__after_atomic();
	hof_entry_kill_peer(hn, peer);
}

static void hof_peer_grace(struct work_struct *work)
{
	struct hof_peer *peer = container_of(work, struct hof_peer, grace.work);
	struct hof_net *hn = peer->hn;

	if (hof_net_enter(hn)) {
		mutex_lock(&peer->link_lock);
		/*
		 * If it is up, hof_peer_up() decides; if it is down again, the next grace does, and
		 * until that begins what came over the link may still be worked on.
		 */
		if (!peer->up && !flt_node_is_up(peer->node) &&
		    time_after_eq(jiffies, peer->until))
			hof_peer_lose(hn, peer);
		mutex_unlock(&peer->link_lock);
		hof_net_leave(hn);
	}
	hof_peer_put(peer);
}

static void hof_peer_tell(struct work_struct *work)
{
	struct hof_peer *peer = container_of(work, struct hof_peer, tell);

	hof_resync_tell(peer->hn, peer);
	hof_peer_put(peer);
}

static struct hof_peer *hof_peer_create(struct hof_net *hn, struct flt_node *node)
{
	struct hof_peer *peer;
	int err;

	lockdep_assert_held(&hn->peer_lock);
	peer = kzalloc(sizeof(*peer), GFP_KERNEL);
	if (!peer)
		return ERR_PTR(-ENOMEM);
	peer->node = flt_node_get(node);
	peer->hn = hn;
	peer->instance = READ_ONCE(node->instance);
	refcount_set(&peer->ref, 1);
	spin_lock_init(&peer->lock);
	mutex_init(&peer->link_lock);
	mutex_init(&peer->claims_turn);
	mutex_init(&peer->held_turn);
	INIT_LIST_HEAD(&peer->held);
	INIT_LIST_HEAD(&peer->late);
	INIT_LIST_HEAD(&peer->claims);
	INIT_DELAYED_WORK(&peer->grace, hof_peer_grace);
	INIT_WORK(&peer->tell, hof_peer_tell);
	err = xa_err(xa_store(&hn->peers, node->id, peer, GFP_KERNEL));
	if (err) {
		hof_peer_put(peer);
		return ERR_PTR(err);
	}
	return peer;
}

/* Whoever holds a reference may come with a node that has left. */
static bool hof_peer_is_listed(struct hof_net *hn, const struct flt_node *node)
{
	struct flt_node *listed = flt_node_by_id(hn->net, node->id);

	flt_node_put(listed);
	return listed == node;
}

/*
 * It leaves the node table before NODE_REMOVED is told and the peer forgotten, so one that is made
 * here is forgotten then.
 */
static struct hof_peer *hof_peer_have(struct hof_net *hn, struct flt_node *node)
{
	struct hof_peer *peer;

	mutex_lock(&hn->peer_lock);
	peer = xa_load(&hn->peers, node->id);
	if (!peer)
		peer = hof_peer_is_listed(hn, node) ? hof_peer_create(hn, node) :
						      ERR_PTR(-EHOSTUNREACH);
	if (!IS_ERR(peer))
		refcount_inc(&peer->ref);
	mutex_unlock(&hn->peer_lock);
	return peer;
}

struct hof_peer *hof_peer_get(struct hof_net *hn, struct flt_node *node)
{
	struct hof_peer *peer;

	rcu_read_lock();
	peer = xa_load(&hn->peers, node->id);
	if (peer && !refcount_inc_not_zero(&peer->ref))
		peer = NULL;
	rcu_read_unlock();

	if (!peer) {
		peer = hof_peer_have(hn, node);
		if (IS_ERR(peer))
			return peer;
	}
	if (!hof_path_ready(peer)) {
		hof_peer_put(peer);
		return ERR_PTR(-EHOSTUNREACH);
	}
	return peer;
}

struct hof_peer *hof_peer_find(struct hof_net *hn, const struct flt_node *node)
{
	struct hof_peer *peer;

	mutex_lock(&hn->peer_lock);
	peer = xa_load(&hn->peers, node->id);
	if (peer)
		refcount_inc(&peer->ref);
	mutex_unlock(&hn->peer_lock);
	return peer;
}

struct hof_peer *hof_peer_next(struct hof_net *hn, unsigned long *id)
{
	struct hof_peer *peer;

	mutex_lock(&hn->peer_lock);
	peer = xa_find(&hn->peers, id, ULONG_MAX, XA_PRESENT);
	if (peer)
		refcount_inc(&peer->ref);
	mutex_unlock(&hn->peer_lock);
	++*id;
	return peer;
}

struct hof_peer *hof_peer_expect(struct hof_net *hn, struct flt_node *node)
{
	int err = hof_guard_hook(hn);

	return err ? ERR_PTR(err) : hof_peer_have(hn, node);
}

/* Its grace does not end any more, unless it is ending now. */
static void hof_peer_quiet(struct hof_peer *peer)
{
	if (cancel_delayed_work(&peer->grace))
		hof_peer_put(peer);
}

/* A node of the same id never comes back, so a new peer will not be made. */
static void hof_peer_forget(struct hof_net *hn, const struct flt_node *node)
{
	struct hof_peer *peer;

	mutex_lock(&hn->peer_lock);
	peer = xa_erase(&hn->peers, node->id);
	mutex_unlock(&hn->peer_lock);
	if (!peer)
		return;
	hof_hint_forget(hn, peer);
	/* Entries hold the peer as long as they linger; it must not pin a device for that long. */
	hof_path_drop(peer);
	hof_peer_quiet(peer);
	hof_peer_put(peer);
}

/* Up again within its grace it is what it was, unless it is another instance. */
static void hof_peer_up(struct hof_net *hn, struct flt_node *node, struct hof_peer *peer)
{
	u64 instance = READ_ONCE(node->instance);

	hof_guard_hook(hn);	/* or when the node gives us something */
	mutex_lock(&peer->link_lock);
	hof_peer_quiet(peer);
	WRITE_ONCE(peer->ups, peer->ups + 1);
	if (peer->instance != instance) {
		hof_peer_lose(hn, peer);
		hof_adopt_node_gone(hn, node);
		hof_claim_node_gone(hn, peer, false);
	}
	peer->instance = instance;
	peer->up = true;
	mutex_unlock(&peer->link_lock);
	refcount_inc(&peer->ref);
	if (!queue_work(hof_peer_wq, &peer->tell))
		hof_peer_put(peer);
}

/*
 * A link that is down is no dead node: its connections go on, and their packets are forwarded.
 * What was being asked is not answered now.
 */
static void hof_peer_down(struct hof_net *hn, struct flt_node *node, struct hof_peer *peer)
{
	unsigned int ms = flt_grace_ms(hn->net);

	hof_transfer_node_down(hn, node);
	mutex_lock(&peer->link_lock);
	peer->up = false;
	peer->until = jiffies + msecs_to_jiffies(ms);
	if (!ms)
		hof_peer_lose(hn, peer);
	mutex_unlock(&peer->link_lock);
	if (!ms)
		return;
	refcount_inc(&peer->ref);
	if (!queue_delayed_work(hof_peer_wq, &peer->grace, msecs_to_jiffies(ms)))
		hof_peer_put(peer);
}

static void hof_peer_removed(struct hof_net *hn, struct flt_node *node, struct hof_peer *peer)
{
	hof_transfer_node_down(hn, node);
	mutex_lock(&peer->link_lock);
	peer->up = false;
	hof_peer_lose(hn, peer);
	hof_adopt_node_gone(hn, node);
	hof_claim_node_gone(hn, peer, true);
	mutex_unlock(&peer->link_lock);
	hof_peer_forget(hn, node);
}

static int hof_peer_event(struct notifier_block *nb, unsigned long event, void *data)
{
	struct flt_node *node = data;
	struct hof_net *hn = hof_net(node->net);
	struct hof_peer *peer;

	if (event != FLT_EVENT_NODE_UP && event != FLT_EVENT_NODE_DOWN &&
	    event != FLT_EVENT_NODE_REMOVED)
		return NOTIFY_DONE;
	if (!hof_net_enter(hn))
		return NOTIFY_DONE;
	peer = hof_peer_have(hn, node);
	if (IS_ERR(peer)) {
		/* Nothing was given to it, or it has left. What it gave goes by its own clock. */
		hof_transfer_node_down(hn, node);
		if (event == FLT_EVENT_NODE_REMOVED)
			hof_adopt_node_gone(hn, node);
		goto leave;
	}
	if (event == FLT_EVENT_NODE_UP)
		hof_peer_up(hn, node, peer);
	else if (event == FLT_EVENT_NODE_DOWN)
		hof_peer_down(hn, node, peer);
	else
		hof_peer_removed(hn, node, peer);
	hof_peer_put(peer);
leave:
	hof_net_leave(hn);
	return NOTIFY_OK;
}

/* A path pins its device through the neighbour: let go when that device goes. */
static int hof_peer_device_event(struct notifier_block *nb, unsigned long event, void *data)
{
	struct net_device *dev = netdev_notifier_info_to_dev(data);
	struct hof_net *hn = hof_net(dev_net(dev));
	struct hof_peer *peer;
	unsigned long id;

	if (event != NETDEV_DOWN && event != NETDEV_UNREGISTER)
		return NOTIFY_DONE;
	rcu_read_lock();
	xa_for_each(&hn->peers, id, peer)
		hof_path_drop_device(peer, dev);
	rcu_read_unlock();
	return NOTIFY_OK;
}

static struct notifier_block hof_peer_nb = {
	.notifier_call = hof_peer_event,
};

static struct notifier_block hof_peer_device_nb = {
	.notifier_call = hof_peer_device_event,
};

int __init hof_peer_init(void)
{
	hof_peer_wq = alloc_workqueue("hof_peer", WQ_UNBOUND, 0);
	return hof_peer_wq ? 0 : -ENOMEM;
}

void hof_peer_exit(void)
{
	destroy_workqueue(hof_peer_wq);
}

int hof_peer_watch(void)
{
	int err;

	err = flt_node_notifier_register(&hof_peer_nb);
	if (err)
		return err;
	err = register_netdevice_notifier(&hof_peer_device_nb);
	if (err)
		flt_node_notifier_unregister(&hof_peer_nb);
	return err;
}

void hof_peer_unwatch(void)
{
	unregister_netdevice_notifier(&hof_peer_device_nb);
	flt_node_notifier_unregister(&hof_peer_nb);
}

void hof_peer_net_init(struct hof_net *hn)
{
	mutex_init(&hn->peer_lock);
	xa_init(&hn->peers);
}

void hof_peer_net_exit(struct hof_net *hn)
{
	struct hof_peer *peer;
	unsigned long id;

	xa_for_each(&hn->peers, id, peer) {
		xa_erase(&hn->peers, id);
		hof_peer_quiet(peer);
		hof_peer_put(peer);
	}
	/* Works of peers that were forgotten before, too. */
	flush_workqueue(hof_peer_wq);
	xa_destroy(&hn->peers);
}
