// SPDX-License-Identifier: GPL-2.0
/*
 * A face of ours over kTLS's own operations, which makes the edges what a program without TLS
 * expects:
 *
 *	the client's close_notify	end of file
 *	its fatal alert, a bad record	ECONNRESET; what is written then: EPIPE
 *	its KeyUpdate			end of file: this kernel cannot go on with other keys
 *	shutdown() and close()		close_notify first; not with SO_LINGER and no time
 *	FIONREAD			counts what is decrypted, too
 *	MSG_PEEK			leaves records as they are: they can move
 *	SOL_TLS				is not there: keys are nobody's to read
 *
 * It is one for each kind of kTLS socket, without anything of a single one in it: what it has to
 * remember is in sk_shutdown. Each socket that has it holds this module.
 */

#include <asm/ioctls.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/splice.h>
#include <net/tcp.h>
#include <net/tls.h>
#include <net/tls_prot.h>
#include "compat/recvmsg.h"
#include "counter.h"
#include "ktls_face.h"
#include "ktls_record.h"
#include "stack_priv.h"

/* RFC 8446, 4 and 6. */
#define FLT_TLS_KEY_UPDATE	24
#define FLT_TLS_WARNING		1
#define FLT_TLS_FATAL		2

/* In sk_shutdown, beside TCP's bits: the last is being said, and nobody else says anything. */
#define FLT_TLS_ENDING		4

/* The last word, and what was left of a record and is to go before it. */
#define FLT_TLS_LAST_ROOM	SZ_64K

/**
 * struct flt_ktls_face - operations of sockets of one family, with or without a card's help
 * @prot:     ours, over @own_prot
 * @ops:      ours, over @own_ops
 * @own_prot: kTLS's; NULL: there was no such socket yet
 * @own_ops:  the same
 * @recvmsg:  of @own_prot, by which another tls.ko is known
 */
struct flt_ktls_face {
	struct proto prot;
	const struct proto_ops *ops;
	const struct proto *own_prot;
	const struct proto_ops *own_ops;
	typeof(tcp_prot.recvmsg) recvmsg;
};

static struct flt_ktls_face flt_ktls_faces[2][4];
static DEFINE_MUTEX(flt_ktls_lock);	/* making of faces */

static const struct flt_ktls_face *flt_ktls_face_of(const struct sock *sk)
{
	return container_of(READ_ONCE(sk->sk_prot), struct flt_ktls_face, prot);
}

static void flt_ktls_settle(struct sock *sk, const struct flt_ktls_face *face)
{
	const struct flt_base *base = flt_base(sk);
	struct socket *sock = sk->sk_socket;
	const struct proto_ops *now;

	if (!sock)
		return;
	now = READ_ONCE(sock->ops);
	if (now == base->real_ops || flt_base_parts(base, now) >= 0)
		WRITE_ONCE(sock->ops, face->ops);
}

/* --- records that are no data --- */

static u8 flt_ktls_record_type(const struct cmsghdr *cmsg)
{
	if (cmsg->cmsg_level != SOL_TLS || cmsg->cmsg_type != TLS_GET_RECORD_TYPE)
		return 0;
	return *(u8 *)CMSG_DATA(cmsg);
}

/*
 * One of ours. A full buffer must not keep it back: it is the last that is said, and small. Nor may
 * whoever is still on his way to kTLS find more room than that.
 */
