// SPDX-License-Identifier: GPL-2.0
/*
 * A connection that has kTLS moves again. What its client has sent and nobody has read is in TCP's
 * queue, as records, and what the server has written is in TCP's, encrypted: so it is a checkpoint
 * like any other, with keys. Not while a record is in between: read in part, held back for more
 * (MSG_MORE), or given to TCP in part.
 */

#include <linux/module.h>
#include <linux/slab.h>
#include <net/tcp.h>
#include <net/tls.h>
#include <net/tls_prot.h>
#include "checkpoint.h"
#include "ktls_face.h"
#include "ktls_move.h"
#include "ktls_record.h"

/* The caller has the lock under which records are made. */
static bool flt_ktls_is_quiet(const struct tls_context *ctx)
{
	const struct tls_sw_context_tx *tx = tls_sw_ctx_tx(ctx);
	const struct tls_sw_context_rx *rx = tls_sw_ctx_rx(ctx);

	return !ctx->partially_sent_record && !ctx->pending_open_record_frags && !tx->open_rec &&
	       list_empty(&tx->tx_list) && skb_queue_empty(&rx->rx_list) && !rx->strp.copy_mode;
}

static void flt_ktls_way(const union tls_crypto_context *keys, const struct cipher_context *now,
			 struct flt_tls_way *way)
{
	size_t salt = keys->info.cipher_type == TLS_CIPHER_CHACHA20_POLY1305 ?
		      TLS_CIPHER_CHACHA20_POLY1305_SALT_SIZE : TLS_CIPHER_AES_GCM_128_SALT_SIZE;
	const u8 *key = (const u8 *)(&keys->info + 1) + sizeof(way->iv) - salt;

	memcpy(way->key, key, flt_tls_key_size(keys->info.cipher_type));
	memcpy(way->iv, now->iv, sizeof(way->iv));
	memcpy(way->rec_seq, now->rec_seq, sizeof(way->rec_seq));
}

enum flt_refusal flt_ktls_checkpoint(struct sock *sk, struct flt_tls *tls)
{
	struct tls_context *ctx = tls_get_ctx(sk);
	enum flt_refusal why = FLT_REFUSE_NONE;

	sock_owned_by_me(sk);
	if (ctx->tx_conf != TLS_SW || ctx->rx_conf != TLS_SW)
		return FLT_REFUSE_ULP;
	if (flt_ktls_may_end(sk))
		return FLT_REFUSE_STATE;
	/* Who is about to write has it, and waits for the socket's. */
	if (!mutex_trylock(&ctx->tx_lock))
		return FLT_REFUSE_BUSY;
	if (!flt_ktls_is_quiet(ctx))
		why = FLT_REFUSE_BUSY;
	mutex_unlock(&ctx->tx_lock);
	if (why != FLT_REFUSE_NONE || !tls)
		return why;
	*tls = (struct flt_tls){
		.version = ctx->crypto_send.info.version,
		.cipher = ctx->crypto_send.info.cipher_type,
	};
	flt_ktls_way(&ctx->crypto_send, &ctx->tx, &tls->tx);
	flt_ktls_way(&ctx->crypto_recv, &ctx->rx, &tls->rx);
	return FLT_REFUSE_NONE;
}

static void flt_ktls_wipe_keys(union tls_crypto_context *keys)
{
	memzero_explicit(&keys->info + 1, sizeof(*keys) - sizeof(keys->info));
}

void flt_ktls_leave(struct sock *sk)
{
	struct tls_context *ctx = tls_get_ctx(sk);
	struct tls_strparser *strp = &tls_sw_ctx_rx(ctx)->strp;

	sock_owned_by_me(sk);
	strp->stopped = 1;
	WRITE_ONCE(strp->msg_ready, 0);
	/* Without a buffer kTLS looks whether TCP still sends before it makes a record. */
	WRITE_ONCE(sk->sk_sndbuf, 0);
	flt_ktls_wipe_keys(&ctx->crypto_send);
	flt_ktls_wipe_keys(&ctx->crypto_recv);
}

bool flt_ktls_look(struct sock *sk, struct flt_ktls_pos *pos, void *buf, u32 len, u32 *got)
{
	sock_owned_by_me(sk);
	return flt_ktls_is_ours(sk) && flt_ktls_record(sk, pos, buf, len, got);
}
EXPORT_SYMBOL_GPL(flt_ktls_look);
