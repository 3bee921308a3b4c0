// SPDX-License-Identifier: GPL-2.0
/*
 * The services that this namespace takes connections for. Whoever gives a connection names its
 * client and its server freely, so a peer that has gone bad, or somebody who speaks in its
 * place, could reach any listener of this machine in anybody's name: nothing is adopted that
 * the operator has not listed, and never in the name of the machine itself.
 */

#include <linux/inetdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <net/addrconf.h>
#include <net/ip6_route.h>
#include <net/route.h>
#include "ktls.h"
#include "netlink.h"
#include "netns.h"
#include "service.h"
#include "table.h"

/* Searched from one end to the other at each adoption. */
#define FLT_SERVICE_MAX	256

/**
 * struct flt_service - one entry
 * @family: AF_INET or AF_INET6
 * @port:   network order; 0: every port
 * @addr:   an IPv4 address in the first four bytes, zeros behind it
 */
struct flt_service {
	u16 family;
	__be16 port;
	u8 addr[16];
};

/**
 * struct flt_services - the list of a namespace; replaced as a whole, read under RCU
 * @rcu:  for freeing
 * @nr:   of @list
 * @list: in the order of their coming
 */
struct flt_services {
	struct rcu_head rcu;
	unsigned int nr;
	struct flt_service list[] __counted_by(nr);
};

bool flt_service_insecure(const struct net *net)
{
	return READ_ONCE(flt_net(net)->insecure);
}
EXPORT_SYMBOL_GPL(flt_service_insecure);

void flt_service_set_insecure(struct flt_net *fn, bool on)
{
	struct flt_local local = {};

	if (READ_ONCE(fn->insecure) == on)
		return;
	WRITE_ONCE(fn->insecure, on);
	flt_local_copy(fn, &local);
	/* Root of a container may say so, for his own network, as often as he likes. */
	if (on)
		pr_warn_ratelimited("node %s is INSECURE now: it gives and takes connections over links that nobody has authenticated\n",
				    *local.name ? local.name : "(without a name)");
	else
		pr_notice_ratelimited("node %s gives and takes connections over authenticated links only\n",
				      *local.name ? local.name : "(without a name)");
}

/* An address that only this machine has, or that is nobody's: a client cannot have it. */
static bool flt_client4_possible(struct net *net, const struct flt_tuple *tuple)
{
	struct net_device *dev;
	__be32 addr;

	memcpy(&addr, tuple->client, sizeof(addr));
	/*
	 * 0.0.0.0/8 is this network. The local table has broadcast addresses and what is local
	 * by a route alone, too.
	 */
	if (ipv4_is_loopback(addr) || !(addr & htonl(0xff000000)) ||
	    inet_addr_type(net, addr) != RTN_UNICAST)
		return false;
	/* An address of a device in a VRF is in that VRF's table. */
	rcu_read_lock();
	dev = __ip_dev_find(net, addr, false);
	rcu_read_unlock();
	return !dev;
}

#if IS_ENABLED(CONFIG_IPV6)
static bool flt_client6_possible(struct net *net, const struct flt_tuple *tuple)
{
	struct in6_addr addr;
	struct rt6_info *rt;
	bool own;
	int type;

	memcpy(&addr, tuple->client, sizeof(addr));
	type = ipv6_addr_type(&addr);
	/* IPv4 addresses in IPv6 ones are loopback or multicast in another dress. */
	if (!(type & IPV6_ADDR_UNICAST) ||
	    type & (IPV6_ADDR_LOOPBACK | IPV6_ADDR_LINKLOCAL | IPV6_ADDR_MAPPED) ||
	    !(addr.s6_addr32[0] | addr.s6_addr32[1] | addr.s6_addr32[2]))
		return false;
	if (ipv6_chk_addr_and_flags(net, &addr, NULL, true, 0, 0))
		return false;
	rt = rt6_lookup(net, &addr, NULL, 0, NULL, 0);
	own = rt && rt->rt6i_flags & (RTF_LOCAL | RTF_ANYCAST);
	ip6_rt_put(rt);
	return !own;
}
#else
static bool flt_client6_possible(struct net *net, const struct flt_tuple *tuple)
{
	return false;
}
#endif

static bool flt_client_possible(struct net *net, const struct flt_tuple *tuple)
{
	if (!tuple->client_port)
		return false;
	return tuple->family == AF_INET ? flt_client4_possible(net, tuple) :
					  flt_client6_possible(net, tuple);
}

