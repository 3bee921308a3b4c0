// SPDX-License-Identifier: GPL-2.0
/* Does accept() give a child its memory cgroup in inet_accept(), when its request is gone? */
#include <net/sock.h>

#ifdef FLT_PROBE_NOT
void __sk_charge(struct sock *sk, int other);
#else
void flt_probe(struct sock *sk);
void flt_probe(struct sock *sk)
{
	__sk_charge(sk, GFP_KERNEL);
}
#endif
