// SPDX-License-Identifier: GPL-2.0
/* Which services are opened before there is a socket, and what their packets are. */

#include <linux/jhash.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/netdevice.h>
#include <linux/netfilter_ipv4.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <net/ip.h>
#include <net/route.h>
#include <net/tcp.h>
#include <net/xfrm.h>

#include "kmod/compat/cookie.h"
#include "kmod/compat/lookup.h"
#include "kmod/node.h"

#include "cookie.h"
#include "counter.h"
#include "early.h"
#include "forward.h"
#include "given.h"
#include "peer.h"
#include "redirect.h"
#include "ticket.h"

/* How long a listener is believed to be as it was. */
#define HOF_EARLY_LOOK	(HZ / 10)

/* Slots of hn->early_shaken, and how long a SYN does not take one of a client that has answered. */
#define HOF_EARLY_SHAKEN	16384
#define HOF_EARLY_KEPT		(10 * HZ)

void hof_early_net_init(struct hof_net *hn)
{
	mutex_init(&hn->early_lock);
	INIT_LIST_HEAD(&hn->earlies);
}

void hof_early_net_exit(struct hof_net *hn)
{
	kvfree(hn->early_shaken);
	hof_given_free(hn->early_given);
}

/* RCU, or hn->early_lock. */
static struct hof_early_rule *hof_early_find(struct hof_net *hn, __be32 address, __be16 port)
{
	struct hof_early_rule *r;

	list_for_each_entry_rcu(r, &hn->earlies, node, lockdep_is_held(&hn->early_lock))
		if (r->address == address && r->port == port)
			return r;
	return NULL;
}

/* --- the listener --- */

static struct sock *hof_early_listener(struct hof_net *hn, __be32 client, __be16 from,
				       __be32 server, __be16 to, int dif)
{
	return flt_compat_listener4(hn->net, NULL, 0, client, from, server, ntohs(to), dif);
}

void hof_early_leave(struct hof_net *hn, const struct flt_tuple *tuple, int dif)
{
	__be32 client, server;
	struct sock *sk;

	memcpy(&client, tuple->client, sizeof(client));
	memcpy(&server, tuple->server, sizeof(server));
	sk = hof_early_listener(hn, client, tuple->client_port, server, tuple->server_port, dif);
	if (sk)
		flt_compat_cookies_expected(sk);
}

/* Softirq, or bottom halves off. */
static void hof_early_look(struct hof_early_rule *r, const struct hof_key4 *key, int dif)
{
	struct hof_net *hn = r->hn;
	struct flt_door door;
	struct sock *sk;
	bool open;

	if (!spin_trylock(&r->lock))
		return;		/* somebody looks just now */
	sk = hof_early_listener(hn, key->client, key->client_port, r->address, r->port, dif);
	open = sk && READ_ONCE(hn->net->ipv4.sysctl_tcp_syncookies) &&
	       inet_addr_type(hn->net, r->address) == RTN_LOCAL && flt_door_of(sk, &door);
	write_seqcount_begin(&r->version);
	r->open = open;
	if (open)
		r->door = door;
	write_seqcount_end(&r->version);
	WRITE_ONCE(r->looked, jiffies);
	spin_unlock(&r->lock);
}

static bool hof_early_door(struct hof_early_rule *r, const struct hof_key4 *key, int dif,
			   struct flt_door *door)
{
	unsigned int seq;
	bool open;

	if (time_after(jiffies, READ_ONCE(r->looked) + HOF_EARLY_LOOK))
		hof_early_look(r, key, dif);
	do {
		seq = read_seqcount_begin(&r->version);
		open = r->open;
		*door = r->door;
	} while (read_seqcount_retry(&r->version, seq));
	return open;
}

/* --- handshakes --- */

/*
 * The first segment of a request may be lost or late. The others have no cookie, and TCP would
 * reset their client. With the number of its SYN they have one: that is in a slot, which the client
 * may share. In the upper half is when its ACK came, 0: not yet; a flood of SYNs does not drive it
 * out.
 */
