/* SPDX-License-Identifier: GPL-2.0 */
/* What handoff keeps for each network namespace. */
#ifndef HOF_NET_H
#define HOF_NET_H

#include <linux/hashtable.h>
#include <linux/mutex.h>
#include <linux/netfilter.h>
#include <linux/rhashtable-types.h>
#include <linux/rwsem.h>
#include <linux/siphash.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <net/net_namespace.h>

#include "flight.h"

/**
 * struct hof_tunables - net.flotilla.* of this namespace; READ_ONCE
 * @handoff:        0 refuses to give connections away
 * @adopt:          0 refuses to take connections
 * @adopt_cwnd:     1: go on with the congestion window of the giver
 * @timeout_ms:     how long a node may take to answer
 * @query_ms:       when an adoption without COMMIT is asked about
 * @deadline_ms:    when one is given up
 * @pending_max:    adoptions of one node that wait for COMMIT
 * @linger_ms:      how long a closed connection is still forwarded
 * @linger_rst_ms:  the same when the client has sent a RST
 * @idle_s:         when an entry without packets goes
 * @forward_max:    entries of one address family
 * @hold_max:       packets held for one connection
 * @hold_max_kb:    memory of all packets held, in KB
 * @from_nodes:     1: packets in tunnels are for services only if a node sent them
 * @keys_in_clear:  1: keys go over links that are not encrypted, too
 * @takeover:       0 refuses to tell another front-end of connections
 * @relocate:       0 refuses to hand connections on for a front-end that asks for it
 * @takeover_hold_ms: how long packets of connections that are not known wait for that
 * @migrate_bytes:  a policy that wants more has to do with so many
 * @migrate_wait_ms: and with what came by then
 * @migrate_max_hops: so often policies move one connection
 * @redirect_max:    entries of redirected connections; no more are made
 * @redirect_syn_max: those of them whose handshake is not seen to be complete
 * @redirect_syn_ms: how long one of these stays without a packet
 * @redirect_hint_ms: how often loads are looked at, and told to other nodes
 * @send_max:       unacknowledged bytes that a connection may have to be given away
 * @unread_max:     the same of bytes that its program has not read
 */
struct hof_tunables {
	u32 handoff;
	u32 adopt;
	u32 adopt_cwnd;
	u32 timeout_ms;
	u32 query_ms;
	u32 deadline_ms;
	u32 pending_max;
	u32 linger_ms;
	u32 linger_rst_ms;
	u32 idle_s;
	u32 forward_max;
	u32 hold_max;
	u32 hold_max_kb;
	u32 from_nodes;
	u32 send_max;
	u32 unread_max;
	u32 keys_in_clear;
	u32 takeover;
	u32 relocate;
	u32 takeover_hold_ms;
	u32 redirect_max;
	u32 redirect_syn_max;
	u32 redirect_syn_ms;
	u32 redirect_hint_ms;
	u32 migrate_bytes;
	u32 migrate_wait_ms;
	u32 migrate_max_hops;
};

/**
 * struct hof_linger - the entries of one table that are over
 * @list: in the order of their end
 * @nr:   of them; READ_ONCE
 */
struct hof_linger {
	struct list_head list;
	unsigned int nr;
};

/* At most 16,384 and 1,024 are in it. */
#define HOF_UNDECIDED_BITS	9
#define HOF_CLAIMS_BITS		6

/* Looks at a busy connection are 10, 20, 40, ... ms apart. */
#define HOF_BUSY_LISTS	6

struct ctl_table;
struct ctl_table_header;
struct hof_file;
struct hof_given;
struct hof_life_batch;
struct hof_redirect_batch;

/* Bit of hof_net.hint_flags: @hint is to run soon. */
#define HOF_HINT_KICKED	0