bool flt_service_has(struct net *net, u16 family, const u8 *addr, __be16 port)
{
	const struct flt_services *services;
	const struct flt_service *s;
	bool listed = false;
	unsigned int i;

	rcu_read_lock();
	services = rcu_dereference(flt_net(net)->services);
	for (i = 0; services && i < services->nr && !listed; i++) {
		s = &services->list[i];
		listed = s->family == family && (!s->port || !port || s->port == port) &&
			 !memcmp(s->addr, addr, sizeof(s->addr));
	}
	rcu_read_unlock();
	return listed;
}
EXPORT_SYMBOL_GPL(flt_service_has);

static bool flt_service_listed(struct net *net, const struct flt_tuple *tuple)
{
	return flt_service_has(net, tuple->family, tuple->server, tuple->server_port);
}

enum flt_refusal flt_service_permit(struct net *net, const struct flt_tuple *tuple)
{
	if (!flt_client_possible(net, tuple))
		return FLT_REFUSE_CLIENT;
	return flt_service_listed(net, tuple) ? FLT_REFUSE_NONE : FLT_REFUSE_SERVICE;
}
EXPORT_SYMBOL_GPL(flt_service_permit);

/* The address that a command names, into @addr of 16 bytes: its family, 0: none, or an errno. */
static int flt_service_get_addr(struct genl_info *info, union flt_addr *said, u8 *addr)
{
	int err = flt_get_addr(info, FLT_A_SERVICE_ADDR4, FLT_A_SERVICE_ADDR6, said);

	if (err <= 0)
		return err;
	if (said->sa.sa_family == AF_INET)
		memcpy(addr, &said->v4.sin_addr, sizeof(said->v4.sin_addr));
	else
		memcpy(addr, &said->v6.sin6_addr, sizeof(said->v6.sin6_addr));
	return said->sa.sa_family;
}

int flt_service_get_at(struct genl_info *info, struct flt_tuple *at)
{
	struct nlattr *port = info->attrs[FLT_A_SERVICE_PORT];
	union flt_addr addr = {};
	int family;

	memset(at, 0, sizeof(*at));
	family = flt_service_get_addr(info, &addr, at->server);
	if (family < 0)
		return family;
	if (!family || !port) {
		NL_SET_ERR_MSG(info->extack, "which service: give its address and port");
		return -EINVAL;
	}
	at->family = family;
	at->server_port = htons(nla_get_u16(port));
	return 0;
}

/* The entry that a command names: 0 or an errno with its sentence. */
static int flt_service_get(struct genl_info *info, struct flt_service *s)
{
	struct nlattr *port = info->attrs[FLT_A_SERVICE_PORT];
	union flt_addr addr = {};
	int family;

	memset(s, 0, sizeof(*s));
	family = flt_service_get_addr(info, &addr, s->addr);
	if (!family)
		NL_SET_ERR_MSG(info->extack, "which service: give its address");
	if (family <= 0)
		return family ?: -EINVAL;
	s->family = family;
	if (s->family == AF_INET ? ipv4_is_loopback(addr.v4.sin_addr.s_addr) :
				   ipv6_addr_loopback(&addr.v6.sin6_addr)) {
		NL_SET_ERR_MSG(info->extack, "a loopback address serves this machine only");
		return -EINVAL;
	}
	if (port)
		s->port = htons(nla_get_u16(port));
	return 0;
}

static struct flt_services *flt_services_of(struct flt_net *fn)
{
	return rcu_dereference_protected(fn->services, lockdep_is_held(&fn->lock));
}

/* Its place in the list, or the list's length. */
static unsigned int flt_service_find(const struct flt_services *services,
				     const struct flt_service *s)
{
	unsigned int i;

	for (i = 0; services && i < services->nr; i++)
		if (!memcmp(&services->list[i], s, sizeof(*s)))
			break;
	return i;
}

static struct flt_services *flt_services_alloc(unsigned int nr)
{
	struct flt_services *services;

	services = kzalloc(struct_size(services, list, nr), FLT_GFP);
	if (services)
		services->nr = nr;
	return services;
}

