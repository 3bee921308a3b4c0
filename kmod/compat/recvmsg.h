/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A protocol's recvmsg() has a last parameter on older kernels, where the length of the address
 * goes. Whoever wraps it defines flt_recvmsg() with that parameter and installs flt_on_recvmsg(),
 * which is of the kernel's own type.
 */
#ifndef FLT_COMPAT_RECVMSG_H
#define FLT_COMPAT_RECVMSG_H

#include <net/sock.h>
#include <flt_compat_config.h>

/* @addr_len is NULL where there is none. */
static int flt_recvmsg(struct sock *sk, struct msghdr *msg, size_t len, int flags, int *addr_len);

#ifdef FLT_HAVE_RECVMSG_ADDR_LEN
static int flt_on_recvmsg(struct sock *sk, struct msghdr *msg, size_t len, int flags,
			  int *addr_len)
{
	return flt_recvmsg(sk, msg, len, flags, addr_len);
}

static inline int flt_real_recvmsg(const struct proto *prot, struct sock *sk, struct msghdr *msg,
				   size_t len, int flags, int *addr_len)
{
	return prot->recvmsg(sk, msg, len, flags, addr_len);
}
#else
static int flt_on_recvmsg(struct sock *sk, struct msghdr *msg, size_t len, int flags)
{
	return flt_recvmsg(sk, msg, len, flags, NULL);
}

static inline int flt_real_recvmsg(const struct proto *prot, struct sock *sk, struct msghdr *msg,
				   size_t len, int flags, int *addr_len)
{
	return prot->recvmsg(sk, msg, len, flags);
}
#endif

#endif
