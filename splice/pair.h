/* SPDX-License-Identifier: GPL-2.0 */
/* A pair: two sockets that are joined for the time of one transfer. */
#ifndef SSP_PAIR_H
#define SSP_PAIR_H

#include <linux/hrtimer.h>
#include <linux/mm_types.h>
#include <linux/refcount.h>
#include <linux/skbuff.h>
#include <linux/workqueue.h>
#include <net/sock.h>
#include <flotilla/splice.h>

#include "net.h"

struct ssp_user;

/* Who forwards; in the order of the counters SSP_STAT_BYTES. */
enum ssp_where {
	SSP_SOFTIRQ,
	SSP_WORKER,
	SSP_CALL,
};

/* Directions, as bits: named by the end that data comes from. */
#define SSP_FROM0	BIT(0)
#define SSP_FROM1	BIT(1)

enum ssp_state {
	SSP_RUNNING,	/* bytes are forwarded */
	SSP_DRAINING,	/* all is forwarded, a part of the copy is unread */
	SSP_ENDED,
};

/**
 * struct ssp_outcome - how a transfer went; see struct ssp_result
 */
struct ssp_outcome {
	u32 status;
	u32 cause;
	u32 error;
	u64 moved[2];
	u64 copied;
};

/**
 * struct ssp_end - what a socket that was ever in a transfer keeps
 * @pair:       the transfer it is in, or NULL; RCU, written with the socket locked
 * @copies:     unread copy, struct ssp_copy_cb each; with the socket locked
 * @copy_bytes: unread bytes in @copies; written with the socket locked, READ_ONCE
 * @copy_size:  memory that @copies hold; with the socket locked
 * @user:       whose @copies are, with a reference, once there was a transfer with a copy
 * @pinned:     @copies outlived their pair and hold the module; with the socket locked
 * @last:       of the last transfer that has ended; with the socket locked
 *
 * It is the private area of this room's layer on the socket and lives as long as that:
 * until the socket is destroyed or the module goes. A socket that waits for its next
 * transfer so needs nothing new, and passes its callbacks on.
 */
struct ssp_end {
	struct ssp_pair __rcu *pair;
	struct sk_buff_head copies;
	u32 copy_bytes;
	u32 copy_size;
	struct ssp_user *user;
	bool pinned;
	struct ssp_outcome last;
};

/**
 * struct ssp_pair - one transfer
 * @sk:        the two sockets, with a reference; [0] is the source if it is not SSP_BIDIR
 * @end:       what they keep
 * @net:       of @sk[0], for counters
 * @user:      who started it, with a reference
 * @of_user:   in that one's list while attached
 * @flags:     SSP_*, never change
 * @limit:     SSP_LIMIT, else U64_MAX; never changes
 * @min2read, @max2cache: never change
 * @state:     enum ssp_state; written with both sockets locked, READ_ONCE
 * @moved:     bytes forwarded, by the end they came from
 * @taken:     bytes taken from @sk[0]'s queue; more than @moved[0] once the sink has gone
 * @cause:     enum ssp_cause, what comes after @state
 * @error:     errno for it
 * @busy:      forwarding is under way: who holds only one socket's lock sees false,
 *	       who sees true is called from within the forwarding
 * @again:     directions that had an event meanwhile
 * @retry:     forwarding stopped for want of memory: look again a moment later
 * @backoff:   jiffies until then; grows while there is none
 * @patience:  jiffies until @work looks again at a socket that a program has locked
 * @left:      the end's last descriptor was closed while the other end was locked; READ_ONCE
 * @sink_gone: SSP_KEEPCOPY and @sk[1] is lost: copy on without it
 * @dead:      SSP_BIDIR: a connection has failed, the other one is to be reset; READ_ONCE
 * @unreadable: a packet lies in a device's memory
 * @held:      forwarding waits for the reader of the copy; READ_ONCE
 * @telling:   a callback of a socket is being called to wake its pollers
 * @fin:       SSP_BIDIR: the end's FIN was passed on to the other
 * @lowat:     SO_RCVLOWAT of the sockets, to be put back
 * @head:      goes to @sk[1] before what is forwarded: @head.size bytes; only within the call
 *	       that starts the transfer
 * @work:      forwards where softirq could not
 * @gather:    ends the waiting for more bytes; started with @sk[0] locked
 * @forwarded: tcp_mstamp of @sk[0] when something of it was passed on; READ_ONCE
 * @users:     one for being attached to the ends, one for @work being queued, one for
 *	       @gather being queued, one for each call that uses it beyond RCU
 * @rcu:       for freeing
 *
 * From @state to @lowat everything is written with both sockets locked, an element of
 * @lowat with its socket locked. A socket is locked
 * when its spinlock is held and no program owns it (softirq), or by lock_sock(). The second one
 * is taken by trylock only, except for the spinlocks in process context: by address.
 */