/**
 * struct hof_net - a network namespace
 * @net:       it
 * @tunables:  see there
 * @stats:     per-CPU counters, enum hof_stat
 * @live:      read-held while a message or a node event is worked on; written
 *	       once, at the end of the namespace
 * @going:     no more work; under @live
 * @assigned:  services with a policy; RCU, changed under hof_policy_lock
 * @nr_assigned: of them; under hof_policy_lock
 * @gates:     submits what policies move; NULL: there has been none. Changed under hof_policy_lock
 * @gate_watch: looks for listeners of services with a policy
 * @admit_size: changes the lengths of their queues
 * @room_lock: guards the next; process context
 * @owed:      other nodes that are told when there is room (admit_room.c)
 * @room:      looks whether there is
 * @entries4:  forwarding entries, keyed by addresses and ports
 * @entries6:  the same for IPv6; inserted to only under RCU or in process context
 * @walk4:     how far @sweep has come
 * @walk6:     the same
 * @sweep:     ends entries whose time has come
 * @linger_lock: guards the next; softirq too; a leaf
 * @linger4:   entries of @entries4 whose connection is over, oldest first
 * @linger6:   the same of @entries6
 * @held:      bytes of memory of packets that wait in hold queues
 * @hook_lock: serialises @hooked and @guarded; process context, outermost
 * @hooked:    the netfilter hooks are registered; read without @hook_lock too
 * @guarded:   those of guard.c are; read without @hook_lock too
 * @peer_lock: serialises creation and removal of peers; process context
 * @peers:     struct hof_peer by node id; RCU
 * @flight:    handoffs under way; its own lock
 * @epoch:     random, of this life of the module; high half of the ids given out here; not 0
 * @last_id:   low half of the last of them
 * @voucher_key: random; see origin.c
 * @takeover_lock: guards @takeovers and changes of @standbys; process context
 * @takeovers: under way
 * @standbys:  services whose connections may be taken over; RCU
 * @nr_standbys: length of @standbys; READ_ONCE
 * @successor_turn: held by who tells another front-end of a page; process context, outside the
 *	       peers' @held_turn
 * @redirect_lock: guards @redirects and what is in them; process context
 * @redirects:   struct hof_redirect, services whose SYNs may go to other nodes; RCU
 * @nr_redirects: length of @redirects; READ_ONCE
 * @nr_redirected: entries of redirected connections
 * @nr_unopened: those of them that are HOF_REDIRECT_PENDING
 * @hint:        looks at the loads here and tells them
 * @hint_flags:  HOF_HINT_KICKED
 * @redirect_batch: of @sweep: what is to be asked; NULL: nothing was
 * @early_lock: guards changes of @earlies; process context, outside @redirect_lock
 * @earlies:    services that are opened before there is a socket; RCU
 * @nr_earlies: length of @earlies; READ_ONCE
 * @early_shaken: of their clients (early.c); NULL: there never was a service
 * @early_given: connections that were given so (given.h); with @early_shaken
 * @relocate_lock: guards the next; process context
 * @askings:    questions of this node that wait for an answer (relocate.c)
 * @removals:   what other nodes have asked for (removal.c)
 * @endings:    the same, and it is over, and not yet gone
 * @adopt_lock: guards the lists and numbers below; softirq too; a leaf
 * @adopted:   every connection taken and not yet ended
 * @pending:   those of them that wait for COMMIT, by when that is given up
 * @asking:    the same, by when to ask about them
 * @late:      given up without COMMIT or ABORT, oldest first
 * @undecided: both, by giver and id
 * @handed:    those of @pending that were handed on by who is not their origin, by addresses
 * @pending_seed: of @undecided and @handed
 * @claims:    struct hof_claim that have not been answered, by the id that we chose
 * @busy:      those whose giver wants to know when they are idle, and are not; by how
 *	       long after one look the next comes, the next due first
 * @telling:   those that have something to tell
 * @watching:  @watch is going to run, at @watch_at or before
 * @watch_at:  jiffies
 * @watched_no_more: nobody is put into @busy any more
 * @nr_adopted: length of @adopted
 * @nr_pending: length of @pending
 * @nr_telling: length of @telling
 * @nr_claims:  of @claims; READ_ONCE
 * @nr_relays:  what was handed on and is still to be told of; READ_ONCE
 * @untold:    the namespace goes: nobody is told of anything
 * @ask:       looks after @pending
 * @claim:     looks after @claims
 * @tell:      sends what @telling has
 * @watch:     looks at those of @busy that are due
 * @tell_lock: held by who sends what @telling has; outside @adopt_lock
 * @batch:     under @tell_lock: records that the link had no room for
 */