static void flt_ktls_say(struct sock *sk, const struct flt_ktls_face *face, u8 level, u8 what)
{
	union {
		struct cmsghdr cmsg;
		u8 room[CMSG_SPACE(sizeof(u8))];
	} control = {};
	u8 alert[2] = { level, what };
	struct kvec vec = { .iov_base = alert, .iov_len = sizeof(alert) };
	struct msghdr msg = {
		.msg_control = &control,
		.msg_controllen = sizeof(control),
		.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL,
	};
	int sndbuf = READ_ONCE(sk->sk_sndbuf);

	control.cmsg.cmsg_level = SOL_TLS;
	control.cmsg.cmsg_type = TLS_SET_RECORD_TYPE;
	control.cmsg.cmsg_len = CMSG_LEN(sizeof(u8));
	*(u8 *)CMSG_DATA(&control.cmsg) = TLS_RECORD_TYPE_ALERT;
	iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, &vec, 1, sizeof(alert));
	WRITE_ONCE(sk->sk_sndbuf, max(sndbuf, READ_ONCE(sk->sk_wmem_queued) + FLT_TLS_LAST_ROOM));
	face->own_prot->sendmsg(sk, &msg, sizeof(alert));
	WRITE_ONCE(sk->sk_sndbuf, sndbuf);
}

static bool flt_ktls_may_say(const struct sock *sk)
{
	return (1 << inet_sk_state_load(sk)) & (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT);
}

static void flt_ktls_end_sending(struct sock *sk, u8 how)
{
	u8 other = READ_ONCE(sk->sk_shutdown) & ~(SEND_SHUTDOWN | FLT_TLS_ENDING);

	WRITE_ONCE(sk->sk_shutdown, other | how);
}

/*
 * The last that is said. Another thread may be in write(), and waits there for the client, with the
 * lock under which kTLS makes records: it is told EPIPE, as by a shutdown() of TCP's. For the last
 * record TCP has to be open again, to us alone.
 */
static void flt_ktls_say_last(struct sock *sk, const struct flt_ktls_face *face, u8 level, u8 what)
{
	struct tls_context *ctx = tls_get_ctx(sk);

	lock_sock(sk);
	flt_ktls_end_sending(sk, SEND_SHUTDOWN | FLT_TLS_ENDING);
	sk->sk_state_change(sk);
	release_sock(sk);
	mutex_lock(&ctx->tx_lock);
	lock_sock(sk);
	flt_ktls_end_sending(sk, FLT_TLS_ENDING | (flt_ktls_may_say(sk) ? 0 : SEND_SHUTDOWN));
	/* What it was told is nobody else's error. */
	if (sk->sk_err == EPIPE)
		sock_error(sk);
	release_sock(sk);
	mutex_unlock(&ctx->tx_lock);
	if (flt_ktls_may_say(sk))
		flt_ktls_say(sk, face, level, what);
	lock_sock(sk);
	flt_ktls_end_sending(sk, SEND_SHUTDOWN);
	release_sock(sk);
}

/* What follows the client's last word is no data (RFC 8446, 6.1), or has keys not known here. */
static void flt_ktls_end(struct sock *sk, u8 how)
{
	struct tls_strparser *strp = &tls_sw_ctx_rx(tls_get_ctx(sk))->strp;

	lock_sock(sk);
	strp->stopped = 1;
	WRITE_ONCE(strp->msg_ready, 0);
	WRITE_ONCE(sk->sk_shutdown, sk->sk_shutdown | how);
	sk->sk_state_change(sk);
	release_sock(sk);
}

/* Neither side can go on. */
static int flt_ktls_break(struct sock *sk)
{
	flt_count(flt_net(sock_net(sk)), FLT_TLS_BROKEN);
	flt_ktls_end(sk, SHUTDOWN_MASK);
	return -ECONNRESET;
}

static int flt_ktls_alert(struct sock *sk, const u8 *body, int len)
{
	/* user_canceled announces the other; repeated it would keep the server reading. */
	if (len == 2 && (body[1] == TLS_ALERT_DESC_CLOSE_NOTIFY ||
			 body[1] == TLS_ALERT_DESC_USER_CANCELED)) {
		flt_ktls_end(sk, RCV_SHUTDOWN);
		return 0;
	}
	return flt_ktls_break(sk);
}

/* Newer kTLS says so of all that follows a KeyUpdate, the end of file here. */
static bool flt_ktls_is_over(int err)
{
	return err == -EKEYEXPIRED;
}