static u64 *hof_early_slot(const struct hof_early_rule *r, const struct hof_key4 *key)
{
	u32 ports = (__force u32)key->client_port << 16 | (__force u32)key->server_port;
	u32 hash = jhash_3words((__force u32)key->client, (__force u32)key->server, ports,
				net_hash_mix(r->hn->net));

	return &r->shaken[hash % HOF_EARLY_SHAKEN];
}

static void hof_early_note_syn(u64 *slot, u32 number)
{
	u32 at = READ_ONCE(*slot) >> 32;

	if (!at || (u32)jiffies - at > HOF_EARLY_KEPT)
		WRITE_ONCE(*slot, number);
}

static void hof_early_note_ack(u64 *slot, u32 number)
{
	WRITE_ONCE(*slot, (u64)((u32)jiffies | 1) << 32 | number);
}

/* What followed has come. */
static void hof_early_note_none(u64 *slot, u32 number)
{
	if ((u32)READ_ONCE(*slot) == number)
		WRITE_ONCE(*slot, 0);
}

/* It is of a connection whose first segment has not come, and will be sent again. */
static bool hof_early_is_late(const u64 *slot, const struct sk_buff *skb)
{
	u64 what = READ_ONCE(*slot);

	return what && hof_cookie_is_behind(skb, what);
}

/* --- packets --- */

static bool hof_early_has_socket(struct hof_net *hn, const struct hof_key4 *key, int dif)
{
	struct sock *sk = flt_compat_established4(hn->net, key->client, key->client_port,
						  key->server, ntohs(key->server_port), dif);

	if (sk)
		sock_gen_put(sk);
	return sk;
}

static unsigned int hof_early_syn(struct hof_early_rule *r, const struct hof_key4 *key,
				  const struct flt_door *door, struct sk_buff *skb)
{
	/* Before its client may answer. */
	hof_early_note_syn(hof_early_slot(r, key), ntohl(tcp_hdr(skb)->seq));
	if (!hof_cookie_answer(r->hn, door, skb)) {
		hof_count(r->hn, HOF_STAT_EARLY_UNANSWERED);
		return NF_ACCEPT;
	}
	hof_count(r->hn, HOF_STAT_EARLY_SYNS);
	consume_skb(skb);
	return NF_STOLEN;
}

/*
 * Something of it is here: a node gets it, or the listener. If a node has had it there is no entry
 * of it any more, or there will be in a moment, by a copy that came on another CPU: no RST.
 */
static unsigned int hof_early_begin(struct hof_early_rule *r, const struct flt_opening *o,
				    struct sk_buff *skb, unsigned int offset,
				    const struct nf_hook_state *state)
{
	const struct tcphdr *th = tcp_hdr(skb);
	struct hof_net *hn = r->hn;
	struct hof_given_mark mark;
	int err;

	err = hof_given_add(r->given, o, &mark);
	if (err == -EEXIST) {
		hof_count(hn, HOF_STAT_EARLY_AGAIN);
		return NF_DROP;
	}
	if (err)
		hof_count(hn, HOF_STAT_EARLY_FULL);
	if (!err && !th->fin && !th->urg &&
	    hof_early_give(r, o, &mark, skb, offset, skb->len - offset, state) == NF_STOLEN)
		return NF_STOLEN;
	if (!err)
		hof_given_forget(&mark);
	hof_count(hn, HOF_STAT_EARLY_LEFT);
	hof_early_leave(hn, &o->tuple, state->in->ifindex);
	return NF_ACCEPT;
}

/* Answered as TCP would; it may have no data, or a byte that means nothing. */
static bool hof_early_probe(struct hof_early_rule *r, const struct flt_door *door,
			    struct sk_buff *skb)
{
	struct flt_opening o;

	if (!hof_cookie_read_probe(r->hn, door, skb, &o) || hof_given_has(r->given, &o) ||
	    !hof_cookie_answer_probe(r->hn, &o, skb))
		return false;
	hof_count(r->hn, HOF_STAT_EARLY_PROBES);
	consume_skb(skb);
	return true;
}

