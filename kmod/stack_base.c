// SPDX-License-Identifier: GPL-2.0
/* Layers on a socket: TCP's own pointers, ours, and the way between them. See doc/layers.md. */

#include <linux/module.h>
#include <linux/net.h>
#include <linux/notifier.h>
#include <linux/slab.h>
#include <net/tcp.h>
#include "compat/syn_recv.h"
#include "ktls_face.h"
#include "stack_priv.h"

struct flt_base flt_bases[2] __read_mostly;
bool flt_base_has_v6 __read_mostly;

/*
 * Ours, but no stack: the callback was read just before the stack went, or the
 * child of a listener whose hook was lost (connect() to an IPv4-mapped address, then
 * disconnect and listen()). Put TCP's own back; where the lock is taken, next time.
 */
static noinline void flt_base_heal(struct sock *sk)
{
	local_bh_disable();
	if (write_trylock(&sk->sk_callback_lock)) {
		if (!flt_stack_lookup(sk) && flt_base_fits(sk, flt_base(sk), FLT_NEED_CALLBACKS))
			flt_base_restore(sk, flt_base(sk));
		write_unlock(&sk->sk_callback_lock);
	}
	local_bh_enable();
}

typedef void (*flt_callback)(struct sock *sk);
typedef bool (*flt_hearer)(struct flt_layer *layer, struct sock *sk);

/*
 * The layers from the newest to the oldest, then TCP's own, unless one swallows the
 * event. Where the layer and the base keep this event is known at compile time.
 */
static __always_inline void flt_run(struct sock *sk, size_t hearer, size_t own)
{
	struct flt_layer *layer;
	struct flt_stack *st;
	flt_hearer hear;

	rcu_read_lock();
	st = flt_stack_lookup(sk);
	if (unlikely(!st)) {
		flt_base_heal(sk);
		(*(const flt_callback *)((const char *)flt_base(sk) + own))(sk);
		goto out;
	}
	list_for_each_entry_rcu(layer, &st->layers, list) {
		hear = *(const flt_hearer *)((const char *)layer->ops + hearer);
		if (hear && !hear(layer, sk))
			goto out;
	}
	(*(const flt_callback *)((const char *)st->base + own))(sk);
out:
	rcu_read_unlock();
}

static void flt_on_data_ready(struct sock *sk)
{
	flt_run(sk, offsetof(struct flt_layer_ops, data_ready),
		offsetof(struct flt_base, data_ready));
}

static void flt_on_write_space(struct sock *sk)
{
	flt_run(sk, offsetof(struct flt_layer_ops, write_space),
		offsetof(struct flt_base, write_space));
}

static void flt_on_state_change(struct sock *sk)
{
	flt_run(sk, offsetof(struct flt_layer_ops, state_change),
		offsetof(struct flt_base, state_change));
}

static void flt_on_error_report(struct sock *sk)
{
	flt_run(sk, offsetof(struct flt_layer_ops, error_report),
		offsetof(struct flt_base, error_report));
}

static void flt_on_destruct(struct sock *sk)
{
	const struct flt_base *base;
	struct flt_stack *st;

	/* flt_layer_remove_all() waits for the layers' destruct() by a grace period. */
	rcu_read_lock();
	st = flt_stack_lookup(sk);
	base = st ? st->base : flt_base(sk);
	sk->sk_destruct = base->destruct;
	if (st)
		flt_stack_die(st);
	base->destruct(sk);
	rcu_read_unlock();
}

static struct sock *flt_syn_recv(const struct sock *sk, struct sk_buff *skb,
				 struct request_sock *req, struct dst_entry *dst,
				 struct request_sock *req_unhash, bool *own, flt_child_init init)
{
	struct sock *child;

	child = flt_real_syn_recv(flt_base(sk)->real_af, sk, skb, req, dst, req_unhash, own, init);
	if (child)
		flt_child_cloned(sk, child, *own);
	return child;
}

/* Somebody who saves the socket's pointers and puts them back when it suits him. */
bool flt_sock_has_others(const struct sock *sk)
{
	uintptr_t data = (uintptr_t)rcu_access_pointer(__sk_user_data(sk));

	return inet_csk_has_ulp(sk) || (data & SK_USER_DATA_PSOCK);
}

/*
 * Under a face of ours kTLS calls, when a whole record is there, what the socket had before: so a
 * layer may come that wants to hear of that and of nothing else. sk_callback_lock held.
 */
bool flt_base_hears(const struct sock *sk, unsigned int needs)
{
	return !(needs & ~FLT_NEED_DATA_READY) && flt_ktls_is_ours(sk) &&
	       flt_ktls_has_below(sk, flt_on_data_ready);
}

static void flt_replace(flt_callback *where, flt_callback old, flt_callback new)
{
	if (*where == old)
		WRITE_ONCE(*where, new);
}

