/* SPDX-License-Identifier: GPL-2.0 */
/* The forwarding table: whose each connection is that is not ours any more. */
#ifndef HOF_ENTRY_H
#define HOF_ENTRY_H

#include <linux/in6.h>
#include <linux/rhashtable-types.h>
#include <linux/spinlock.h>
#include <flotilla/flotilla.h>

struct hof_hold;
struct hof_net;
struct hof_peer;
struct hof_ticket;

/*
 * Of an entry and its ticket: what a memory cgroup has no room for is refused, and
 * nobody is killed for it.
 */
#define HOF_ENTRY_GFP	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/**
 * enum hof_state - of a forwarding entry
 * @HOF_HOLD:    the owner is being decided; packets wait in @hold
 * @HOF_FORWARD: packets go to the peer
 * @HOF_LINGER:  closed there; late packets still go to the peer
 * @HOF_DEAD:    the peer died; a packet draws a RST
 * @HOF_GONE:    unlinked; as if not found
 */
enum hof_state {
	HOF_HOLD,
	HOF_FORWARD,
	HOF_LINGER,
	HOF_DEAD,
	HOF_GONE,
};

/* The client's side first, as in the packets that are looked up. */
struct hof_key4 {
	__be32 client;
	__be32 server;
	__be16 client_port;
	__be16 server_port;
};

struct hof_key6 {
	struct in6_addr client;
	struct in6_addr server;
	__be16 client_port;
	__be16 server_port;
};

union hof_key {
	struct hof_key4 v4;
	struct hof_key6 v6;
};

/* What the client's packets told; a hint, since anyone can forge them. */
#define HOF_SAW_FIN	BIT(0)
#define HOF_SAW_RST	BIT(1)
/* A redirected one only: a SYN after it was open. */
#define HOF_SAW_SYN	BIT(2)

/**
 * struct hof_entry - one connection this node forwards
 * @hash:    in the table of its family
 * @peer:    owner; a counted reference; changes under @lock, in FORWARD, before @id does
 * @id:      of the handoff, as the peer knows it; read by hof_entry_id(), before @peer
 * @packets: forwarded; written by softirq without a lock: a flow whose packets
 *	     arrive on two CPUs at once may lose counts
 * @bytes:   the same
 * @used:    jiffies of the last packet; written by softirq without a lock
 * @expires: jiffies; in LINGER and DEAD: when that ends
 * @epoch:   until then: of the peer's life in which it took the connection; READ_ONCE
 * @asked:   instead, of a redirected one: jiffies when its peer was last asked about it; READ_ONCE
 * @born:    jiffies
 * @ups:     @peer's count of links when the peer was last known to have it; READ_ONCE
 * @acked:   the client's last ack_seq: the sequence number of a RST
 * @seen:    HOF_SAW_*; written by softirq without a lock
 * @family:  AF_INET or AF_INET6
 * @state:   enum hof_state; written under @lock, read by hof_entry_state()
 * @redirect: 0, or enum hof_redirect_phase: its SYN was redirected; changes under @lock, READ_ONCE
 * @syns:    how often, without an answer of its client; written by softirq without a lock
 * @over:    under @lock, in HOLD while it may come back to us: HOF_LINGER or HOF_DEAD, it has ended
 *	     there meanwhile; else 0
 * @owned:   a node has had it: HOLD is not its first, and may end in FORWARD; under @lock
 * @lock:    guards @state, @over, @owned, @hold, @ticket and changes of @peer and @id
 * @hold:    with HOLD: where packets wait
 * @ticket:  whom to tell of the end, NULL nobody; a counted reference
 * @linger:  in LINGER and DEAD: in hn->linger of its family, under hn->linger_lock
 * @rcu:     to free it
 * @key:     never changes once inserted; an IPv4 entry has memory for @v4 only
 *
 * Found by RCU lookup from the PRE_ROUTING hook (softirq); inserted in process
 * context, removed in both. An entry in HOLD is removed only by the transfer or
 * adoption whose queue it uses, so these may keep a pointer to it.
 * Lock order: the socket's lock, then @lock. Under @lock only ticket locks, hn->linger_lock
 * and hn->adopt_lock are taken; bottom halves are off.
 */
struct hof_entry {
	struct rhash_head hash;
	struct hof_peer *peer;
	u64 id;
	unsigned long packets;
	unsigned long bytes;
	unsigned long used;
	union {
		unsigned long expires;
		u32 epoch;
		unsigned long asked;
	};
	unsigned long born;
	u32 acked;
	u32 ups;
	u8 seen;
	u8 family;
	u8 state;
	u8 over;
	u8 redirect;
	u8 syns;
	bool owned;
	spinlock_t lock;	/* see above */
	struct hof_hold *hold;
	struct hof_ticket *ticket;
	union {
		struct list_head linger;
		struct rcu_head rcu;
	};
	union hof_key key;
};