/* A cookie of a small MSS is one of the next number too: the number of its SYN tells which. */
static bool hof_early_is_before(const u64 *slot, const struct sk_buff *skb)
{
	u64 what = READ_ONCE(*slot);

	return what && (u32)what == ntohl(tcp_hdr(skb)->seq);
}

static unsigned int hof_early_ack(struct hof_early_rule *r, const struct hof_key4 *key,
				  const struct flt_door *door, struct sk_buff *skb,
				  const struct nf_hook_state *state)
{
	u64 *slot = hof_early_slot(r, key);
	const struct tcphdr *th = tcp_hdr(skb);
	unsigned int offset = skb_transport_offset(skb) + th->doff * 4;
	bool tiny = !th->fin && skb->len <= offset + 1;
	struct hof_net *hn = r->hn;
	struct flt_opening o;

	if (hof_early_is_before(slot, skb) || !hof_cookie_read(hn, door, skb, &o)) {
		if (tiny && hof_early_probe(r, door, skb))
			return NF_STOLEN;
		hof_count(hn, HOF_STAT_EARLY_STRANGERS);
		return hof_early_is_late(slot, skb) ? NF_DROP : NF_ACCEPT;
	}
	/* Its request follows; until then there is nothing to remember. */
	if (skb->len <= offset && !th->fin) {
		hof_early_note_ack(slot, o.seq - 1);
		hof_count(hn, HOF_STAT_EARLY_ACKS);
		consume_skb(skb);
		return NF_STOLEN;
	}
	hof_early_note_none(slot, o.seq - 1);
	return hof_early_begin(r, &o, skb, offset, state);
}

/* What comes by a VRF has addresses, listeners and routes of its own. */
static bool hof_early_may_come_by(const struct net_device *dev)
{
	return !(dev->flags & IFF_LOOPBACK) && !netif_is_l3_slave(dev) && !netif_is_l3_master(dev);
}

/* Neither a node nor the hook answers under IPsec; what must come under it is TCP's to refuse. */
static bool hof_early_may_come_in_clear(struct sk_buff *skb)
{
	return !secpath_exists(skb) && xfrm4_policy_check(NULL, XFRM_POLICY_IN, skb);
}

unsigned int hof_early_packet(struct hof_net *hn, const struct hof_key4 *key,
			      struct sk_buff *skb, const struct nf_hook_state *state)
{
	struct hof_early_rule *r = hof_early_find(hn, key->server, key->server_port);
	int dif = state->in->ifindex;
	const struct tcphdr *th;
	struct flt_door door;
	unsigned int at;

	if (!r || ip_hdr(skb)->ihl != 5 || skb->pkt_type != PACKET_HOST ||
	    !hof_early_may_come_by(state->in))
		return NF_ACCEPT;
	at = skb_network_offset(skb) + sizeof(struct iphdr);
	skb_set_transport_header(skb, at);
	if (tcp_hdr(skb)->doff < 5 || !pskb_may_pull(skb, at + tcp_hdr(skb)->doff * 4))
		return NF_ACCEPT;
	th = tcp_hdr(skb);
	/* Nothing else begins a connection. */
	if (th->rst || th->syn == th->ack || (th->syn && th->fin))
		return NF_ACCEPT;
	if (!hof_early_may_come_in_clear(skb) ||
	    !hof_early_door(r, key, dif, &door) || hof_early_has_socket(hn, key, dif) ||
	    nf_ip_checksum(skb, NF_INET_PRE_ROUTING, at, IPPROTO_TCP))
		return NF_ACCEPT;
	return th->syn ? hof_early_syn(r, key, &door, skb) :
			 hof_early_ack(r, key, &door, skb, state);
}

/* --- rules --- */

