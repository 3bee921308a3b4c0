// SPDX-License-Identifier: GPL-2.0
/* Finding the way to a peer, and noticing when it has changed. */

#include <linux/slab.h>
#include <net/addrconf.h>
#include <net/ip6_route.h>
#include <net/route.h>

#include "net.h"
#include "path.h"

/* Room for the outer headers of the largest encapsulation: IPv6 and UDP. */
#define HOF_ENCAP_ROOM	(sizeof(struct ipv6hdr) + 8)

void hof_path_free(struct hof_path *path)
{
	if (!path)
		return;
	if (path->neigh)
		neigh_release(path->neigh);
	dst_release(path->dst);
	kfree(path);
}

static void hof_path_free_rcu(struct rcu_head *rcu)
{
	hof_path_free(container_of(rcu, struct hof_path, rcu));
}

static int hof_path_route4(struct hof_path *path, const struct sockaddr_in *to)
{
	struct flowi4 fl4 = { .daddr = to->sin_addr.s_addr };
	struct rtable *rt;

	rt = ip_route_output_key(path->net, &fl4);
	if (IS_ERR(rt))
		return PTR_ERR(rt);
	path->dst = &rt->dst;
	if (rt->rt_type != RTN_UNICAST)
		return -EHOSTUNREACH;
	if (path->forward == FLT_FORWARD_DIRECT && rt->rt_uses_gateway)
		return -EHOSTUNREACH;
	memcpy(&path->from, &fl4.saddr, 4);
	memcpy(&path->to, &fl4.daddr, 4);
	return 0;
}

static int hof_path_route6(struct hof_path *path, const struct sockaddr_in6 *to)
{
	struct flowi6 fl6 = { .daddr = to->sin6_addr, .flowi6_oif = to->sin6_scope_id };
	const struct rt6_info *rt;
	int err;

	/* The source is the route's, if it names one, as it is with IPv4. */
	err = ip6_dst_lookup(path->net, NULL, &path->dst, &fl6);
	if (err)
		return err;
	rt = dst_rt6_info(path->dst);
	if (rt->rt6i_flags & RTF_LOCAL)
		return -EHOSTUNREACH;
	if (path->forward == FLT_FORWARD_DIRECT && rt->rt6i_flags & RTF_GATEWAY)
		return -EHOSTUNREACH;
	path->cookie = rt6_get_cookie(rt);
	path->to = to->sin6_addr;
	path->from = fl6.saddr;
	return 0;
}

static bool hof_path_to(struct flt_node *node, union flt_addr *to)
{
	spin_lock_bh(&node->lock);
	*to = node->fwd_addr;
	spin_unlock_bh(&node->lock);
	if (to->sa.sa_family == AF_UNSPEC)
		*to = node->addr;
	return to->sa.sa_family == AF_INET || to->sa.sa_family == AF_INET6;
}

static struct hof_path *hof_path_make(struct hof_peer *peer)
{
	struct hof_path *path;
	union flt_addr to;
	int err;

	if (!hof_path_to(peer->node, &to))
		return NULL;
	path = kzalloc(sizeof(*path), GFP_ATOMIC);
	if (!path)
		return NULL;
	path->forward = READ_ONCE(peer->node->forward);
	path->family = to.sa.sa_family;
	path->net = peer->hn->net;
	path->genid = hof_path_genid(path->net, path->family);
	err = path->family == AF_INET ? hof_path_route4(path, &to.v4) :
					hof_path_route6(path, &to.v6);
	if (err)
		goto fail;
	path->headroom = LL_RESERVED_SPACE(path->dst->dev);
	if (path->forward != FLT_FORWARD_DIRECT) {
		path->headroom += HOF_ENCAP_ROOM;
		return path;
	}
	path->neigh = dst_neigh_lookup(path->dst, &path->to);
	if (!path->neigh)
		goto fail;
	dst_release(path->dst);
	path->dst = NULL;
	return path;

fail:
	hof_path_free(path);
	return NULL;
}

static void hof_path_set(struct hof_peer *peer, struct hof_path *path)
{
	struct hof_path *old;

	lockdep_assert_held(&peer->lock);
	old = rcu_replace_pointer(peer->path, path, lockdep_is_held(&peer->lock));
	if (old)
		call_rcu(&old->rcu, hof_path_free_rcu);
}

/* Once a tick at most: a flood to a node without a route must not cost a lookup each. */
struct hof_path *hof_path_renew(struct hof_peer *peer)
{
	struct hof_path *path;

	spin_lock_bh(&peer->lock);
	path = rcu_dereference_protected(peer->path, lockdep_is_held(&peer->lock));
	if ((path && hof_path_valid(path)) || peer->gone)
		goto out;
	if (!path && time_before_eq(jiffies, peer->retry))
		goto out;
	path = hof_path_make(peer);
	hof_path_set(peer, path);
	peer->retry = jiffies;
out:
	spin_unlock_bh(&peer->lock);
	return path;
}

static bool hof_path_matches(const struct hof_path *path, struct flt_node *node)
{
	union flt_addr to;

	if (path->forward != READ_ONCE(node->forward) || !hof_path_to(node, &to) ||
	    path->family != to.sa.sa_family)
		return false;
	if (path->family == AF_INET)
		return !memcmp(&path->to, &to.v4.sin_addr, 4);
	return ipv6_addr_equal(&path->to, &to.v6.sin6_addr);
}

bool hof_path_ready(struct hof_peer *peer)
{
	struct hof_path *path;
	bool ready;

	rcu_read_lock();
	path = rcu_dereference(peer->path);
	if (!path || !hof_path_matches(path, peer->node)) {
		spin_lock_bh(&peer->lock);
		hof_path_set(peer, NULL);
		peer->retry = jiffies - 1;
		spin_unlock_bh(&peer->lock);
	}
	ready = hof_path_get(peer);
	rcu_read_unlock();
	return ready;
}

void hof_path_drop_device(struct hof_peer *peer, const struct net_device *dev)
{
	const struct hof_path *path;

	spin_lock_bh(&peer->lock);
	path = rcu_dereference_protected(peer->path, lockdep_is_held(&peer->lock));
	if (path && (path->neigh ? path->neigh->dev : path->dst->dev) == dev)
		hof_path_set(peer, NULL);
	spin_unlock_bh(&peer->lock);
}

void hof_path_drop(struct hof_peer *peer)
{
	spin_lock_bh(&peer->lock);
	peer->gone = true;
	hof_path_set(peer, NULL);
	spin_unlock_bh(&peer->lock);
}