struct ssp_pair {
	struct sock *sk[2];
	struct ssp_end *end[2];
	struct ssp_net *net;
	struct ssp_user *user;
	struct list_head of_user;
	u64 limit;
	u32 flags;
	u32 min2read;
	u32 max2cache;

	u8 state;
	u8 cause;
	bool busy;
	u8 again;
	bool retry;
	u16 backoff;
	u16 patience;
	bool left[2];
	bool sink_gone;
	bool dead;
	bool unreadable;
	bool held;
	bool telling;
	bool fin[2];
	int error;
	int lowat[2];
	u64 moved[2];
	u64 taken;
	struct page_frag head;

	struct delayed_work work;
	struct hrtimer gather;
	u64 forwarded;
	refcount_t users;
	struct rcu_head rcu;
};

int ssp_pair_init(void);
void ssp_pair_exit(void);

/* Transfers under way in all namespaces. */
unsigned int ssp_pair_count(void);

/* Of the caller's. ERR_PTR(-ENOMEM), ERR_PTR(-EUSERS). */
struct ssp_pair *ssp_pair_alloc(struct sock *sk0, struct sock *sk1, const struct ssp_splice *args);
void ssp_pair_put(struct ssp_pair *p);

/* The pair that @end is in, with a reference, or NULL. */
struct ssp_pair *ssp_pair_get(struct ssp_end *end);

/* Both sockets locked, neither in a pair. -EUSERS: its user has as many as he may. */
int ssp_pair_attach(struct ssp_pair *p);

/* Both sockets locked, nothing happened since: as if it had not been attached. */
void ssp_pair_abort(struct ssp_pair *p);

/* Both sockets locked: take the sockets out of the pair. Keeps what happened. */
void ssp_pair_detach(struct ssp_pair *p);
void ssp_end_clear(struct ssp_end *end);

/* Both sockets locked: the program's SO_RCVLOWAT goes back to a socket that is in the pair. */
void ssp_pair_lowat(struct ssp_pair *p, int side);

/* A socket of it is somebody else's, or closed without our hearing of it. Any context. */
bool ssp_pair_is_lost(const struct ssp_pair *p);

/* The transfer is over: it counts no more as under way. */
void ssp_pair_ended(struct ssp_pair *p);

/* Both sockets locked: how it goes. */
void ssp_pair_outcome(const struct ssp_pair *p, struct ssp_outcome *out);

/*
 * lock_sock() of two sockets, for a call that their program makes. While it waits for one it does
 * not have the other, which may be somebody else's by now.
 */
void ssp_lock_socks(struct sock *a, struct sock *b);
/* For everybody else: false if a program has one of them. */
bool ssp_trylock_socks(struct sock *a, struct sock *b);
void ssp_unlock_socks(struct sock *a, struct sock *b);

/* Look after the pair soon, from the work item; @delay in jiffies. Any context. */
void ssp_pair_queue(struct ssp_pair *p, unsigned long delay);

static inline bool ssp_is_bidir(const struct ssp_pair *p)
{
	return p->flags & SSP_BIDIR;
}

static inline bool ssp_keeps_copy(const struct ssp_pair *p)
{
	return p->flags & SSP_KEEPCOPY;
}

/* The reader of the copy shall come. */
static inline bool ssp_copy_readable(const struct ssp_pair *p)
{
	unsigned int unread = READ_ONCE(p->end[0]->copy_bytes);

	return unread && (unread >= p->min2read || READ_ONCE(p->held) ||
			  READ_ONCE(p->state) != SSP_RUNNING);
}

/* Which end of @p the socket is. */
static inline int ssp_side(const struct ssp_pair *p, const struct sock *sk)
{
	return p->sk[1] == sk;
}

/* For lockdep: the socket is ours, in softirq or in a program. */
static inline void ssp_assert_locked(const struct ssp_pair *p)
{
	lockdep_assert(lockdep_sock_is_held(p->sk[0]) && lockdep_sock_is_held(p->sk[1]));
}

#endif
