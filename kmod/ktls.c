// SPDX-License-Identifier: GPL-2.0
/*
 * Keys of an adopted child, from its checkpoint to kTLS. That needs a struct socket, and the keys
 * need someone to be charged for them, so both wait for accept() (adopt_accept.c): there the child
 * gets a socket for a moment, the ULP and its keys, and then a face (ktls_face.c).
 */

#include <linux/cred.h>
#include <linux/crypto.h>
#include <linux/kmod.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/slab.h>
#include <net/tcp.h>
#include <net/tls.h>
#include "adopt.h"
#include "checkpoint.h"
#include "counter.h"
#include "ktls.h"
#include "ktls_face.h"
#include "stack_priv.h"

/**
 * struct flt_ktls - keys on their way to a child
 * @tls:    they
 * @child:  a reference, from flt_ktls_await() on
 * @over:   @accept has been called
 * @accept: when @child is accepted
 */
struct flt_ktls {
	struct flt_tls tls;
	struct sock *child;
	bool over;
	struct flt_accept accept;
};

static u8 *flt_ktls_put(u8 *at, const u8 *from, size_t len)
{
	memcpy(at, from, len);
	return at + len;
}

static int flt_ktls_set(struct sock *sk, const struct flt_tls *tls, const struct flt_tls_way *way,
			int name)
{
	union {
		struct tls_crypto_info info;
		struct tls12_crypto_info_aes_gcm_128 gcm128;
		struct tls12_crypto_info_aes_gcm_256 gcm256;
		struct tls12_crypto_info_chacha20_poly1305 chacha20;
	} to = { .info.version = tls->version, .info.cipher_type = tls->cipher };
	size_t salt = tls->cipher == TLS_CIPHER_CHACHA20_POLY1305 ?
		      TLS_CIPHER_CHACHA20_POLY1305_SALT_SIZE : TLS_CIPHER_AES_GCM_128_SALT_SIZE;
	u8 *at = (u8 *)(&to.info + 1);
	int err;

	/* In the order in which each of them has these. */
	static_assert(TLS_CIPHER_AES_GCM_256_SALT_SIZE == TLS_CIPHER_AES_GCM_128_SALT_SIZE);
	at = flt_ktls_put(at, way->iv + salt, sizeof(way->iv) - salt);
	at = flt_ktls_put(at, way->key, flt_tls_key_size(tls->cipher));
	at = flt_ktls_put(at, way->iv, salt);
	at = flt_ktls_put(at, way->rec_seq, sizeof(way->rec_seq));
	err = READ_ONCE(sk->sk_prot)->setsockopt(sk, SOL_TLS, name, KERNEL_SOCKPTR(&to),
						 at - (u8 *)&to);
	memzero_explicit(&to, sizeof(to));
	return err;
}

/*
 * kTLS begins on established connections only. The client may have sent its FIN behind the request:
 * that is no obstacle but for this. What comes meanwhile finds a state that it had just now.
 */
static int flt_ktls_ulp(struct sock *sk)
{
	static const char name[] = "tls";
	bool half;
	int err;

	lock_sock(sk);
	half = sk->sk_state == TCP_CLOSE_WAIT;
	if (half)
		WRITE_ONCE(sk->sk_state, TCP_ESTABLISHED);
	release_sock(sk);
	err = READ_ONCE(sk->sk_prot)->setsockopt(sk, SOL_TCP, TCP_ULP,
						 KERNEL_SOCKPTR((void *)name), sizeof(name) - 1);
	lock_sock(sk);
	if (half && sk->sk_state == TCP_ESTABLISHED)
		WRITE_ONCE(sk->sk_state, TCP_CLOSE_WAIT);
	release_sock(sk);
	return err;
}

/* Half of them may have been set, and SOL_TLS is kTLS's own then. */
static void flt_ktls_wipe(struct sock *sk)
{
	struct tls_context *ctx;

	lock_sock(sk);
	ctx = tls_get_ctx(sk);
	if (ctx) {
		memzero_explicit(&ctx->crypto_send, sizeof(ctx->crypto_send));
		memzero_explicit(&ctx->crypto_recv, sizeof(ctx->crypto_recv));
	}
	release_sock(sk);
}

static void flt_ktls_lend(struct sock *sk, struct socket *sock, struct proto *prot)
{
	lock_sock(sk);
	write_lock_bh(&sk->sk_callback_lock);
	sk_set_socket(sk, sock);
	if (prot)
		WRITE_ONCE(sk->sk_prot, prot);
	write_unlock_bh(&sk->sk_callback_lock);
	release_sock(sk);
}

