// SPDX-License-Identifier: GPL-2.0
/* Sending by page reference. */

#include <linux/bvec.h>
#include <linux/mm.h>
#include <net/tcp.h>

#include "answer.h"

void afpa_answer_begin(struct afpa_answer *ans, struct afpa_object *obj)
{
	ans->nr_more = 0;
	ans->text_len = 0;
	ans->parked = false;
	ans->closes = false;
	ans->files = obj->file;
	ans->base = 0;
	ans->pos = 0;
	ans->end = obj->head_len + obj->body_len + obj->tail_len;
	WRITE_ONCE(ans->obj, obj);
}

/* Of an object that is followed by another one. */
static u64 afpa_answer_part(const struct afpa_object *obj)
{
	return obj->head_len + obj->body_len + obj->tail_len - obj->tail_last;
}

void afpa_answer_add(struct afpa_answer *ans, struct afpa_object **more, unsigned int nr)
{
	const struct afpa_object *last = ans->obj;
	unsigned int i;

	ans->more = more;
	ans->nr_more = nr;
	for (i = 0; i < nr; i++) {
		ans->end -= last->tail_last;
		last = more[i];
		ans->files |= !!last->file;
		ans->end += last->head_len + last->body_len + last->tail_len;
	}
}

u64 afpa_answer_body(const struct afpa_answer *ans)
{
	u64 len = ans->obj->body_len;
	unsigned int i;

	/* HEAD */
	if (ans->end < ans->text_len + ans->obj->head_len + len)
		return 0;
	for (i = 0; i < ans->nr_more; i++)
		len += ans->more[i]->body_len;
	return len;
}

void afpa_answer_park(struct afpa_answer *ans)
{
	if (ans->parked || !ans->text_len)
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
	for (; ans->nr_more; ans->nr_more--)
		afpa_object_put(*ans->more++);
}

/* What was taken of objects that others follow is over. */
static void afpa_answer_advance(struct afpa_answer *ans)
{
	while (ans->nr_more && ans->pos - ans->base >= afpa_answer_part(ans->obj)) {
		struct afpa_object *obj = ans->obj;

		ans->base += afpa_answer_part(obj);
		ans->nr_more--;
		WRITE_ONCE(ans->obj, *ans->more++);
		afpa_object_put(obj);
	}
}

/* The same over several objects. */
static u64 afpa_answer_parts(const struct afpa_answer *ans, u64 want, struct afpa_vecs *vecs)
{
	const struct afpa_object *obj = ans->obj;
	u64 pos = ans->pos - ans->base, len, got, bytes = 0;
	unsigned int i;

	for (i = 0; bytes < want; i++) {
		len = want - bytes;
		if (i < ans->nr_more)
			len = min(len, afpa_answer_part(obj) - pos);
		got = afpa_object_vecs(obj, pos, len, vecs);
		bytes += got;
		if (got < len || i == ans->nr_more)
			break;
		obj = ans->more[i];
		pos = 0;
	}
	return bytes;
}

/* The next @want bytes, or fewer. */
static u64 afpa_answer_vecs(const struct afpa_answer *ans, u64 want, struct afpa_vecs *vecs)
{
	u64 pos = ans->pos - ans->base;
	u32 len = 0;

	vecs->nr = 0;
	vecs->held = 0;
	if (ans->nr_more)
		return afpa_answer_parts(ans, want, vecs);

	if (pos < ans->text_len) {
		len = min_t(u64, want, ans->text_len - pos);
		bvec_set_virt(&vecs->vec[vecs->nr++], ans->text + pos, len);
		pos += len;
		want -= len;
	}
	return len + (want ? afpa_object_vecs(ans->obj, pos - ans->text_len, want, vecs) : 0);
}

u64 afpa_answer_wants(const struct afpa_answer *ans)
{
	u64 head = (ans->nr_more ? 0 : ans->text_len) + ans->obj->head_len;
	u64 pos = ans->pos - ans->base;

	return pos - min(pos, head);
}

static int afpa_answer_send_some(struct afpa_answer *ans, struct sock *sk)
{
	u64 left = ans->end - ans->pos;
	struct afpa_vecs vecs;
	struct msghdr msg = { .msg_flags = MSG_SPLICE_PAGES | MSG_DONTWAIT | MSG_NOSIGNAL };
	size_t bytes;
	int ret;

	bytes = afpa_answer_vecs(ans, min_t(u64, left, AFPA_CHUNK), &vecs);
	if (!bytes)
		return -ENODATA;
	/* The FIN goes with the last bytes. */
	if (ans->closes && bytes == left)
		msg.msg_flags |= MSG_MORE;
	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, vecs.vec, vecs.nr, bytes);
	ret = tcp_sendmsg_locked(sk, &msg, bytes);
	afpa_vecs_put(&vecs);
	if (ret > 0) {
		ans->pos += ret;
		afpa_answer_advance(ans);
	}
	return ret;
}

/* All of it is with TCP; its files, with whoever has them to write, when the client has it. */
static int afpa_answer_settle(const struct afpa_answer *ans, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!ans->files || tp->snd_una == tp->write_seq)
		return 1;
	set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	return 0;
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
	if (afpa_answer_is_sent(ans) && !sk->sk_err)
		return afpa_answer_settle(ans, sk);
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
	if (afpa_answer_is_sent(ans))
		return afpa_answer_settle(ans, sk);
	if (ret < 0 && ret != -EAGAIN)
		return ret;
	/* Each acknowledgment is to be heard of from now on. */
	set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	return ret > 0 || tcp_packets_in_flight(tp) ? 0 : -EAGAIN;
}
