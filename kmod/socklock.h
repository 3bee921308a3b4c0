/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A program may keep its socket locked for as long as it likes: send(2) from memory whose pages do
 * not come sleeps inside. Who needs the lock for somebody else (work items, the close of another
 * socket) must not wait for it.
 */
#ifndef FLT_SOCKLOCK_H
#define FLT_SOCKLOCK_H

#include <linux/bpf.h>
#include <linux/delay.h>
#include <net/sock.h>

/**
 * flt_sock_trylock() - lock_sock() that does not wait for a program
 * @sk: socket
 *
 * Context: process context, no lock held but other sockets'.
 * Return: true: as after lock_sock(), release_sock() gives it back; false: a program has it.
 */
static inline bool flt_sock_trylock(struct sock *sk)
{
	bool ours;

	might_sleep();
	spin_lock_bh(&sk->sk_lock.slock);
	ours = !sk->sk_lock.owned;
	if (ours)
		sk->sk_lock.owned = 1;
	spin_unlock_bh(&sk->sk_lock.slock);
	if (ours)
		mutex_acquire(&sk->sk_lock.dep_map, 0, 1, _RET_IP_);
	return ours;
}

/* Looks at a lock that somebody has, half a millisecond apart. */
#define FLT_SOCK_TRIES	20

/**
 * flt_sock_lock_soon() - flt_sock_trylock(), again for some ten milliseconds
 * @sk: socket
 *
 * Context and return: as flt_sock_trylock().
 */
static inline bool flt_sock_lock_soon(struct sock *sk)
{
	unsigned int tries = FLT_SOCK_TRIES;

	while (!flt_sock_trylock(sk)) {
		if (!--tries)
			return false;
		usleep_range(500, 1000);
	}
	return true;
}

/**
 * flt_sock_abort() - tcp_abort() of a connection that is locked already
 * @sk:  TCP socket; in TCP_CLOSE it stays as it is
 * @err: for its program, positive
 *
 * tcp_abort() takes the lock itself, but from who runs for BPF.
 *
 * Context: process context, @sk locked.
 */
static inline void flt_sock_abort(struct sock *sk, int err)
{
	struct bpf_run_ctx ctx, *old;

	sock_owned_by_me(sk);
	if (sk->sk_state == TCP_CLOSE)
		return;
	if (!IS_ENABLED(CONFIG_BPF_SYSCALL) || !sk->sk_prot->diag_destroy) {
		sk->sk_prot->disconnect(sk, 0);
		return;
	}
	old = bpf_set_run_ctx(&ctx);
	sk->sk_prot->diag_destroy(sk, err);
	bpf_reset_run_ctx(old);
}

#endif