/*
 * kTLS kept back a record that is no data. Return: 1: it is passed over; 0: end of file; or a
 * negative errno.
 */
static int flt_ktls_other(struct sock *sk, const struct flt_ktls_face *face)
{
	union {
		struct cmsghdr cmsg;
		u8 room[CMSG_SPACE(sizeof(u8))];
	} control = {};
	struct msghdr msg = { .msg_control = &control, .msg_controllen = sizeof(control) };
	u8 body[16];
	struct kvec vec = { .iov_base = body, .iov_len = sizeof(body) };
	int n, addr_len;

	iov_iter_kvec(&msg.msg_iter, ITER_DEST, &vec, 1, sizeof(body));
	n = flt_real_recvmsg(face->own_prot, sk, &msg, sizeof(body), MSG_DONTWAIT, &addr_len);
	if (n < 0)
		return n == -EAGAIN || flt_ktls_is_over(n) ? 1 : n;
	switch (flt_ktls_record_type(&control.cmsg)) {
	case TLS_RECORD_TYPE_ALERT:
		return flt_ktls_alert(sk, body, n);
	case TLS_RECORD_TYPE_HANDSHAKE:
		if (!n || body[0] != FLT_TLS_KEY_UPDATE)
			break;
		flt_count(flt_net(sock_net(sk)), FLT_TLS_REKEYED);
		flt_ktls_end(sk, RCV_SHUTDOWN);
		return 0;
	}
	/* Also data: another thread has taken the record in question, and we some of the stream. */
	flt_ktls_say_last(sk, face, FLT_TLS_FATAL, TLS_ALERT_DESC_UNEXPECTED_MESSAGE);
	return flt_ktls_break(sk);
}

/* A record that nobody can have made who has the keys, or none at all: kTLS reads no further. */
static bool flt_ktls_is_bad(const struct sock *sk, int err)
{
	return err == -EBADMSG || err == -EMSGSIZE ||
	       (err == -EINVAL && tls_sw_ctx_rx(tls_get_ctx(sk))->strp.stopped);
}

static int flt_ktls_bad(struct sock *sk, const struct flt_ktls_face *face)
{
	sock_error(sk);
	flt_ktls_say_last(sk, face, FLT_TLS_FATAL, TLS_ALERT_DESC_BAD_RECORD_MAC);
	return flt_ktls_break(sk);
}

/* --- the face --- */

/* Of a peek no more than this is looked at: a record's text. */
#define FLT_TLS_PEEK_MAX	TLS_MAX_PAYLOAD_SIZE

/* kTLS has told of a record that is still there, but is to tell again when more has come. */
static bool flt_ktls_is_peeked(const struct sock *sk)
{
	const struct tls_strparser *strp = &tls_sw_ctx_rx(tls_get_ctx(sk))->strp;
	u32 full = READ_ONCE(strp->stm.full_len);

	return full && tcp_inq((struct sock *)sk) >= full;
}

/*
 * kTLS would decrypt the record for good, and such a connection cannot move. Whoever got less than
 * he asked for may wait for more: with the record not ready kTLS says it anew with all that comes.
 * 0: that is for kTLS to answer.
 */
static int flt_ktls_peek(struct sock *sk, struct msghdr *msg, size_t len)
{
	struct tls_strparser *strp = &tls_sw_ctx_rx(tls_get_ctx(sk))->strp;
	size_t done = 0, room = min_t(size_t, len, FLT_TLS_PEEK_MAX);
	struct flt_ktls_pos pos = {};
	u8 *text;
	u32 got;

	text = kmalloc(room, GFP_KERNEL | __GFP_NOWARN);
	if (!text)
		return 0;
	lock_sock(sk);
	while (done < room && flt_ktls_record(sk, &pos, text + done, room - done, &got))
		done += min_t(size_t, got, room - done);
	if (done && done < len)
		WRITE_ONCE(strp->msg_ready, 0);
	release_sock(sk);
	if (done && copy_to_iter(text, done, &msg->msg_iter) != done)
		done = 0;
	kfree_sensitive(text);
	return done;
}

