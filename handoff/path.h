/* SPDX-License-Identifier: GPL-2.0 */
/* How packets get to a peer: the cached result of a route lookup. */
#ifndef HOF_PATH_H
#define HOF_PATH_H

#include <net/dst.h>
#include <net/ip6_fib.h>
#include <net/neighbour.h>
#include <net/net_namespace.h>

#include "peer.h"

/**
 * struct hof_path - never changes; replaced as a whole
 * @forward:  enum flt_forward of the node when this was made
 * @family:   of the addresses
 * @genid:    of the namespace's routes when this was made
 * @headroom: bytes that may be pushed before a packet
 * @neigh:    with DIRECT: the node itself; a counted reference
 * @dst:      else: the route of the outer packet; a counted reference
 * @cookie:   tells whether @dst is still what a lookup would find
 * @net:      of the peer
 * @from:     outer source address
 * @to:       the node's forwarding address
 */
struct hof_path {
	u8 forward;
	u8 family;
	int genid;
	unsigned int headroom;
	struct neighbour *neigh;
	struct dst_entry *dst;
	u32 cookie;
	struct net *net;
	struct in6_addr from;
	struct in6_addr to;
	struct rcu_head rcu;
};

static inline int hof_path_genid(const struct net *net, u8 family)
{
	return family == AF_INET ? rt_genid_ipv4(net) : rt_genid_ipv6(net);
}

/* Still what a new lookup would find. */
static inline bool hof_path_valid(const struct hof_path *path)
{
	if (path->genid != hof_path_genid(path->net, path->family))
		return false;
	if (path->neigh)
		return !READ_ONCE(path->neigh->dead);
	/* Fails also when a path MTU was learned, or (IPv6) one has expired. */
	return dst_check(path->dst, path->cookie);
}

/* Look again; NULL when there is no way. RCU; any context but hard interrupt. */
struct hof_path *hof_path_renew(struct hof_peer *peer);

/* The path to use now, or NULL. RCU. */
static inline struct hof_path *hof_path_get(struct hof_peer *peer)
{
	struct hof_path *path = rcu_dereference(peer->path);

	if (likely(path && hof_path_valid(path)))
		return path;
	return hof_path_renew(peer);
}

/* There is a path, made from what the node table says now. Any context but hard interrupt. */
bool hof_path_ready(struct hof_peer *peer);
/* Forget the path if it uses @dev. */
void hof_path_drop_device(struct hof_peer *peer, const struct net_device *dev);
/* No path from now on: the peer leaves the table, where hof_path_drop_device() looks for it. */
void hof_path_drop(struct hof_peer *peer);
/* NULL is fine; the caller waited for readers. */
void hof_path_free(struct hof_path *path);

#endif
