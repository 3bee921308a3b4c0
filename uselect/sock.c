// SPDX-License-Identifier: GPL-2.0
/* Sockets: which descriptors they have, and keeping their bits right. */

#include <linux/rculist.h>
#include <linux/skmsg.h>
#include <linux/slab.h>
#include <net/tcp.h>
#include "kmod/stack.h"

#include "counter.h"
#include "region.h"
#include "set.h"
#include "sock.h"
#include "trace.h"

/* @input: since the last look only what can be read may have changed. */
static u32 usel_sock_mask(struct usel_sock *us, struct socket *sock, bool input)
{
	__poll_t was = (__force __poll_t)us->mask;
	u32 mask;

	lockdep_assert_held(&us->lock);
	mask = (__force u32)(input ? flt_layer_poll_input(us->layer, sock, was) :
				     flt_layer_poll(us->layer, sock));
	WRITE_ONCE(us->mask, mask);
	return mask;
}

/* As select() reads what poll() says (POLLIN_SET and its kin in fs/select.c). */
static unsigned int usel_ready(u32 mask)
{
	unsigned int ready = 0;

	if (mask & (__force u32)(EPOLLRDNORM | EPOLLRDBAND | EPOLLIN | EPOLLHUP | EPOLLERR))
		ready |= USEL_R;
	if (mask & (__force u32)(EPOLLWRBAND | EPOLLWRNORM | EPOLLOUT | EPOLLERR))
		ready |= USEL_W;
	if (mask & (__force u32)EPOLLPRI)
		ready |= USEL_E;
	return ready;
}

static __always_inline void usel_bit_set(unsigned long *map, unsigned int fd, unsigned int ready,
					 unsigned int bit, unsigned int changed)
{
	if (!(changed & bit))
		return;
	if (ready & bit)
		set_bit(fd, map);
	else
		clear_bit(fd, map);
}

static void usel_bind_bits(struct usel_bind *bind, unsigned int ready)
{
	struct usel_region *region = bind->region;
	unsigned int changed = bind->ready ^ ready;

	if (!changed)
		return;
	usel_bit_set(region->read, bind->fd, ready, USEL_R, changed);
	usel_bit_set(region->write, bind->fd, ready, USEL_W, changed);
	usel_bit_set(region->except, bind->fd, ready, USEL_E, changed);
	bind->ready = ready;
}

/* Lockless readings, as TCP_INFO and SIOCINQ give them. */
static void usel_bind_bytes(const struct usel_bind *bind, struct usel_fd *state)
{
	struct sock *sk = bind->us->sk;
	const struct tcp_sock *tp = tcp_sk(sk);

	if (sk->sk_state == TCP_LISTEN) {
		WRITE_ONCE(state->rx_bytes, READ_ONCE(sk->sk_ack_backlog));
		return;
	}
	WRITE_ONCE(state->rx_bytes, max(tcp_inq(sk), 0));
	WRITE_ONCE(state->tx_space, max(READ_ONCE(sk->sk_sndbuf) - READ_ONCE(sk->sk_wmem_queued),
					0));
	WRITE_ONCE(state->snd_cwnd, READ_ONCE(tp->snd_cwnd));
	WRITE_ONCE(state->srtt_us, READ_ONCE(tp->srtt_us) >> 3);
}

/* Under RCU. */
static void usel_bind_tell(const struct usel_bind *bind, unsigned int what, u32 rx_bytes)
{
	struct usel_set *set;

	/* What was written, then who wants it; a process publishes its wants, then looks. */
	smp_mb();
	list_for_each_entry_rcu(set, &bind->region->sets, list)
		if (usel_set_listens(set, bind->fd))
			usel_set_tell(set, bind->fd, what, rx_bytes);
}

static void usel_bind_show(const struct usel_bind *bind)
{
	WRITE_ONCE(bind->region->fds[bind->fd].events,
		   bind->mask | (bind->us->loose ? USEL_FD_EDGES : 0));
}