int flt_service_new(struct sk_buff *skb, struct genl_info *info)
{
	struct flt_net *fn = flt_net(genl_info_net(info));
	struct flt_services *was, *fresh = NULL;
	struct flt_service s;
	unsigned int nr;
	int err;

	err = flt_service_get(info, &s);
	if (err)
		return err;
	/* Its connections may be of TLS, and come when nothing can be loaded in time. */
	flt_ktls_load();
	mutex_lock(&fn->lock);
	was = flt_services_of(fn);
	nr = was ? was->nr : 0;
	if (flt_service_find(was, &s) < nr) {
		NL_SET_ERR_MSG(info->extack, "that service is listed");
		err = -EEXIST;
	} else if (nr == FLT_SERVICE_MAX) {
		NL_SET_ERR_MSG(info->extack, "256 services are listed already");
		err = -ENOSPC;
	} else {
		fresh = flt_services_alloc(nr + 1);
		err = fresh ? 0 : -ENOMEM;
	}
	if (!err) {
		if (was)
			memcpy(fresh->list, was->list, nr * sizeof(s));
		fresh->list[nr] = s;
		rcu_assign_pointer(fn->services, fresh);
		WRITE_ONCE(fn->change, fn->change + 1);
	}
	mutex_unlock(&fn->lock);
	if (!err)
		kfree_rcu(was, rcu);
	return err;
}

int flt_service_del(struct sk_buff *skb, struct genl_info *info)
{
	struct flt_net *fn = flt_net(genl_info_net(info));
	struct flt_services *was, *fresh = NULL;
	struct flt_service s;
	unsigned int nr, at;
	int err;

	err = flt_service_get(info, &s);
	if (err)
		return err;
	mutex_lock(&fn->lock);
	was = flt_services_of(fn);
	nr = was ? was->nr : 0;
	at = flt_service_find(was, &s);
	if (at == nr) {
		NL_SET_ERR_MSG(info->extack, "no such service is listed");
		err = -ENOENT;
	} else if (nr > 1) {
		fresh = flt_services_alloc(nr - 1);
		err = fresh ? 0 : -ENOMEM;
	}
	if (!err) {
		if (fresh) {
			memcpy(fresh->list, was->list, at * sizeof(s));
			memcpy(fresh->list + at, was->list + at + 1, (nr - at - 1) * sizeof(s));
		}
		rcu_assign_pointer(fn->services, fresh);
		WRITE_ONCE(fn->change, fn->change + 1);
	}
	mutex_unlock(&fn->lock);
	if (!err)
		kfree_rcu(was, rcu);
	return err;
}

int flt_service_put_addr(struct sk_buff *skb, u16 family, const u8 *addr)
{
	struct in6_addr addr6;
	__be32 addr4;

	if (family == AF_INET) {
		memcpy(&addr4, addr, sizeof(addr4));
		return nla_put_in_addr(skb, FLT_A_SERVICE_ADDR4, addr4);
	}
	memcpy(&addr6, addr, sizeof(addr6));
	return nla_put_in6_addr(skb, FLT_A_SERVICE_ADDR6, &addr6);
}

static int flt_service_put(struct sk_buff *skb, struct netlink_callback *cb,
			   const struct flt_service *s)
{
	void *head;
	int err;

	head = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq, &flt_family,
			   NLM_F_MULTI, FLT_CMD_SERVICE_GET);
	if (!head)
		return -EMSGSIZE;
	genl_dump_check_consistent(cb, head);
	err = flt_service_put_addr(skb, s->family, s->addr);
	if (!err && s->port)
		err = nla_put_u16(skb, FLT_A_SERVICE_PORT, ntohs(s->port));
	if (err)
		genlmsg_cancel(skb, head);
	else
		genlmsg_end(skb, head);
	return err;
}

int flt_service_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct flt_net *fn = flt_net(sock_net(skb->sk));
	const struct flt_services *services;
	unsigned int at = cb->args[0];
	int err = 0;

	cb->seq = READ_ONCE(fn->change);
	rcu_read_lock();
	services = rcu_dereference(fn->services);
	while (services && at < services->nr && !err) {
		err = flt_service_put(skb, cb, &services->list[at]);
		if (!err)
			at++;
	}
	rcu_read_unlock();
	cb->args[0] = at;
	return err && !skb->len ? err : skb->len;
}

void flt_service_clear(struct flt_net *fn)
{
	kfree_rcu(rcu_dereference_protected(fn->services, true), rcu);
	RCU_INIT_POINTER(fn->services, NULL);
}