static int flt_recvmsg(struct sock *sk, struct msghdr *msg, size_t len, int flags, int *addr_len)
{
	const struct flt_ktls_face *face = flt_ktls_face_of(sk);
	bool is_user = msg->msg_control_is_user;
	unsigned int was = msg->msg_flags;
	size_t room = msg->msg_controllen;
	void *control = msg->msg_control;
	int n;

	if (flags & MSG_ERRQUEUE)
		return flt_real_recvmsg(face->own_prot, sk, msg, len, flags, addr_len);
	/* As TCP does, and kTLS does not: it is thrown away, and there may be no room for it. */
	if (flags & MSG_TRUNC)
		iov_iter_discard(&msg->msg_iter, ITER_DEST, len);
	if ((flags & (MSG_PEEK | MSG_TRUNC | MSG_WAITALL | MSG_OOB)) == MSG_PEEK) {
		n = flt_ktls_peek(sk, msg, len);
		if (n)
			return n;
	}
	do {
		/* It would be told the type of each record. */
		msg->msg_control = NULL;
		msg->msg_controllen = 0;
		n = flt_real_recvmsg(face->own_prot, sk, msg, len, flags, addr_len);
		msg->msg_control = control;
		msg->msg_control_is_user = is_user;
		msg->msg_controllen = room;
		msg->msg_flags = was;
		if (flt_ktls_is_bad(sk, n))
			return flt_ktls_bad(sk, face);
		if (flt_ktls_is_over(n))
			return 0;
		if (n != -EIO)
			return n;
		n = flt_ktls_other(sk, face);
	} while (n > 0);
	return n;
}

/* A record without a byte is no end. */
static bool flt_ktls_goes_on(const struct sock *sk)
{
	const struct tls_sw_context_rx *rx = tls_sw_ctx_rx(tls_get_ctx(sk));

	return !(READ_ONCE(sk->sk_shutdown) & RCV_SHUTDOWN) || READ_ONCE(rx->strp.msg_ready) ||
	       !skb_queue_empty_lockless(&rx->rx_list);
}

/* Is a record next that is no data? */
static bool flt_ktls_has_other(struct sock *sk, const struct flt_ktls_face *face)
{
	u8 byte;
	struct kvec vec = { .iov_base = &byte, .iov_len = sizeof(byte) };
	struct msghdr msg = {};
	int addr_len;

	iov_iter_kvec(&msg.msg_iter, ITER_DEST, &vec, 1, sizeof(byte));
	return flt_real_recvmsg(face->own_prot, sk, &msg, sizeof(byte), MSG_PEEK | MSG_DONTWAIT,
				&addr_len) == -EIO;
}

static ssize_t flt_ktls_splice_read(struct socket *sock, loff_t *ppos,
				    struct pipe_inode_info *pipe, size_t len, unsigned int flags)
{
	const struct flt_ktls_face *face = flt_ktls_face_of(sock->sk);
	ssize_t n;

	/* Of TCP's it is the file that says whether it waits. */
	if (sock->file->f_flags & O_NONBLOCK)
		flags |= SPLICE_F_NONBLOCK;
	do {
		n = face->own_ops->splice_read(sock, ppos, pipe, len, flags);
		if (!n && flt_ktls_goes_on(sock->sk)) {
			n = signal_pending(current) ? -ERESTARTSYS : 1;
			continue;
		}
		if (n < 0 && flt_ktls_is_bad(sock->sk, n))
			return flt_ktls_bad(sock->sk, face);
		if (flt_ktls_is_over(n))
			return 0;
		if (n != -EINVAL || !flt_ktls_has_other(sock->sk, face))
			return n;
		n = flt_ktls_other(sock->sk, face);
	} while (n > 0);
	return n;
}