/* @sk is being accepted. */
static int flt_ktls_start(struct sock *sk, const struct flt_tls *tls)
{
	struct proto *face = NULL;
	struct socket *sock;
	int err;

	err = sock_create_lite(sk->sk_family, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (err)
		return err;
	sock->ops = flt_base(sk)->real_ops;
	sock->sk = sk;
	flt_base_hear_below(sk);
	flt_ktls_lend(sk, sock, NULL);
	err = flt_ktls_ulp(sk);
	if (!err)
		err = flt_ktls_set(sk, tls, &tls->tx, TLS_TX);
	if (!err)
		err = flt_ktls_set(sk, tls, &tls->rx, TLS_RX);
	if (!err) {
		face = flt_ktls_face_get(sk, READ_ONCE(sock->ops));
		err = PTR_ERR_OR_ZERO(face);
		if (err)
			face = NULL;
		else
			__module_get(THIS_MODULE);
	}
	if (err)
		flt_ktls_wipe(sk);
	flt_ktls_lend(sk, NULL, face);
	sock->sk = NULL;
	sock->ops = NULL;
	sock_release(sock);
	return err;
}

/* Its program gets a connection that has ended, and nothing of what it was sent. */
static void flt_ktls_kill(struct sock *sk)
{
	tcp_abort(sk, ECONNRESET);
	lock_sock(sk);
	__skb_queue_purge(&sk->sk_receive_queue);
	WRITE_ONCE(tcp_sk(sk)->copied_seq, tcp_sk(sk)->rcv_nxt);
	release_sock(sk);
}

static void flt_ktls_release(struct flt_accept *accept)
{
	flt_ktls_free(container_of(accept, struct flt_ktls, accept));
}

static void flt_ktls_accepted(struct flt_accept *accept, bool accepted)
{
	struct flt_ktls *ktls = container_of(accept, struct flt_ktls, accept);
	struct sock *child = ktls->child;
	int err;

	if (ktls->over)
		return;
	ktls->over = true;
	if (accepted) {
		err = flt_ktls_start(child, &ktls->tls);
		flt_count(flt_net(sock_net(child)), err ? FLT_TLS_FAILED : FLT_TLS_STARTED);
		if (err)
			flt_ktls_kill(child);
	}
	memzero_explicit(&ktls->tls, sizeof(ktls->tls));
	sock_put(child);
	flt_accept_over(accept, flt_ktls_release);
}

void flt_ktls_await(struct flt_ktls *ktls, struct request_sock *req, struct sock *child)
{
	sock_hold(child);
	ktls->child = child;
	flt_accept_await(&ktls->accept, req, child, flt_ktls_accepted);
}

void flt_ktls_forget(struct flt_ktls *ktls, struct request_sock *req)
{
	flt_accept_forget(&ktls->accept, req);
	sock_put(ktls->child);
	flt_ktls_free(ktls);
}

/* --- before there is a child --- */

/*
 * A socket without a connection cannot have it, and is told so by kTLS, if that is there. Asked
 * without a kernel thread's rights: another node is not to have a module loaded here.
 */
static bool flt_ktls_is_there(void)
{
	static const char name[] = "tls";
	struct cred *nobody = prepare_creds();
	const struct cred *own;
	struct socket *sock;
	int err;

	if (!nobody)
		return false;
	cap_clear(nobody->cap_effective);
	err = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (!err) {
		own = override_creds(nobody);
		err = sock->ops->setsockopt(sock, SOL_TCP, TCP_ULP, KERNEL_SOCKPTR((void *)name),
					    sizeof(name) - 1);
		revert_creds(own);
		sock_release(sock);
	}
	put_cred(nobody);
	return err == -ENOTCONN;
}

/* A cipher that was found once is there: looking for it may load modules, while the giver waits. */
static bool flt_ktls_knows(u16 cipher)
{
	static bool knows[2];
	bool chacha20 = cipher == TLS_CIPHER_CHACHA20_POLY1305;

	if (!flt_ktls_is_there())
		return false;
	if (!READ_ONCE(knows[chacha20]) &&
	    crypto_has_alg(chacha20 ? "rfc7539(chacha20,poly1305)" : "gcm(aes)", 0, 0))
		WRITE_ONCE(knows[chacha20], true);
	return READ_ONCE(knows[chacha20]);
}

void flt_ktls_load(void)
{
	/* As the kernel itself does where a program asks for it. */
	if (!capable(CAP_NET_ADMIN))
		return;
	request_module("tcp-ulp-tls");
	flt_ktls_knows(TLS_CIPHER_AES_GCM_128);
	flt_ktls_knows(TLS_CIPHER_CHACHA20_POLY1305);
}

enum flt_refusal flt_ktls_prepare(const void *wire, struct flt_ktls **out, __be16 *port)
{
	struct flt_ktls *ktls = kzalloc(sizeof(*ktls), GFP_KERNEL);
	enum flt_refusal why;

	if (!ktls)
		return FLT_REFUSE_NOMEM;
	why = flt_wire_tls_read(wire, &ktls->tls);
	if (why == FLT_REFUSE_NONE && !flt_ktls_knows(ktls->tls.cipher))
		why = FLT_REFUSE_KTLS;
	if (why != FLT_REFUSE_NONE) {
		flt_ktls_free(ktls);
		return why;
	}
	if (ktls->tls.port)
		*port = htons(ktls->tls.port);
	*out = ktls;
	return FLT_REFUSE_NONE;
}

struct flt_ktls *flt_ktls_keep(const struct flt_tls *tls)
{
	struct flt_ktls *ktls = kzalloc(sizeof(*ktls), GFP_KERNEL);

	if (ktls)
		ktls->tls = *tls;
	return ktls;
}

void flt_ktls_free(struct flt_ktls *ktls)
{
	kfree_sensitive(ktls);
}