static int hof_early_have_tables(struct hof_net *hn)
{
	lockdep_assert_held(&hn->early_lock);
	if (!hn->early_shaken)
		hn->early_shaken = kvcalloc(HOF_EARLY_SHAKEN, sizeof(*hn->early_shaken),
					    GFP_KERNEL_ACCOUNT);
	if (!hn->early_given)
		hn->early_given = hof_given_alloc(READ_ONCE(hn->tunables.forward_max));
	return hn->early_shaken && hn->early_given ? 0 : -ENOMEM;
}

static void hof_early_rule_free(struct rcu_head *rcu)
{
	struct hof_early_rule *r = container_of(rcu, struct hof_early_rule, rcu);

	mem_cgroup_put(r->memcg);
	kfree(r);
}

void hof_early_rule_put(struct hof_early_rule *r)
{
	unsigned int i;

	if (!refcount_dec_and_test(&r->ref))
		return;
	for (i = 0; i < r->nr_nodes; i++)
		if (r->nodes[i].peer)
			hof_peer_put(r->nodes[i].peer);
	call_rcu(&r->rcu, hof_early_rule_free);
}

bool hof_early_has(struct hof_net *hn, const struct flt_tuple *at)
{
	__be32 address;

	lockdep_assert_held(&hn->early_lock);
	memcpy(&address, at->server, sizeof(address));
	return at->family == AF_INET && hof_early_find(hn, address, at->server_port);
}

/* Its SYNs go to other nodes. No such rule comes before hn->early_lock is released. */
static bool hof_early_is_redirected(struct hof_net *hn, const struct hof_early_rule *r)
{
	struct flt_tuple at = { .family = AF_INET, .server_port = r->port };
	bool is;

	lockdep_assert_held(&hn->early_lock);
	memcpy(at.server, &r->address, sizeof(r->address));
	rcu_read_lock();
	is = hof_redirect_find(hn, &at);
	rcu_read_unlock();
	return is;
}

/* Clients that have a cookie go to the listener from now on. */
static void hof_early_drop(struct hof_early_rule *r)
{
	struct hof_net *hn = r->hn;
	struct sock *sk;

	lockdep_assert_held(&hn->early_lock);
	list_del_rcu(&r->node);
	WRITE_ONCE(hn->nr_earlies, hn->nr_earlies - 1);
	rcu_read_lock();
	sk = hof_early_listener(hn, 0, 0, r->address, r->port, 0);
	if (sk)
		flt_compat_cookies_expected(sk);
	rcu_read_unlock();
	hof_early_rule_put(r);
}

static int hof_early_add_node(struct hof_early_rule *r, u32 id)
{
	struct flt_node *node = flt_node_by_id(r->hn->net, id);
	struct hof_peer *peer;

	if (!node)
		return -ENOENT;
	peer = hof_peer_get(r->hn, node);
	flt_node_put(node);
	if (IS_ERR(peer))
		return PTR_ERR(peer);
	atomic_set(&r->nodes[r->nr_nodes].flying, 0);
	r->nodes[r->nr_nodes++].peer = peer;
	return 0;
}

/* Of a table: who cannot be had has an empty slot. */
static int hof_early_add_slot(struct hof_early_rule *r, u32 id, unsigned int *lost)
{
	int err = id ? hof_early_add_node(r, id) : -ENOENT;

	if (err != -ENOENT && err != -EHOSTUNREACH)
		return err;
	*lost += err == -EHOSTUNREACH;
	r->nr_nodes++;
	return 0;
}

