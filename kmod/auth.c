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
#include <linux/unaligned.h>
#include <net/inet_connection_sock.h>
#include <net/handshake.h>
#include <net/tls.h>
#include <net/tls_prot.h>
#include "auth.h"
#include "linkwork.h"

#define FLT_HANDSHAKE_MS	10000

/* RFC 8446, 4: NewSessionTicket. A server sends one or two. */
#define FLT_TLS_TICKET		4
#define FLT_TICKETS		8

/* More than there were bytes; a node sends none. */
#define FLT_EMPTY_RECORDS	16

/* Bytes that are asked for at once. */
#define FLT_TLS_READ		SZ_64K

/*
 * To lockdep all sockets' inodes would be one. A link ends with its own locked, and a command may
 * wait for that; who closes a socket of netlink has that one's locked and may wait for a command.
 */
static struct lock_class_key flt_auth_inode;

int flt_auth_prepare(struct flt_chan *chan, struct socket *sock)
{
	struct file *file;

	if (chan->auth == FLT_AUTH_NONE)
		return 0;
	/* By the node's name, of which it keeps a copy. */
	file = sock_alloc_file(sock, O_CLOEXEC, chan->link->node->name);
	if (IS_ERR(file))
		return PTR_ERR(file);
	lockdep_set_class(&file_inode(file)->i_rwsem, &flt_auth_inode);
	return 0;
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
		.ta_timeout_ms	= FLT_HANDSHAKE_MS,
	};
	struct sock *sk = chan->sock->sk;
	int err;

	if (chan->auth == FLT_AUTH_NONE)
		return 1;
	/*
	 * What the other side's certificate must be for. The kernel keeps the pointer, and an agent
	 * that is just taking the request reads there also when that was cancelled and the node is
	 * gone. But it holds the file.
	 */
	args.ta_peername = file_dentry(chan->sock->file)->d_name.name;
	/*
	 * The kernel tells the agent of a request before it takes the request's reference to the
	 * socket: who answers in between puts a reference that nobody has taken yet.
	 */
	sock_hold(sk);
	switch (chan->auth) {
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
	sock_put(sk);
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

/*
 * kTLS kept back a record that is no data. Of these only a server's tickets for another session,
 * which nobody uses, may be passed over. An alert, of closure or error, is the last that comes.
 * KeyUpdate needs keys that the kernel has not, and all else belongs to the handshake.
 */
static int flt_auth_other(struct flt_chan *chan)
{
	union {
		struct cmsghdr cmsg;
		u8 room[CMSG_SPACE(sizeof(u8))];
	} control = {};
	struct msghdr msg = { .msg_control = &control, .msg_controllen = sizeof(control) };
	struct msghdr rest = msg;
	u8 begin[2];
	struct kvec vec = { .iov_base = begin, .iov_len = sizeof(begin) };
	int n = kernel_recvmsg(chan->sock, &msg, &vec, 1, sizeof(begin), MSG_DONTWAIT);
	u8 type = n < 0 ? 0 : tls_get_record_type(chan->sock->sk, &control.cmsg);

	if (n < 0)
		return n;
	if (type == TLS_RECORD_TYPE_ALERT)
		return -ECONNRESET;
	if (type != TLS_RECORD_TYPE_HANDSHAKE || !n || begin[0] != FLT_TLS_TICKET ||
	    ++chan->tickets > FLT_TICKETS)
		return -ENOMSG;
	if (msg.msg_flags & MSG_EOR)
		return 0;
	iov_iter_discard(&rest.msg_iter, ITER_DEST, TLS_MAX_PAYLOAD_SIZE);
	return min(sock_recvmsg(chan->sock, &rest, MSG_DONTWAIT), 0);
}

/*
 * kTLS goes on to the next record where one has no byte, and no kernel's says so for each. But it
 * counts them: each byte that comes pays for one record.
 */
static void flt_auth_account(struct flt_chan *chan, const struct iov_iter *iter)
{
	u64 records = get_unaligned_be64(tls_get_ctx(chan->sock->sk)->rx.rec_seq);
	u64 owed = chan->owed + records - chan->records;
	size_t unread = iov_iter_count(iter);

	chan->owed = owed - min_t(u64, owed, chan->unread - unread);
	chan->records = records;
	chan->unread = unread;
}

static int flt_auth_recv_tls(struct flt_chan *chan, struct iov_iter *iter)
{
	int n, err;

	do {
		/* Without room for a record's type kTLS gives data, or EIO. */
		struct msghdr msg = { .msg_iter = *iter };

		/* A record may be of one byte, and is decrypted by itself. */
		iov_iter_truncate(&msg.msg_iter, FLT_TLS_READ);
		chan->unread = iov_iter_count(&msg.msg_iter);
		chan->reading = &msg.msg_iter;
		n = sock_recvmsg(chan->sock, &msg, MSG_DONTWAIT);
		chan->reading = NULL;
		flt_auth_account(chan, &msg.msg_iter);
		err = n == -EIO ? flt_auth_other(chan) : n;
	} while (n == -EIO && !err);
	return chan->owed > FLT_EMPTY_RECORDS ? -ENOMSG : err;
}

/*
 * What came while somebody had the socket. To our reader, in the midst of sock_recvmsg(), a peer
 * that never pauses would give records for ever: without these packets its queue ends, and it has
 * to tell what it took. They are lost as on a network, if the last record has bytes after all.
 */
static int flt_auth_backlog(struct sock *sk, struct sk_buff *skb)
{
	struct flt_chan *chan = sk->sk_user_data;

	if (READ_ONCE(chan->rx_task) == current && chan->reading) {
		flt_auth_account(chan, chan->reading);
		if (chan->owed > FLT_EMPTY_RECORDS) {
			kfree_skb_reason(skb, SKB_DROP_REASON_SOCKET_BACKLOG);
			return 0;
		}
	}
	return chan->old_backlog(sk, skb);
}

void flt_auth_watch(struct flt_chan *chan)
{
	struct sock *sk = chan->sock->sk;

	lock_sock(sk);
	chan->records = get_unaligned_be64(tls_get_ctx(sk)->rx.rec_seq);
	chan->old_backlog = sk->sk_backlog_rcv;
	sk->sk_backlog_rcv = flt_auth_backlog;
	release_sock(sk);
}

void flt_auth_unwatch(struct flt_chan *chan)
{
	struct sock *sk = chan->sock->sk;

	if (!chan->old_backlog)
		return;
	/* Only who has the lock calls it. */
	lock_sock(sk);
	sk->sk_backlog_rcv = chan->old_backlog;
	release_sock(sk);
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

void flt_auth_watch(struct flt_chan *chan)
{
}

void flt_auth_unwatch(struct flt_chan *chan)
{
}

#endif

int flt_auth_done(struct flt_chan *chan)
{
	return READ_ONCE(chan->secured);
}

int flt_auth_recv(struct flt_chan *chan, struct iov_iter *iter)
{
	struct msghdr msg = { .msg_iter = *iter };

	if (chan->auth != FLT_AUTH_NONE)
		return flt_auth_recv_tls(chan, iter);
	return sock_recvmsg(chan->sock, &msg, MSG_DONTWAIT);
}
