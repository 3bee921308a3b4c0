/* SPDX-License-Identifier: GPL-2.0 */
/* Sockets: which descriptors they have, and keeping their bits right. */
#ifndef USEL_SOCK_H
#define USEL_SOCK_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <uapi/linux/eventpoll.h>

struct file;
struct flt_layer;
struct sock;
struct socket;
struct usel_region;
struct usel_sock;

/* Why tracking ended; for the trace. */
enum usel_why {
	USEL_WHY_CLOSE,		/* the last descriptor is being closed */
	USEL_WHY_REUSED,	/* the number names another file now */
	USEL_WHY_FORGET,	/* USEL_FORGET */
	USEL_WHY_END,		/* the region ends */
	USEL_WHY_FOREIGN,	/* kTLS or sockmap has taken the socket over */
	USEL_WHY_WRONG,		/* the guess of the number was wrong */
};

/**
 * struct usel_bind - a socket is known by a descriptor number in a region
 * @list:    in the socket's binds
 * @us:      the socket
 * @region:  alive while the bind is in its owner[]
 * @fd:      number
 * @guessed: to be looked at again by the next operation
 * @ready:   USEL_* as in the bitmaps; under the socket's lock
 * @mask:    as in usel_fd.events; under the socket's lock
 * @tell:    USEL_* that the sets have not yet been told of
 * @rx_bytes: unread bytes, for that; a hint
 * @gone:    next of those that went together and are to be told of when the lock is given back
 * @rcu:     for freeing
 */
struct usel_bind {
	struct list_head list;
	struct usel_sock *us;
	struct usel_region *region;
	unsigned int fd;
	bool guessed;
	unsigned int ready;
	u32 mask;
	atomic_t tell;
	u32 rx_bytes;
	struct usel_bind *gone;
	struct rcu_head rcu;
};

/* Descriptors of one socket that are tracked, of all processes together. */
#define USEL_BINDS_MAX	64

/**
 * struct usel_sock - what a layer on a socket stands for
 * @lock:     @binds, @gone, and the order in which bits are written: whoever looks at the
 *	      socket and writes what it saw does both under it, so that after each change
 *	      of the socket's state the last to write has seen it. Interrupts off (descriptors
 *	      are followed from a probe); inside the socket's lock, outside the region's.
 * @sk:       its socket; alive while not @gone
 * @layer:    likewise
 * @binds:    struct usel_bind; commonly one; RCU
 * @nr_binds: at most USEL_BINDS_MAX: each is looked at for each event
 * @mask:     what poll() was last found to say
 * @loose:    receives and sends are not seen: all who have it bound want edges only; or the bits
 *	      are not right again yet
 * @loosened: how often it became so
 * @gone:     no more binds: the layer is off, or the socket is being destroyed
 * @settled: the descriptor is known for certain, or there is none: do not search again
 * @rcu:      for freeing
 */
struct usel_sock {
	spinlock_t lock;	/* see above */
	struct sock *sk;
	struct flt_layer *layer;
	struct list_head binds;
	unsigned int nr_binds;
	u32 mask;
	bool gone;
	bool settled;
	bool loose;
	unsigned int loosened;
	struct rcu_head rcu;
};

/* NULL when no layer is on the socket; under RCU or with a reference to the file. */
struct usel_sock *usel_sock_find(const struct sock *sk);

/* Puts the layer on a socket of the caller's. ERR_PTR as flt_layer_add(), -ENOMEM. */
struct usel_sock *usel_sock_add(struct sock *sk);
/* For a layer that is on already; NULL without memory. */
struct usel_sock *usel_sock_make(struct flt_layer *layer, struct sock *sk);
/* The layer's memory goes. */
void usel_sock_free(struct usel_sock *us);

/**
 * usel_sock_bind - the socket has this descriptor in this region
 * @us:      socket; the caller has a reference to its file, or RCU
 * @region:  under RCU
 * @fd:      a bind that another socket has there is evicted
 * @guessed: see struct usel_bind
 *
 * Any context but hard interrupts.
 *
 * Return: 0 (now, or it was so before), -ENOSPC (the number is too large, or the socket has
 * enough of them), -ESHUTDOWN, -ENOMEM.
 */
int usel_sock_bind(struct usel_sock *us, struct usel_region *region, unsigned int fd, bool guessed);
/* Whoever is bound there is not any more; its layer goes when that was the last. */
void usel_sock_evict(struct usel_region *region, unsigned int fd, enum usel_why why);
/* No descriptor, no more binds. */
void usel_sock_retire(struct usel_sock *us, enum usel_why why);
/* The number that was guessed in this region and not yet confirmed, or -1. */
int usel_sock_guess(struct usel_sock *us, const struct usel_region *region);
bool usel_sock_is_bound(const struct usel_sock *us);

/* Send() would not block, as the bits have it. */
static inline bool usel_sock_has_room(const struct usel_sock *us)
{
	return READ_ONCE(us->mask) & (__force u32)EPOLLOUT;
}

/**
 * usel_sock_update - look at the socket and write its bits
 * @us:   may be NULL
 * @edge: USEL_*: what is to be told again when it is true, though it was before
 */
void usel_sock_update(struct usel_sock *us, unsigned int edge);
/* The same when data came or were received, and nothing else has happened. */
void usel_sock_input(struct usel_sock *us, unsigned int edge);

/**
 * usel_sock_edges - do all who have the socket bound want edges only
 * @us: under RCU
 *
 * Then nobody needs to hear what is received and sent. For usel_sock_loosen(), which asks again.
 */
bool usel_sock_edges(const struct usel_sock *us);
/* From flt_layer_skip_data(): true, and the descriptors say USEL_FD_EDGES from now on. */
bool usel_sock_loosen(struct usel_sock *us);
/* Somebody may want the bits to be right at all times; not from within a callback. Under RCU. */
void usel_sock_tighten(struct usel_sock *us);

/* Module exit: no layer is left, nothing of it runs. */
void usel_layer_remove_all(void);

#endif