static void usel_bind_write(struct usel_bind *bind, u32 mask, unsigned int edge)
{
	struct usel_region *region = bind->region;
	struct usel_fd *state = &region->fds[bind->fd];
	u32 rx_bytes = U32_MAX;
	unsigned int ready = usel_ready(mask), fresh;

	fresh = ready & (edge | ~bind->ready);
	if (bind->mask != mask) {
		bind->mask = mask;
		usel_bind_show(bind);
	}
	if (READ_ONCE(region->bytes)) {
		usel_bind_bytes(bind, state);
		if (!(mask & (__force u32)(EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
			rx_bytes = state->rx_bytes;
	}
	usel_bind_bits(bind, ready);
	if (fresh) {
		WRITE_ONCE(bind->rx_bytes, rx_bytes);
		atomic_or(fresh, &bind->tell);
	}
}

/*
 * Without the lock, and with interrupts as they were: it takes as long as the processes have sets.
 * A bind that has gone meanwhile is told of for nothing.
 */
static void usel_sock_tell(struct usel_sock *us)
{
	struct usel_bind *bind;
	unsigned int what;

	list_for_each_entry_rcu(bind, &us->binds, list) {
		if (!atomic_read(&bind->tell))
			continue;
		what = atomic_xchg(&bind->tell, 0);
		if (what)
			usel_bind_tell(bind, what, READ_ONCE(bind->rx_bytes));
	}
}

/* Nobody has closed it. */
static bool usel_why_open(enum usel_why why)
{
	return why == USEL_WHY_FOREIGN || why == USEL_WHY_END || why == USEL_WHY_WRONG;
}

/*
 * The active bit goes first: whoever sees another one sees that none of them counts.
 * Those who wait are told when the descriptor itself stays: they must ask poll() now. The bind is
 * put before *@gone, for usel_gone_tell() in the same RCU section.
 */
static void usel_unbind(struct usel_bind *bind, enum usel_why why, struct usel_bind **gone)
{
	struct usel_region *region = bind->region;
	struct usel_fd *state = &region->fds[bind->fd];

	lockdep_assert_held(&bind->us->lock);
	spin_lock(&region->lock);
	RCU_INIT_POINTER(region->owner[bind->fd], NULL);
	clear_bit(bind->fd, region->active);
	/* Inactive before anything else is seen to change. */
	smp_mb__after_atomic();
	usel_bind_bits(bind, 0);
	WRITE_ONCE(state->gen, state->gen + 1);
	WRITE_ONCE(state->events, usel_why_open(why) ? USEL_FD_LOST : 0);
	spin_unlock(&region->lock);

	trace_usel_untrack(bind->us->sk, bind->fd, why);
	usel_count(region->net, USEL_STAT_UNTRACKED);
	if (why != USEL_WHY_CLOSE) {
		usel_count(region->net, USEL_STAT_UNTRACKED + why);
		bind->gone = *gone;
		*gone = bind;
	}
	list_del_rcu(&bind->list);
	bind->us->nr_binds--;
	kfree_rcu(bind, rcu);
}

/* Without the lock and with interrupts as they were, as usel_sock_tell(). */
static void usel_gone_tell(const struct usel_bind *gone)
{
	for (; gone; gone = gone->gone)
		usel_bind_tell(gone, USEL_ALL, U32_MAX);
}

/* kTLS and sockmap read in our place, and what they keep back is not to be seen here. */
static bool usel_sock_foreign(const struct sock *sk)
{
	uintptr_t data = (uintptr_t)rcu_access_pointer(__sk_user_data(sk));

	return inet_csk_has_ulp(sk) || (data & SK_USER_DATA_PSOCK);
}

static void usel_sock_look(struct usel_sock *us, unsigned int edge, bool input)
{
	struct usel_bind *bind, *next, *gone = NULL;
	struct socket *sock;
	unsigned long irq;
	u32 mask;

	if (!us)
		return;
	/*
	 * Not without the lock: a bind that is just being made may not yet have seen the change.
	 */
	rcu_read_lock();
	spin_lock_irqsave(&us->lock, irq);
	if (us->gone || list_empty(&us->binds))
		goto out;
	/* Bound sockets are not orphans: release() unbinds first. */
	sock = READ_ONCE(us->sk->sk_socket);
	if (unlikely(!sock || usel_sock_foreign(us->sk))) {
		list_for_each_entry_safe(bind, next, &us->binds, list)
			usel_unbind(bind, USEL_WHY_FOREIGN, &gone);
		goto out;
	}
	mask = usel_sock_mask(us, sock, input);
	list_for_each_entry(bind, &us->binds, list)
		if (edge || bind->mask != mask || READ_ONCE(bind->region->bytes))
			usel_bind_write(bind, mask, edge);
out:
	spin_unlock_irqrestore(&us->lock, irq);
	usel_gone_tell(gone);
	usel_sock_tell(us);
	rcu_read_unlock();
}

void usel_sock_update(struct usel_sock *us, unsigned int edge)
{
	usel_sock_look(us, edge, false);
}

void usel_sock_input(struct usel_sock *us, unsigned int edge)
{
	usel_sock_look(us, edge, true);
}

bool usel_sock_edges(const struct usel_sock *us)
{
	const struct usel_bind *bind;
	bool edges = false;

	list_for_each_entry_rcu(bind, &us->binds, list) {
		edges = READ_ONCE(bind->region->edges);
		if (!edges)
			break;
	}
	return edges;
}

static void usel_sock_show(const struct usel_sock *us)
{
	const struct usel_bind *bind;

	lockdep_assert_held(&us->lock);
	list_for_each_entry(bind, &us->binds, list)
		usel_bind_show(bind);
}

/* Whoever makes a region or a bind that wants more looks at @loose after that, under the lock. */
bool usel_sock_loosen(struct usel_sock *us)
{
	unsigned long irq;
	bool loose;

	spin_lock_irqsave(&us->lock, irq);
	loose = !us->gone && us->settled && usel_sock_edges(us);
	if (loose) {
		us->loose = true;
		us->loosened++;
		usel_sock_show(us);
	}
	spin_unlock_irqrestore(&us->lock, irq);
	return loose;
}

/*
 * The operations come to us again, then the bits are made right, and last they are said to be. Who
 * comes before that does the same: his caller believes the bits as soon as he returns. A receive
 * that is under way ends unseen, see the uapi header.
 */
void usel_sock_tighten(struct usel_sock *us)
{
	struct sock *sk = NULL;
	unsigned int loosened;
	unsigned long irq;

	spin_lock_irqsave(&us->lock, irq);
	loosened = us->loosened;
	if (us->loose && !us->gone && refcount_inc_not_zero(&us->sk->sk_refcnt))
		sk = us->sk;
	spin_unlock_irqrestore(&us->lock, irq);
	if (!sk)
		return;
	flt_layer_want_data(sk);
	usel_sock_update(us, 0);
	spin_lock_irqsave(&us->lock, irq);
	if (us->loosened == loosened)
		us->loose = false;
	usel_sock_show(us);
	spin_unlock_irqrestore(&us->lock, irq);
	sock_put(sk);
}

static struct usel_bind *usel_bind_find(struct usel_sock *us, struct usel_region *region,
					unsigned int fd)
{
	struct usel_bind *bind;

	lockdep_assert_held(&us->lock);
	list_for_each_entry(bind, &us->binds, list)
		if (bind->region == region && bind->fd == fd)
			return bind;
	return NULL;
}

/* 0, or -EEXIST when someone else has the number. */
static int usel_bind_insert(struct usel_sock *us, struct usel_bind *bind)
{
	struct usel_region *region = bind->region;
	struct usel_fd *state = &region->fds[bind->fd];
	int err = 0;

	lockdep_assert_held(&us->lock);
	spin_lock(&region->lock);
	if (region->dead) {
		err = -ESHUTDOWN;
	} else if (us->nr_binds >= USEL_BINDS_MAX) {
		err = -ENOSPC;
	} else if (rcu_access_pointer(region->owner[bind->fd])) {
		err = -EEXIST;
	} else {
		list_add_tail_rcu(&bind->list, &us->binds);
		us->nr_binds++;
		rcu_assign_pointer(region->owner[bind->fd], bind);
		WRITE_ONCE(state->gen, state->gen + 1);
	}
	spin_unlock(&region->lock);
	return err;
}

static int usel_sock_bind_locked(struct usel_sock *us, struct usel_bind *fresh)
{
	struct usel_bind *bind;
	struct socket *sock;
	int err;

	lockdep_assert_held(&us->lock);
	sock = READ_ONCE(us->sk->sk_socket);
	if (us->gone || !sock || usel_sock_foreign(us->sk))
		return -ESHUTDOWN;
	bind = usel_bind_find(us, fresh->region, fresh->fd);
	if (bind) {
		if (!fresh->guessed) {
			bind->guessed = false;
			WRITE_ONCE(us->settled, true);
		}
		return -EALREADY;
	}
	err = usel_bind_insert(us, fresh);
	if (err)
		return err;
	usel_bind_write(fresh, usel_sock_mask(us, sock, false), 0);
	usel_bind_show(fresh);
	/* Bits first: once active is set the process believes them. */
	smp_mb__before_atomic();
	set_bit(fresh->fd, fresh->region->active);
	if (!fresh->guessed)
		WRITE_ONCE(us->settled, true);
	trace_usel_track(us->sk, fresh->fd, fresh->guessed);
	usel_count(fresh->region->net, USEL_STAT_TRACKED);
	return 0;
}

int usel_sock_bind(struct usel_sock *us, struct usel_region *region, unsigned int fd, bool guessed)
{
	struct usel_bind *fresh;
	unsigned long irq;
	bool tighten;
	int err;

	if (fd >= region->nfds)
		return -ENOSPC;
	fresh = kzalloc(sizeof(*fresh), GFP_ATOMIC | __GFP_NOWARN | __GFP_ACCOUNT);
	if (!fresh)
		return -ENOMEM;
	fresh->us = us;
	fresh->region = region;
	fresh->fd = fd;
	fresh->guessed = guessed;
	do {
		spin_lock_irqsave(&us->lock, irq);
		err = usel_sock_bind_locked(us, fresh);
		tighten = (!err || err == -EALREADY) && us->loose && !READ_ONCE(region->edges);
		spin_unlock_irqrestore(&us->lock, irq);
		if (tighten)
			usel_sock_tighten(us);
		if (!err)
			usel_sock_tell(us);
		if (err == -EEXIST)
			usel_sock_evict(region, fd, USEL_WHY_REUSED);
	} while (err == -EEXIST);
	if (err)
		kfree(fresh);
	return err == -EALREADY ? 0 : err;
}

bool usel_sock_is_bound(const struct usel_sock *us)
{
	return !list_empty_careful(&us->binds);
}

/* The last descriptor that we know is gone: the layer with it. Only one caller succeeds. */
static struct sock *usel_sock_give_up(struct usel_sock *us)
{
	lockdep_assert_held(&us->lock);
	if (us->gone || !list_empty(&us->binds) || !refcount_inc_not_zero(&us->sk->sk_refcnt))
		return NULL;
	us->gone = true;
	return us->sk;
}

void usel_sock_evict(struct usel_region *region, unsigned int fd, enum usel_why why)
{
	struct usel_bind *bind, *gone = NULL;
	struct usel_sock *us;
	struct sock *sk = NULL;
	struct flt_layer *layer;
	unsigned long irq;

	rcu_read_lock();
	bind = rcu_dereference(region->owner[fd]);
	if (!bind)
		goto out;
	us = bind->us;
	spin_lock_irqsave(&us->lock, irq);
	layer = us->layer;
	if (rcu_access_pointer(region->owner[fd]) == bind) {
		usel_unbind(bind, why, &gone);
		/* From a probe nothing is removed; the idle layer goes with its socket. */
		if (why == USEL_WHY_END)
			sk = usel_sock_give_up(us);
	}
	spin_unlock_irqrestore(&us->lock, irq);
	usel_gone_tell(gone);
	if (sk) {
		flt_layer_detach(layer);
		sock_put(sk);
	}
out:
	rcu_read_unlock();
}

void usel_sock_retire(struct usel_sock *us, enum usel_why why)
{
	struct usel_bind *bind, *next, *gone = NULL;
	unsigned long irq;

	rcu_read_lock();
	spin_lock_irqsave(&us->lock, irq);
	us->gone = true;
	list_for_each_entry_safe(bind, next, &us->binds, list)
		usel_unbind(bind, why, &gone);
	spin_unlock_irqrestore(&us->lock, irq);
	usel_gone_tell(gone);
	rcu_read_unlock();
}

struct usel_sock *usel_sock_make(struct flt_layer *layer, struct sock *sk)
{
	struct usel_sock *us = kzalloc(sizeof(*us), GFP_KERNEL_ACCOUNT);

	if (!us)
		return NULL;
	spin_lock_init(&us->lock);
	us->sk = sk;
	us->layer = layer;
	INIT_LIST_HEAD(&us->binds);
	return us;
}

void usel_sock_free(struct usel_sock *us)
{
	kfree_rcu(us, rcu);
}

int usel_sock_guess(struct usel_sock *us, const struct usel_region *region)
{
	struct usel_bind *bind;
	unsigned long irq;
	int fd = -1;

	spin_lock_irqsave(&us->lock, irq);
	list_for_each_entry(bind, &us->binds, list)
		if (bind->region == region && bind->guessed)
			fd = bind->fd;
	spin_unlock_irqrestore(&us->lock, irq);
	return fd;
}
