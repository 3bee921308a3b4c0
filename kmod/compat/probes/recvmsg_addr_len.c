// SPDX-License-Identifier: GPL-2.0
/* Is a protocol's recvmsg() told where the length of the address goes? */
#include <net/sock.h>

int flt_probe(const struct proto *prot, struct sock *sk, struct msghdr *msg, int *len);
int flt_probe(const struct proto *prot, struct sock *sk, struct msghdr *msg, int *len)
{
#ifndef FLT_PROBE_NOT
	return prot->recvmsg(sk, msg, 0, 0, len);
#else
	return prot->recvmsg(sk, msg, 0, 0);
#endif
}
