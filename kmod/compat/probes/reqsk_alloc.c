// SPDX-License-Identifier: GPL-2.0
/* exports: inet_reqsk_alloc inet_csk_reqsk_queue_add __reqsk_free */
/* May modules make requests and queue children? */
#include <net/tcp.h>

struct sock *flt_probe(struct sock *listener, struct sock *child);
struct sock *flt_probe(struct sock *listener, struct sock *child)
{
	struct request_sock *req = inet_reqsk_alloc(tcp_prot.rsk_prot, listener, false);

	return inet_csk_reqsk_queue_add(listener, req, child);
}