static bool flt_ktls_is_readable(struct sock *sk)
{
	const struct flt_ktls_face *face = flt_ktls_face_of(sk);

	return face->own_prot->sock_is_readable(sk) || flt_ktls_is_peeked(sk);
}

static __poll_t flt_ktls_poll(struct file *file, struct socket *sock, poll_table *wait)
{
	const struct flt_ktls_face *face = flt_ktls_face_of(sock->sk);
	__poll_t mask = face->own_ops->poll(file, sock, wait);

	return flt_ktls_is_peeked(sock->sk) ? mask | EPOLLIN | EPOLLRDNORM : mask;
}

static int flt_ktls_sendmsg(struct sock *sk, struct msghdr *msg, size_t len)
{
	const struct flt_ktls_face *face = flt_ktls_face_of(sk);

	/* kTLS would take it, and say so the next time. */
	if (READ_ONCE(sk->sk_shutdown) & (SEND_SHUTDOWN | FLT_TLS_ENDING))
		return sk_stream_error(sk, msg->msg_flags, -EPIPE);
	return face->own_prot->sendmsg(sk, msg, len);
}

/* Decrypted bytes are in no queue of TCP's. */
static int flt_ktls_ioctl(struct sock *sk, int cmd, int *karg)
{
	const struct flt_ktls_face *face = flt_ktls_face_of(sk);
	int err = face->own_prot->ioctl(sk, cmd, karg);
	struct tls_sw_context_rx *rx;
	struct sk_buff *skb;
	int more = 0;

	if (err || cmd != SIOCINQ)
		return err;
	lock_sock(sk);
	rx = tls_sw_ctx_rx(tls_get_ctx(sk));
	skb_queue_walk(&rx->rx_list, skb)
		more += strp_msg(skb)->full_len;
	release_sock(sk);
	*karg += more;
	return 0;
}

static int flt_ktls_setsockopt(struct sock *sk, int level, int name, sockptr_t value,
			       unsigned int len)
{
	const struct flt_ktls_face *face = flt_ktls_face_of(sk);

	if (level == SOL_TLS)
		return -ENOPROTOOPT;
	return face->own_prot->setsockopt(sk, level, name, value, len);
}

static int flt_ktls_getsockopt(struct sock *sk, int level, int name, char __user *value,
			       int __user *len)
{
	const struct flt_ktls_face *face = flt_ktls_face_of(sk);

	if (level == SOL_TLS)
		return -ENOPROTOOPT;
	/* TCP would give the records as they came. */
	if (level == SOL_TCP && name == TCP_ZEROCOPY_RECEIVE)
		return -EOPNOTSUPP;
	return face->own_prot->getsockopt(sk, level, name, value, len);
}

/* inet_shutdown() has the lock. What kTLS sends takes it itself. */
static void flt_ktls_shutdown(struct sock *sk, int how)
{
	const struct flt_ktls_face *face = flt_ktls_face_of(sk);

	if (how & SEND_SHUTDOWN) {
		release_sock(sk);
		flt_ktls_say_last(sk, face, FLT_TLS_WARNING, TLS_ALERT_DESC_CLOSE_NOTIFY);
		lock_sock(sk);
	}
	face->own_prot->shutdown(sk, how);
}

static bool flt_ktls_is_open(const struct sock *sk)
{
	return flt_ktls_may_say(sk) && !(READ_ONCE(sk->sk_shutdown) & SEND_SHUTDOWN);
}