struct hof_net {
	struct net *net;
	struct hof_tunables tunables;
	struct ctl_table *table;
	struct ctl_table_header *header;
	u64 __percpu *stats;

	struct rw_semaphore live;
	bool going;

	struct list_head assigned;
	unsigned int nr_assigned;
	struct hof_file *gates;
	struct delayed_work gate_watch;
	struct delayed_work admit_size;

	struct mutex room_lock;	/* the following */
	struct list_head owed;
	struct delayed_work room;

	struct rhashtable entries4;
	struct rhashtable entries6;
	struct rhashtable_iter walk4;
	struct rhashtable_iter walk6;
	struct delayed_work sweep;

	spinlock_t linger_lock;	/* the following */
	struct hof_linger linger4;
	struct hof_linger linger6;

	atomic_long_t held;

	struct mutex hook_lock;	/* @hooked, @guarded */
	bool hooked;
	struct nf_hook_ops hooks[2];
	bool guarded;
	struct nf_hook_ops guards[2];

	struct mutex peer_lock;	/* changes of @peers */
	struct xarray peers;

	struct hof_flight flight;
	u32 epoch;
	atomic_t last_id;
	siphash_key_t voucher_key;

	struct mutex takeover_lock;	/* the following */
	struct list_head takeovers;
	struct list_head standbys;
	unsigned int nr_standbys;
	struct mutex successor_turn;	/* see above */

	struct mutex redirect_lock;	/* the following */
	struct list_head redirects;
	unsigned int nr_redirects;
	atomic_t nr_redirected;
	atomic_t nr_unopened;
	struct delayed_work hint;
	unsigned long hint_flags;
	struct hof_redirect_batch *redirect_batch;

	struct mutex early_lock;	/* the following */
	struct list_head earlies;
	unsigned int nr_earlies;
	u64 *early_shaken;
	struct hof_given *early_given;

	struct mutex relocate_lock;	/* the following */
	struct list_head askings;
	struct list_head removals;
	struct list_head endings;

	spinlock_t adopt_lock;	/* the following */
	struct list_head adopted;
	struct list_head pending;
	struct list_head asking;
	struct list_head late;
	DECLARE_HASHTABLE(undecided, HOF_UNDECIDED_BITS);
	DECLARE_HASHTABLE(handed, HOF_UNDECIDED_BITS);
	u32 pending_seed;
	DECLARE_HASHTABLE(claims, HOF_CLAIMS_BITS);
	struct list_head busy[HOF_BUSY_LISTS];
	bool watching;
	bool watched_no_more;
	unsigned long watch_at;
	struct list_head telling;
	unsigned int nr_adopted;
	unsigned int nr_pending;
	unsigned int nr_telling;
	unsigned int nr_claims;
	unsigned int nr_relays;
	bool untold;
	struct delayed_work ask;
	struct delayed_work claim;
	struct delayed_work tell;
	struct delayed_work watch;
	struct mutex tell_lock;	/* the following, and who sends */
	struct hof_life_batch *batch;
};

/* Unique among those under way: no time-out is so long that it comes round. */
static inline u64 hof_net_new_id(struct hof_net *hn)
{
	return (u64)hn->epoch << 32 | (u32)atomic_inc_return(&hn->last_id);
}

extern unsigned int hof_net_id;

struct hof_net *hof_net(const struct net *net);
int hof_net_register(void);
void hof_net_unregister(void);

/* For module exit, in every namespace: what others have asked to be handed on stays. */
void hof_net_stay(void);
/* And what waits for other nodes is undone. */
void hof_net_withdraw(void);

/*
 * Messages and node events may still come while the namespace is taken down:
 * the work on one is bracketed by these. False: leave it.
 */
bool hof_net_enter(struct hof_net *hn);
void hof_net_leave(struct hof_net *hn);

#endif
