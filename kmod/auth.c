// SPDX-License-Identifier: GPL-2.0
/*
 * Authenticated links: TLS 1.3 by the kernel, its handshake by the system's tlshd.
 *
 * tlshd gets the connected socket as a descriptor, shakes hands and installs the
 * session keys; afterwards the socket is ours again and encrypts by itself. A
 * channel that asked for this never carries a frame without it.
 */

#include <linux/file.h>
#include <linux/key.h>
#include <net/inet_connection_sock.h>
#include <net/handshake.h>
#include <net/tls_prot.h>
#include "auth.h"
#include "linkwork.h"

#define FLT_HANDSHAKE_MS	10000

int flt_auth_prepare(struct flt_chan *chan, struct socket *sock)
{
	if (chan->auth == FLT_AUTH_NONE)
		return 0;
	return PTR_ERR_OR_ZERO(sock_alloc_file(sock, O_CLOEXEC, NULL));
}

#if IS_ENABLED(CONFIG_NET_HANDSHAKE)

/*
 * Is the one at the other end known to be the node? tlshd asks a client for a certificate, but
 * takes one that has none, and takes any shared key that it finds under the name that a client
 * gives; it says who it was, and leaves the judgement to us. A client has checked its server:
 * the certificate is for the node's name, the key is the one we named.
 */
static bool flt_auth_is_peer(const struct flt_chan *chan, key_serial_t peerid)
{
	if (chan->auth == FLT_AUTH_PSK && peerid != TLS_NO_PEERID)
		return peerid == chan->key;
	return chan->outbound || peerid != TLS_NO_PEERID;
}

/* In the agent's context. Nothing of the channel may be touched after complete(). */
static void flt_auth_answer(void *data, int status, key_serial_t peerid)
{
	struct flt_chan *chan = data;

	/* Do not believe a success that left the socket as it was. */
	if (!status && !inet_csk_has_ulp(chan->sock->sk))
		status = -ENOTCONN;
	if (!status && !flt_auth_is_peer(chan, peerid))
		status = -EKEYREJECTED;
	if (status > 0)
		status = -EPROTO;
	WRITE_ONCE(chan->secured, status ?: 1);
	flt_link_kick(chan->link);
	complete(&chan->answered);
}

int flt_auth_start(struct flt_chan *chan)
{
	struct tls_handshake_args args = {
		.ta_sock	= chan->sock,
		.ta_done	= flt_auth_answer,
		.ta_data	= chan,
		/* What the other side's certificate must be for. */
		.ta_peername	= chan->link->node->name,
		.ta_timeout_ms	= FLT_HANDSHAKE_MS,
	};
	int err;

	switch (chan->auth) {
	case FLT_AUTH_NONE:
		return 1;
	case FLT_AUTH_PSK:
		args.ta_num_peerids = 1;
		args.ta_my_peerids[0] = chan->key;
		err = chan->outbound ? tls_client_hello_psk(&args, GFP_KERNEL) :
		      tls_server_hello_psk(&args, GFP_KERNEL);
		break;
	default:
		err = chan->outbound ? tls_client_hello_x509(&args, GFP_KERNEL) :
		      tls_server_hello_x509(&args, GFP_KERNEL);
	}
	chan->asked = !err;
	return err;
}

void flt_auth_cancel(struct flt_chan *chan)
{
	if (!chan->asked)
		return;
	/* Too late to cancel: the answer is being given, and needs the channel until then. */
	if (!tls_handshake_cancel(chan->sock->sk))
		wait_for_completion(&chan->answered);
	chan->asked = false;
}

/* 0: data; else what the record means for the reader. */
static int flt_auth_record(struct flt_chan *chan, const struct cmsghdr *cmsg)
{
	switch (tls_get_record_type(chan->sock->sk, cmsg)) {
	case TLS_RECORD_TYPE_DATA:
	case 0:
		return 0;
	case TLS_RECORD_TYPE_ALERT:
		/* Closure or error: either way nothing follows. */
		return -ECONNRESET;
	default:
		/* Session tickets and the like. */
		return -EINTR;
	}
}

static int flt_auth_recv_tls(struct flt_chan *chan, struct iov_iter *iter)
{
	union {
		struct cmsghdr cmsg;
		u8 room[CMSG_SPACE(sizeof(u8))];
	} control;
	int n, err;

	do {
		struct msghdr msg = {
			.msg_control = &control,
			.msg_controllen = sizeof(control),
			.msg_iter = *iter,
		};

		n = sock_recvmsg(chan->sock, &msg, MSG_DONTWAIT);
		err = 0;
		/* A shorter length than was given: kTLS has filled in the type. */
		if (n >= 0 && msg.msg_controllen < sizeof(control))
			err = flt_auth_record(chan, &control.cmsg);
		/* What a record of another type has left behind is written over. */
		if (!err)
			*iter = msg.msg_iter;
	} while (err == -EINTR);
	return err ?: n;
}

#else

int flt_auth_start(struct flt_chan *chan)
{
	return chan->auth == FLT_AUTH_NONE ? 1 : -EOPNOTSUPP;
}

void flt_auth_cancel(struct flt_chan *chan)
{
}

static int flt_auth_recv_tls(struct flt_chan *chan, struct iov_iter *iter)
{
	return -EOPNOTSUPP;
}

#endif

int flt_auth_done(struct flt_chan *chan)
{
	return READ_ONCE(chan->secured);
}

int flt_auth_recv(struct flt_chan *chan, struct iov_iter *iter)
{
	struct msghdr msg = { .msg_iter = *iter };
	int n;

	if (chan->auth != FLT_AUTH_NONE)
		return flt_auth_recv_tls(chan, iter);
	n = sock_recvmsg(chan->sock, &msg, MSG_DONTWAIT);
	*iter = msg.msg_iter;
	return n;
}
