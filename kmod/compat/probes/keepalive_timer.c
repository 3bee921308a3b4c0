// SPDX-License-Identifier: GPL-2.0
/* exports: inet_csk_reset_keepalive_timer inet_csk_delete_keepalive_timer */
/* May modules start and stop the keepalive timer by name? */
#include <net/inet_connection_sock.h>

void flt_probe(struct sock *sk);
void flt_probe(struct sock *sk)
{
	inet_csk_reset_keepalive_timer(sk, HZ);
	inet_csk_delete_keepalive_timer(sk);
}