static struct hof_early_rule *hof_early_create(struct hof_file *file, const struct hof_early *args,
					       unsigned int *lost)
{
	const u32 __user *ids = u64_to_user_ptr(args->nodes);
	struct hof_early_rule *r;
	unsigned int i;
	int err = 0;
	u32 id;

	r = kzalloc(struct_size(r, nodes, args->nr_nodes), GFP_KERNEL_ACCOUNT);
	if (!r)
		return ERR_PTR(-ENOMEM);
	refcount_set(&r->ref, 1);
	spin_lock_init(&r->lock);
	seqcount_spinlock_init(&r->version, &r->lock);
	r->hn = file->hn;
	r->file = file;
	r->memcg = get_mem_cgroup_from_mm(current->mm);
	memcpy(&r->address, args->address, sizeof(r->address));
	r->port = args->port;
	if (args->flags & HOF_EARLY_TABLE)
		r->table = hof_file_table(file);
	r->looked = jiffies - HOF_EARLY_LOOK - 1;
	for (i = 0; !err && i < args->nr_nodes; i++) {
		if (get_user(id, ids + i))
			err = -EFAULT;
		else if (r->table)
			err = hof_early_add_slot(r, id, lost);
		else
			err = hof_early_add_node(r, id);
	}
	if (!err)
		return r;
	hof_early_rule_put(r);
	return ERR_PTR(err);
}

static int hof_early_set(struct hof_net *hn, struct hof_file *file, struct hof_early_rule *r,
			 __be32 address, __be16 port)
{
	struct hof_early_rule *old = hof_early_find(hn, address, port);

	lockdep_assert_held(&hn->early_lock);
	if ((old && old->file != file) || (r && hof_early_is_redirected(hn, r)))
		return -EBUSY;
	if (!r && !old)
		return -ENOENT;
	if (r && !old && hn->nr_earlies == HOF_EARLY_MAX)
		return -ENOSPC;
	if (r && hof_early_have_tables(hn))
		return -ENOMEM;
	if (r) {
		r->shaken = hn->early_shaken;
		r->given = hn->early_given;
		list_add_rcu(&r->node, &hn->earlies);
		WRITE_ONCE(hn->nr_earlies, hn->nr_earlies + 1);
	}
	if (old)
		hof_early_drop(old);
	return 0;
}

static int hof_early_check(struct hof_file *file, const struct hof_early *args)
{
	if (args->size != sizeof(*args) || args->flags & ~HOF_EARLY_TABLE || !args->port ||
	    args->nr_nodes > HOF_EARLY_NODES ||
	    memchr_inv(args->address + 4, 0, sizeof(args->address) - 4))
		return -EINVAL;
	if (args->family != AF_INET)
		return -EAFNOSUPPORT;
	return args->flags & HOF_EARLY_TABLE && !hof_file_table(file) ? -ENOENT : 0;
}

long hof_early_ioctl(struct hof_file *file, void __user *arg)
{
	struct hof_early_rule *r = NULL;
	struct hof_net *hn = file->hn;
	struct hof_early args;
	unsigned int lost = 0;
	__be32 address;
	int err;

	/* What is opened so has passed no rule of a firewall for local input. */
	if (!capable(CAP_NET_ADMIN))
		return -EPERM;
	if (!FLT_COOKIES)
		return -EOPNOTSUPP;
	if (copy_from_user(&args, arg, sizeof(args)))
		return -EFAULT;
	err = hof_early_check(file, &args) ?: hof_forward_hook(hn);
	if (err)
		return err;
	if (args.nr_nodes) {
		r = hof_early_create(file, &args, &lost);
		if (IS_ERR(r))
			return PTR_ERR(r);
	}
	memcpy(&address, args.address, sizeof(address));
	mutex_lock(&hn->early_lock);
	err = hof_early_set(hn, file, r, address, args.port);
	mutex_unlock(&hn->early_lock);
	if (err && r)
		hof_early_rule_put(r);
	/* Packets that have seen it end begin nothing for this file once it may be closed. */
	if (!err && !r)
		synchronize_net();
	return err ?: lost;
}

void hof_early_file_closed(struct hof_file *file)
{
	struct hof_net *hn = file->hn;
	struct hof_early_rule *r, *next;
	bool had = false;

	mutex_lock(&hn->early_lock);
	list_for_each_entry_safe(r, next, &hn->earlies, node) {
		if (r->file != file)
			continue;
		hof_early_drop(r);
		had = true;
	}
	mutex_unlock(&hn->early_lock);
	if (had)
		synchronize_net();
}