int flt_base_parts(const struct flt_base *base, const struct proto_ops *ops)
{
	int parts;

	for (parts = FLT_OPS_ALL; parts >= 0; parts--)
		if (ops == base->ops[parts])
			break;
	return parts;
}

/**
 * flt_base_fits - are the pointers that @needs asks for TCP's own or ours
 * @sk:    sk_callback_lock held
 * @base:  of its family
 * @needs: FLT_NEED_*, the callbacks in the order of their bits
 */
bool flt_base_fits(const struct sock *sk, const struct flt_base *base, unsigned int needs)
{
	const flt_callback now[] = { sk->sk_data_ready, sk->sk_write_space, sk->sk_state_change,
				     sk->sk_error_report };
	const flt_callback own[] = { base->data_ready, base->write_space, base->state_change,
				     base->error_report };
	const flt_callback ours[] = { flt_on_data_ready, flt_on_write_space, flt_on_state_change,
				      flt_on_error_report };
	const struct proto_ops *ops;
	unsigned int i;

	if (sk->sk_destruct != base->destruct && sk->sk_destruct != flt_on_destruct)
		return false;
	for (i = 0; i < ARRAY_SIZE(now); i++)
		if ((needs & BIT(i)) && now[i] != own[i] && now[i] != ours[i])
			return false;
	if (!(needs & FLT_NEED_OPS))
		return true;
	ops = READ_ONCE(sk->sk_socket->ops);
	base = flt_base(sk);
	return base && !sk->sk_kern_sock &&
	       (ops == base->real_ops || flt_base_parts(base, ops) >= 0);
}

/* Children of the socket will be seen. A connected one may become a listener later. */
void flt_base_hook(struct sock *sk, const struct flt_base *base)
{
	if (inet_csk(sk)->icsk_af_ops == base->real_af)
		WRITE_ONCE(inet_csk(sk)->icsk_af_ops, &base->af);
}

void flt_base_unhook(struct sock *sk, const struct flt_base *base)
{
	if (inet_csk(sk)->icsk_af_ops == &base->af)
		WRITE_ONCE(inet_csk(sk)->icsk_af_ops, base->real_af);
}

/* IPV6_ADDRFORM puts IPv4's in under the socket's lock alone: these stay, whoever came first. */
static void flt_base_swap_ops(struct socket *sock, const struct proto_ops *old,
			      const struct proto_ops *new)
{
	cmpxchg(&sock->ops, old, new);
}

/**
 * flt_base_set_ops - operations: ours, all parts of them, or TCP's own
 * @sk:   sk_callback_lock held, or nobody can reach the socket; it may have no socket yet
 * @ours: which; someone else's stay as they are
 */
void flt_base_set_ops(struct sock *sk, bool ours)
{
	const struct flt_base *base = flt_base(sk);
	struct socket *sock = sk->sk_socket;
	const struct proto_ops *now = sock ? READ_ONCE(sock->ops) : NULL;

	if (sock && (now == base->real_ops || flt_base_parts(base, now) >= 0))
		flt_base_swap_ops(sock, now, ours ? base->ops[FLT_OPS_ALL] : base->real_ops);
}

/**
 * flt_base_set_part - where the other operations are ours: a part of them too, or TCP's own
 * @sk:   sk_callback_lock held
 * @part: FLT_OPS_*
 * @ours: which
 */
void flt_base_set_part(struct sock *sk, unsigned int part, bool ours)
{
	const struct flt_base *base = flt_base(sk);
	struct socket *sock = sk->sk_socket;
	const struct proto_ops *now = sock ? READ_ONCE(sock->ops) : NULL;
	int parts = sock ? flt_base_parts(base, now) : -1;

	if (parts >= 0)
		flt_base_swap_ops(sock, now, base->ops[ours ? parts | part : parts & ~part]);
}

void flt_base_install(struct sock *sk, const struct flt_base *base, unsigned int needs)
{
	flt_base_hook(sk, base);
	/* The hook comes first: no child may take the callbacks along unseen. */
	smp_wmb();
	flt_replace(&sk->sk_destruct, base->destruct, flt_on_destruct);
	if (needs & FLT_NEED_DATA_READY)
		flt_replace(&sk->sk_data_ready, base->data_ready, flt_on_data_ready);
	if (needs & FLT_NEED_WRITE_SPACE)
		flt_replace(&sk->sk_write_space, base->write_space, flt_on_write_space);
	if (needs & FLT_NEED_STATE_CHANGE)
		flt_replace(&sk->sk_state_change, base->state_change, flt_on_state_change);
	if (needs & FLT_NEED_ERROR_REPORT)
		flt_replace(&sk->sk_error_report, base->error_report, flt_on_error_report);
	if (needs & FLT_NEED_OPS)
		flt_base_set_ops(sk, true);
}

/**
 * flt_base_hear_below - kTLS is about to be set, and its program will not notice
 * @sk: the socket; its lock is not held
 *
 * A layer can come later: flt_base_hears().
 */
