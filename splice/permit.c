// SPDX-License-Identifier: GPL-2.0
/*
 * May the caller receive from a socket, and send on it?
 *
 * security_socket_recvmsg() and security_socket_sendmsg() are not exported, but sock_recvmsg() and
 * sock_sendmsg() ask them before anything else. So both are called in a way that TCP answers
 * without doing anything: for urgent data that stays, into no room; and with a control message
 * that does not exist, for no bytes.
 */

#include <linux/socket.h>
#include <linux/uio.h>
#include <net/sock.h>
#include <net/tcp_states.h>
#include <flotilla/splice.h>

#include "judge.h"
#include "permit.h"

/* TCP's and our own answers to such a call; anything else is a refusal. */
static int ssp_permit_result(int ret)
{
	switch (ret) {
	case -EINVAL:
	case -EAGAIN:
	case -EBUSY:
	case -EOPNOTSUPP:
	case -ENOTCONN:
	case -EPIPE:
	case -ECONNRESET:
	case -ETIMEDOUT:
		return 0;
	default:
		return min(ret, 0);
	}
}

static int ssp_permit_recv(struct socket *sock)
{
	struct msghdr msg = {};
	struct kvec none = {};

	iov_iter_kvec(&msg.msg_iter, ITER_DEST, &none, 1, 0);
	return ssp_permit_result(sock_recvmsg(sock, &msg, MSG_OOB | MSG_PEEK | MSG_DONTWAIT));
}

static int ssp_permit_send(struct socket *sock)
{
	struct cmsghdr bad = { .cmsg_len = 0 };
	struct msghdr msg = {
		.msg_control = &bad,
		.msg_controllen = sizeof(bad),
		.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL,
	};
	struct kvec none = {};

	/* Else TCP would report the connection's error, and forget it. */
	if (!((1 << READ_ONCE(sock->sk->sk_state)) & (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT)))
		return -ENOTCONN;
	iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, &none, 1, 0);
	return ssp_permit_result(sock_sendmsg(sock, &msg));
}

int ssp_permit(struct socket *sock0, struct socket *sock1, const struct ssp_splice *args)
{
	int err;

	/* Whose calls would not be TCP's; it is refused for that in a moment. */
	if (ssp_is_taken(sock0->sk) || ssp_is_taken(sock1->sk))
		return 0;
	err = ssp_permit_recv(sock0) ?: ssp_permit_send(sock1);
	if (!err && (args->flags & SSP_BIDIR))
		err = ssp_permit_recv(sock1) ?: ssp_permit_send(sock0);
	return err;
}
