// SPDX-License-Identifier: GPL-2.0
/* Sending by page reference. */

#include <linux/bvec.h>
#include <linux/mm.h>
#include <net/tcp.h>

#include "answer.h"
#include "text.h"

/* A chunk in single pages, and what is before it. */
#define AFPA_VECS	(AFPA_CHUNK / PAGE_SIZE + 3)

bool afpa_answer_begin(struct afpa_answer *ans, struct afpa_object *obj,
		       const struct afpa_request *req)
{
	enum afpa_text_kind kind = AFPA_TEXT_CLOSED;

	if (req->keep_alive)
		kind = req->minor ? AFPA_TEXT_KEPT : AFPA_TEXT_KEPT_OLD;
	ans->text = afpa_text_get(kind, &ans->text_len);
	if (!ans->text)
		return false;
	ans->parked = false;
	ans->closes = !req->keep_alive;
	ans->pos = 0;
	ans->end = obj->head_len + ans->text_len;
	if (req->method == AFPA_METHOD_GET)
		ans->end += obj->body_len;
	WRITE_ONCE(ans->obj, obj);
	return true;
}

void afpa_answer_park(struct afpa_answer *ans)
{
	if (ans->parked)
		return;
	get_page(virt_to_head_page(ans->text));
	ans->parked = true;
}

void afpa_answer_end(struct afpa_answer *ans)
{
	struct afpa_object *obj = ans->obj;

	if (!obj)
		return;
	if (ans->parked)
		put_page(virt_to_head_page(ans->text));
	WRITE_ONCE(ans->obj, NULL);
	afpa_object_put(obj);
}

/* The next @want bytes, or fewer. */
static unsigned int afpa_answer_vecs(const struct afpa_answer *ans, u64 want, struct bio_vec *vec)
{
	u64 pos = ans->pos;
	unsigned int n = 0;

	if (pos < ans->text_len) {
		u32 len = min_t(u64, want, ans->text_len - pos);

		bvec_set_virt(&vec[n++], ans->text + pos, len);
		pos += len;
		want -= len;
	}
	if (want)
		n += afpa_object_vecs(ans->obj, pos - ans->text_len, want, vec + n, AFPA_VECS - n);
	return n;
}

static int afpa_answer_send_some(struct afpa_answer *ans, struct sock *sk)
{
	u64 left = ans->end - ans->pos;
	struct bio_vec vec[AFPA_VECS];
	struct msghdr msg = { .msg_flags = MSG_SPLICE_PAGES | MSG_DONTWAIT | MSG_NOSIGNAL };
	unsigned int n, i;
	size_t bytes = 0;
	int ret;

	n = afpa_answer_vecs(ans, min_t(u64, left, AFPA_CHUNK), vec);
	for (i = 0; i < n; i++)
		bytes += vec[i].bv_len;
	/* The FIN goes with the last bytes. */
	if (ans->closes && bytes == left)
		msg.msg_flags |= MSG_MORE;
	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, vec, n, bytes);
	ret = tcp_sendmsg_locked(sk, &msg, bytes);
	if (ret > 0)
		ans->pos += ret;
	return ret;
}

int afpa_answer_send(struct afpa_answer *ans, struct sock *sk, bool all)
{
	struct tcp_sock *tp = tcp_sk(sk);
	gfp_t gfp = sk->sk_allocation;
	bool task_frag = sk->sk_use_task_frag;
	int sndbuf = sk->sk_sndbuf;
	u8 nonagle = tp->nonagle;
	int ret;

	sock_owned_by_me(sk);
	/* tcp_sendmsg_locked() would take the error away that its program is to hear of. */
	if (sk->sk_err || sk->sk_shutdown & SEND_SHUTDOWN)
		return -EPIPE;
	/* Set amid the answer, kTLS has the stream: what is not a record must not come into it. */
	if (inet_csk_has_ulp(sk))
		return -EPIPE;
	/* Answers to several requests must not wait for the acknowledgment of the first one. */
	tp->nonagle = TCP_NAGLE_OFF;
	sk->sk_allocation = GFP_ATOMIC | __GFP_NOWARN;
	/* A device without scatter-gather has it copied, and "current" may be in its own copy. */
	sk->sk_use_task_frag = false;
	if (all)
		WRITE_ONCE(sk->sk_sndbuf, INT_MAX);
	do {
		ret = afpa_answer_send_some(ans, sk);
	} while (all && ret > 0 && ans->pos < ans->end);
	if (all)
		WRITE_ONCE(sk->sk_sndbuf, sndbuf);
	sk->sk_use_task_frag = task_frag;
	sk->sk_allocation = gfp;
	tp->nonagle = nonagle;
	if (ans->pos == ans->end)
		return 1;
	if (ret < 0 && ret != -EAGAIN)
		return ret;
	/* Each acknowledgment is to be heard of from now on. */
	set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	return ret > 0 || tcp_packets_in_flight(tp) ? 0 : -EAGAIN;
}