void flt_base_hear_below(struct sock *sk)
{
	struct flt_stack *st;

	lock_sock(sk);
	write_lock_bh(&sk->sk_callback_lock);
	rcu_read_lock();
	st = flt_stack_lookup(sk);
	if (st && flt_base_fits(sk, st->base, FLT_NEED_DATA_READY))
		flt_base_install(sk, st->base, FLT_NEED_DATA_READY);
	rcu_read_unlock();
	write_unlock_bh(&sk->sk_callback_lock);
	release_sock(sk);
}

void (*flt_sock_data_ready(const struct sock *sk))(struct sock *sk)
{
	return flt_ktls_is_ours(sk) ? flt_on_data_ready : READ_ONCE(sk->sk_data_ready);
}
EXPORT_SYMBOL_GPL(flt_sock_data_ready);

/**
 * flt_base_restore - put TCP's own pointers back
 * @sk:   sk_callback_lock held, and the socket's lock unless nobody can reach the socket;
 *	  its callbacks fit: whoever has his on top has saved ours
 * @base: of the family it was made with
 */
void flt_base_restore(struct sock *sk, const struct flt_base *base)
{
	flt_replace(&sk->sk_data_ready, flt_on_data_ready, base->data_ready);
	flt_replace(&sk->sk_write_space, flt_on_write_space, base->write_space);
	flt_replace(&sk->sk_state_change, flt_on_state_change, base->state_change);
	flt_replace(&sk->sk_error_report, flt_on_error_report, base->error_report);
	flt_replace(&sk->sk_destruct, flt_on_destruct, base->destruct);
	flt_base_set_ops(sk, false);
	/* The hook goes last: a child cloned meanwhile has taken our callbacks along. */
	smp_wmb();
	flt_base_unhook(sk, base);
}

/*
 * kTLS makes its tables from the operations of the first socket that it is set on, and keeps them
 * for good. Were these ours (a call that was in setsockopt() before they were put there), they
 * would outlive this module. So the first socket is one of our own, without a connection.
 */
static void flt_base_prime_ktls(struct socket *sock)
{
	static const char name[] = "tls";

	sock->ops->setsockopt(sock, SOL_TCP, TCP_ULP, KERNEL_SOCKPTR((void *)name), sizeof(name));
}

static int flt_base_module_event(struct notifier_block *nb, unsigned long event, void *data)
{
	static const int families[] = { AF_INET, AF_INET6 };
	const struct module *module = data;
	struct socket *sock;
	unsigned int i;

	if (event != MODULE_STATE_LIVE || strcmp(module->name, "tls"))
		return NOTIFY_DONE;
	for (i = 0; i < ARRAY_SIZE(families); i++) {
		if (sock_create_kern(&init_net, families[i], SOCK_STREAM, IPPROTO_TCP, &sock))
			continue;
		flt_base_prime_ktls(sock);
		sock_release(sock);
	}
	return NOTIFY_OK;
}

static struct notifier_block flt_base_modules = {
	.notifier_call = flt_base_module_event,
};

static int flt_base_learn(struct flt_base *base, int family)
{
	struct socket *sock;
	unsigned int parts;
	struct sock *sk;
	int err;

	err = sock_create_kern(&init_net, family, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (err)
		return err;
	flt_base_prime_ktls(sock);
	sk = sock->sk;
	base->data_ready = sk->sk_data_ready;
	base->write_space = sk->sk_write_space;
	base->state_change = sk->sk_state_change;
	base->error_report = sk->sk_error_report;
	base->destruct = sk->sk_destruct;
	base->real_ops = sock->ops;
	for (parts = 0; parts <= FLT_OPS_ALL; parts++) {
		base->ops[parts] = flt_ops_make(sock->ops, parts);
		if (!base->ops[parts])
			err = -ENOMEM;
	}
	base->real_af = inet_csk(sk)->icsk_af_ops;
	base->af = *base->real_af;
	base->af.syn_recv_sock = flt_on_syn_recv;
	sock_release(sock);
	return err;
}

static void flt_base_free(void)
{
	unsigned int i, parts;

	for (i = 0; i < 2; i++)
		for (parts = 0; parts <= FLT_OPS_ALL; parts++)
			kfree(flt_bases[i].ops[parts]);
}

int flt_base_init(void)
{
	int err;

	err = flt_base_learn(&flt_bases[0], AF_INET);
	if (err)
		goto undo;
	err = flt_base_learn(&flt_bases[1], AF_INET6);
	flt_base_has_v6 = !err;
	/* A kernel without IPv6 has no such sockets to put a layer on. */
	if (err && err != -EAFNOSUPPORT)
		goto undo;
	err = register_module_notifier(&flt_base_modules);
	if (err)
		goto undo;
	return 0;

undo:
	flt_base_free();
	return err;
}

void flt_base_exit(void)
{
	unregister_module_notifier(&flt_base_modules);
	flt_base_free();
}
