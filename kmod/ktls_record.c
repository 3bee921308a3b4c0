// SPDX-License-Identifier: GPL-2.0
/* Records that kTLS has not read yet, which stay where they are: in TCP's queue. */

#include <crypto/aead.h>
#include <linux/slab.h>
#include <linux/unaligned.h>
#include <net/tcp.h>
#include <net/tls.h>
#include <net/tls_prot.h>
#include "ktls_record.h"

/* RFC 8446, 5.2: a record's ciphertext, and the type behind its text. */
#define FLT_RECORD_MAX	(TLS_MAX_PAYLOAD_SIZE + 256)
#define FLT_RECORD_MIN	(TLS_TAG_SIZE + 1)

bool flt_ktls_may_end(const struct sock *sk)
{
	const struct tls_sw_context_rx *rx = tls_sw_ctx_rx(tls_get_ctx(sk));
	u8 said = sk->sk_state == TCP_CLOSE_WAIT ? RCV_SHUTDOWN : 0;

	return sk->sk_err || sk->sk_shutdown != said || rx->strp.stopped;
}

static bool flt_ktls_queue_copy(const struct sock *sk, u32 at, u8 *to, u32 len)
{
	u32 from = tcp_sk(sk)->copied_seq + at, done = 0, skip, part;
	struct sk_buff *skb;

	if (tcp_sk(sk)->rcv_nxt - tcp_sk(sk)->copied_seq < at + len)
		return false;
	skb_queue_walk(&sk->sk_receive_queue, skb) {
		skip = from + done - TCP_SKB_CB(skb)->seq;
		if (skip >= skb->len)
			continue;
		part = min(skb->len - skip, len - done);
		if (skb_copy_bits(skb, skip, to + done, part))
			return false;
		done += part;
		if (done == len)
			return true;
	}
	return false;
}

/* @record is @len bytes, head and all; its text is in its place then. */
static bool flt_ktls_decrypt(const struct tls_context *ctx, u32 nr, u8 *record, u32 len)
{
	struct crypto_aead *aead = tls_sw_ctx_rx(ctx)->aead_recv;
	struct aead_request *req = aead_request_alloc(aead, GFP_KERNEL);
	u8 nonce[sizeof_field(struct flt_tls_way, iv)];
	u64 number = get_unaligned_be64(ctx->rx.rec_seq) + nr;
	DECLARE_CRYPTO_WAIT(wait);
	struct scatterlist sg;
	int err;

	if (!req)
		return false;
	memcpy(nonce, ctx->rx.iv, sizeof(nonce));
	number ^= get_unaligned_be64(nonce + sizeof(nonce) - sizeof(number));
	put_unaligned_be64(number, nonce + sizeof(nonce) - sizeof(number));
	sg_init_one(&sg, record, len);
	aead_request_set_callback(req, CRYPTO_TFM_REQ_MAY_SLEEP | CRYPTO_TFM_REQ_MAY_BACKLOG,
				  crypto_req_done, &wait);
	aead_request_set_ad(req, TLS_HEADER_SIZE);
	aead_request_set_crypt(req, &sg, &sg, len - TLS_HEADER_SIZE, nonce);
	err = crypto_wait_req(crypto_aead_decrypt(req), &wait);
	aead_request_free(req);
	return !err;
}

static bool flt_ktls_look_at(const struct tls_context *ctx, struct flt_ktls_pos *pos, u8 *record,
			     u32 len, void *buf, u32 room, u32 *got)
{
	u32 end = len - TLS_TAG_SIZE;

	if (!flt_ktls_decrypt(ctx, pos->nr, record, len))
		return false;
	/* The type is the last byte that is not zero. */
	while (end > TLS_HEADER_SIZE && !record[end - 1])
		end--;
	if (end == TLS_HEADER_SIZE || record[end - 1] != TLS_RECORD_TYPE_DATA)
		return false;
	*got = end - 1 - TLS_HEADER_SIZE;
	memcpy(buf, record + TLS_HEADER_SIZE, min(*got, room));
	pos->at += len;
	pos->nr++;
	return true;
}

bool flt_ktls_record(struct sock *sk, struct flt_ktls_pos *pos, void *buf, u32 len, u32 *got)
{
	const struct tls_context *ctx = tls_get_ctx(sk);
	u8 head[TLS_HEADER_SIZE];
	bool there = false;
	u8 *record;
	u32 size;

	if (flt_ktls_may_end(sk) || ctx->rx_conf != TLS_SW ||
	    !skb_queue_empty(&tls_sw_ctx_rx(ctx)->rx_list) || tls_sw_ctx_rx(ctx)->strp.copy_mode ||
	    !flt_ktls_queue_copy(sk, pos->at, head, sizeof(head)))
		return false;
	size = get_unaligned_be16(head + 3);
	if (head[0] != TLS_RECORD_TYPE_DATA || size < FLT_RECORD_MIN || size > FLT_RECORD_MAX)
		return false;
	size += sizeof(head);
	record = kmalloc(size, GFP_KERNEL | __GFP_NOWARN);
	if (!record)
		return false;
	if (flt_ktls_queue_copy(sk, pos->at, record, size))
		there = flt_ktls_look_at(ctx, pos, record, size, buf, len, got);
	kfree_sensitive(record);
	return there;
}
