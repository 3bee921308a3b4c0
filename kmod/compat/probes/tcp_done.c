// SPDX-License-Identifier: GPL-2.0
/* exports: tcp_done tcp_orphan_count */
/* May modules end a connection as an RST does, and count an orphan? */
#include <net/tcp.h>

void flt_probe(struct sock *sk);
void flt_probe(struct sock *sk)
{
	tcp_orphan_count_inc();
	tcp_done(sk);
}