static inline u8 hof_entry_state(const struct hof_entry *e)
{
	/* Pairs with hof_entry_set_state(): what led to the state is seen with it. */
	return smp_load_acquire(&e->state);
}

static inline void hof_entry_set_state(struct hof_entry *e, u8 state)
{
	lockdep_assert_held(&e->lock);
	/* Pairs with hof_entry_state(). */
	smp_store_release(&e->state, state);
}

/* Before the peer is read: that belongs to it, or to an id that came later. */
static inline u64 hof_entry_id(const struct hof_entry *e)
{
	/* Pairs with hof_entry_redirect(). */
	return smp_load_acquire(&e->id);
}

int hof_entry_cache_create(void);
void hof_entry_cache_destroy(void);
int hof_entry_net_init(struct hof_net *hn);
void hof_entry_net_exit(struct hof_net *hn);

/**
 * hof_entry_alloc - a new entry in state HOLD, not yet in the table
 * @tuple: the connection
 * @peer:  target; the entry takes a reference
 * @hold:  where packets wait
 * @gfp:   HOF_ENTRY_GFP; in softirq less
 */
struct hof_entry *hof_entry_alloc(const struct flt_tuple *tuple, struct hof_peer *peer,
				  struct hof_hold *hold, gfp_t gfp);
/* One whose SYN is redirected, in FORWARD; NULL: no memory. Softirq. */
struct hof_entry *hof_entry_alloc_redirect(const struct flt_tuple *tuple, struct hof_net *hn,
					   struct hof_peer *peer);
/* One that was never inserted. */
void hof_entry_free(struct hof_entry *e);

/*
 * In a full table it takes the place of the entry that has been over for longest.
 * Return: 0, -EEXIST, -ENOSPC (net.flotilla.forward_max live ones) or -ENOMEM.
 */
int hof_entry_insert(struct hof_net *hn, struct hof_entry *e);

/* RCU; NULL when there is none. */
struct hof_entry *hof_entry_find(struct hof_net *hn, u8 family, const union hof_key *key);
struct hof_entry *hof_entry_find_tuple(struct hof_net *hn, const struct flt_tuple *tuple);

/**
 * hof_entry_close - the connection has ended at its owner
 * @id:  as the caller knows it: when it is not that any more, it is another one's
 * @why: FLT_REFUSE_NONE: LINGER follows; FLT_REFUSE_NODEDOWN: DEAD follows
 *
 * Tells the dispatcher. RCU or process context.
 * Return: whether the entry was in FORWARD.
 */
bool hof_entry_close(struct hof_net *hn, struct hof_entry *e, u64 id, enum flt_refusal why);

/*
 * What an entry that was in FORWARD owes to others when it ceases to be: the load
 * of the node, the last event. Under its lock.
 */
void hof_entry_settle(struct hof_net *hn, struct hof_entry *e, enum flt_refusal why);

/* Unlink one that is not in HOLD; false: somebody else does. RCU. */
bool hof_entry_remove(struct hof_net *hn, struct hof_entry *e);
/* The same for the owner of its hold queue, after it set the state to GONE. */
void hof_entry_unlink(struct hof_net *hn, struct hof_entry *e);

/* What close or kill found in HOLD, once it forwards again after all. RCU. */
void hof_entry_resume(struct hof_net *hn, struct hof_entry *e);
/*
 * The connection is lost with its owner: reset the client, or let who forwards it to us do so. RCU;
 * @id as hof_entry_close().
 */
void hof_entry_kill(struct hof_net *hn, struct hof_entry *e, u64 id);

/**
 * hof_entry_redirect - the connection has another owner, who says so and is believed
 * @from:  its id now
 * @to:    its id at @peer
 * @peer:  the owner; a reference goes with it
 * @epoch: of @peer
 *
 * RCU, process context. Return: false: not what it was, or it does not forward now.
 */
bool hof_entry_redirect(struct hof_net *hn, struct hof_entry *e, u64 from, u64 to,
			struct hof_peer *peer, u32 epoch);
/* Every connection of @peer is lost: reset the clients. Process context, may sleep. */
void hof_entry_kill_peer(struct hof_net *hn, struct hof_peer *peer);
/*
 * Those that @peer took in that epoch and has not named since its link came up are closed there.
 * May sleep.
 */
void hof_entry_close_stale(struct hof_net *hn, struct hof_peer *peer, u32 epoch);

unsigned int hof_entry_count(const struct hof_net *hn);
/* Bytes that one entry costs, its share of the hash table included. */
unsigned int hof_entry_size(u8 family);

void hof_entry_tuple(const struct hof_entry *e, struct flt_tuple *tuple);
void hof_tuple_map(const struct flt_tuple *tuple, u8 *client, u8 *server);
/* Tracepoint hof_entry: it enters @state. */
void hof_entry_trace(const struct hof_entry *e, u8 state);
/* For users: HOLD, FORWARD, REDIRECT or LINGER. */
const char *hof_state_name(const struct hof_entry *e);

#endif