static void flt_ktls_close(struct sock *sk, long timeout)
{
	const struct flt_ktls_face *face = flt_ktls_face_of(sk);

	/* Whoever has it reset does not say that this was all. */
	if (flt_ktls_is_open(sk) && (!sock_flag(sk, SOCK_LINGER) || sk->sk_lingertime)) {
		/* An alert that nobody has read is no reason for a RST, as a FIN is none. */
		if (flt_ktls_has_other(sk, face))
			flt_ktls_other(sk, face);
		if (flt_ktls_is_open(sk))
			flt_ktls_say(sk, face, FLT_TLS_WARNING, TLS_ALERT_DESC_CLOSE_NOTIFY);
	}
	lock_sock(sk);
	write_lock_bh(&sk->sk_callback_lock);
	WRITE_ONCE(sk->sk_prot, (struct proto *)face->own_prot);
	write_unlock_bh(&sk->sk_callback_lock);
	release_sock(sk);
	face->own_prot->close(sk, timeout);
	module_put(THIS_MODULE);
}

/*
 * accept() has given the socket its listener's operations, with which records would be read as they
 * came. It lets go of the lock once more before it returns: they are put right there.
 */
static void flt_ktls_release_cb(struct sock *sk)
{
	const struct flt_ktls_face *face = flt_ktls_face_of(sk);

	flt_ktls_settle(sk, face);
	face->own_prot->release_cb(sk);
}

bool flt_ktls_is_ours(const struct sock *sk)
{
	return READ_ONCE(sk->sk_prot)->release_cb == flt_ktls_release_cb;
}
EXPORT_SYMBOL_GPL(flt_ktls_is_ours);

bool flt_ktls_has_below(const struct sock *sk, void (*data_ready)(struct sock *sk))
{
	return tls_sw_ctx_rx(tls_get_ctx(sk))->saved_data_ready == data_ready;
}

static int flt_ktls_face_make(struct flt_ktls_face *face, const struct proto *prot,
			      const struct proto_ops *ops)
{
	const size_t splice = offsetof(struct proto_ops, splice_read) / sizeof(unsigned long);
	const size_t poll = offsetof(struct proto_ops, poll) / sizeof(unsigned long);
	unsigned long *made = kmemdup(ops, sizeof(*ops), GFP_KERNEL);

	if (!made)
		return -ENOMEM;
	made[splice] = (unsigned long)flt_ktls_splice_read;
	made[poll] = (unsigned long)flt_ktls_poll;
	kfree(face->ops);
	face->ops = (const struct proto_ops *)made;
	face->own_prot = prot;
	face->own_ops = ops;
	face->recvmsg = prot->recvmsg;
	face->prot = *prot;
	face->prot.recvmsg = flt_on_recvmsg;
	face->prot.sendmsg = flt_ktls_sendmsg;
	face->prot.sock_is_readable = flt_ktls_is_readable;
	face->prot.ioctl = flt_ktls_ioctl;
	face->prot.setsockopt = flt_ktls_setsockopt;
	face->prot.getsockopt = flt_ktls_getsockopt;
	face->prot.shutdown = flt_ktls_shutdown;
	face->prot.close = flt_ktls_close;
	face->prot.release_cb = flt_ktls_release_cb;
	return 0;
}

/*
 * Another tls.ko than the last time, or another place of it: then no socket has kTLS that had it
 * from the old one, nor our face over that.
 */
struct proto *flt_ktls_face_get(const struct sock *sk, const struct proto_ops *ops)
{
	const struct tls_context *ctx = tls_get_ctx(sk);
	unsigned int kind = 2 * (ctx->tx_conf != TLS_SW) + (ctx->rx_conf != TLS_SW);
	struct flt_ktls_face *face = &flt_ktls_faces[sk->sk_family == AF_INET6][kind];
	const struct proto *prot = READ_ONCE(sk->sk_prot);
	int err = 0;

	mutex_lock(&flt_ktls_lock);
	if (face->own_prot != prot || face->own_ops != ops || face->recvmsg != prot->recvmsg)
		err = flt_ktls_face_make(face, prot, ops);
	mutex_unlock(&flt_ktls_lock);
	return err ? ERR_PTR(err) : &face->prot;
}

void flt_ktls_face_exit(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(flt_ktls_faces[0]); i++) {
		kfree(flt_ktls_faces[0][i].ops);
		kfree(flt_ktls_faces[1][i].ops);
	}
}
