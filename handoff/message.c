// SPDX-License-Identifier: GPL-2.0
/* Sending and receiving the messages of this room. */

#include <linux/module.h>

#include "kmod/endpoint.h"

#include "adopt.h"
#include "claim.h"
#include "life.h"
#include "message.h"
#include "net.h"
#include "origin.h"
#include "redirect.h"
#include "relocate.h"
#include "removal.h"
#include "resync.h"
#include "successor.h"
#include "takeover.h"
#include "transfer.h"

static int hof_message_send_id(struct flt_node *node, enum hof_msg_type type,
			       struct hof_msg_id body, gfp_t gfp)
{
	struct kvec vec = { .iov_base = &body, .iov_len = sizeof(body) };

	return flt_link_send(node, type, &vec, 1, gfp);
}

int hof_message_send(struct flt_node *node, enum hof_msg_type type, u64 id,
		     enum flt_refusal why, gfp_t gfp)
{
	struct hof_msg_id body = { .id = cpu_to_be64(id), .refusal = cpu_to_be32(why) };

	return hof_message_send_id(node, type, body, gfp);
}

int hof_message_send_commit(struct flt_node *node, u64 id, u32 tsval, u64 proof, gfp_t gfp)
{
	struct hof_msg_commit body = {
		.head.id = cpu_to_be64(id),
		.head.tsval = cpu_to_be32(tsval),
		.proof = cpu_to_be64(proof),
	};
	struct kvec vec = {
		.iov_base = &body,
		.iov_len = proof ? sizeof(body) : sizeof(body.head),
	};

	return flt_link_send(node, HOF_MSG_COMMIT, &vec, 1, gfp);
}

int hof_message_send_ack(struct hof_net *hn, struct flt_node *node, u64 id, u32 wait_ms)
{
	struct hof_msg_id body = {
		.id = cpu_to_be64(id),
		.epoch = cpu_to_be32(hn->epoch),
		.wait_ms = cpu_to_be32(wait_ms),
	};

	return hof_message_send_id(node, HOF_MSG_ACK, body, GFP_KERNEL);
}

int hof_message_send_handoff(struct flt_node *node, u64 id, u32 flags,
			     const struct hof_msg_origin *origin,
			     const struct flt_checkpoint *ckpt, gfp_t gfp)
{
	struct hof_msg_handoff head = {
		.id = cpu_to_be64(id),
		.flags = cpu_to_be32(flags | (origin ? HOF_ADOPT_ORIGIN : 0)),
	};
	struct kvec vec[3] = {
		{ .iov_base = &head, .iov_len = sizeof(head) },
		{ .iov_base = (void *)origin, .iov_len = origin ? sizeof(*origin) : 0 },
		{ .iov_base = (void *)ckpt->wire, .iov_len = ckpt->len },
	};

	return flt_link_send(node, HOF_MSG_HANDOFF, vec, 3, gfp);
}

int hof_message_send_keys(struct flt_node *node, u64 id, u32 flags,
			  const struct hof_msg_origin *origin, const struct flt_checkpoint *ckpt,
			  const struct flt_tls *tls, bool clear)
{
	struct hof_msg_handoff head = {
		.id = cpu_to_be64(id),
		.flags = cpu_to_be32(flags | (origin ? HOF_ADOPT_ORIGIN : 0)),
	};
	struct kvec vec[2 + FLT_TLS_PARTS] = {
		{ .iov_base = &head, .iov_len = sizeof(head) },
		{ .iov_base = (void *)origin, .iov_len = origin ? sizeof(*origin) : 0 },
	};
	struct flt_tls_wire wire;
	int err;

	flt_checkpoint_with_tls(ckpt, tls, &wire, vec + 2);
	err = flt_link_send_secret(node, HOF_MSG_HANDOFF_KEYS, vec, ARRAY_SIZE(vec), clear);
	memzero_explicit(&wire, sizeof(wire));
	return err;
}

static int hof_message_handoff(struct hof_net *hn, struct flt_node *node,
			       const struct flt_msg *msg)
{
	const struct hof_msg_handoff *head = msg->body;
	const struct hof_msg_origin *named = NULL;
	const void *wire = head + 1;

	if (msg->len <= sizeof(*head))
		return -EBADMSG;
	if (head->flags & cpu_to_be32(HOF_ADOPT_ORIGIN)) {
		named = wire;
		wire = named + 1;
		if (msg->len <= sizeof(*head) + sizeof(*named))
			return -EBADMSG;
	}
	return hof_adopt_request(hn, node, head, named, wire,
				 msg->len - (u32)(wire - msg->body));
}

static int hof_message_life(struct hof_net *hn, struct flt_node *node,
			    const struct flt_msg *msg)
{
	const struct hof_msg_life *record = msg->body;
	u32 left = msg->len;

	for (; left >= sizeof(*record); left -= sizeof(*record))
		hof_life_receive(hn, node, record++);
	return left ? -EBADMSG : 0;
}

static int hof_message_commit(struct hof_net *hn, struct flt_node *node,
			      const struct flt_msg *msg)
{
	const struct hof_msg_commit *commit = msg->body;
	u64 proof = 0;

	if (msg->len == sizeof(*commit))
		proof = be64_to_cpu(commit->proof);
	else if (msg->len != sizeof(commit->head))
		return -EBADMSG;
	hof_adopt_commit(hn, node, be64_to_cpu(commit->head.id), be32_to_cpu(commit->head.tsval),
			 proof);
	return 0;
}

/* A target can say what it finds; of our socket, and of the way to it, we know better. */
static enum flt_refusal hof_message_refusal(u32 said)
{
	return said >= FLT_REFUSE_NOLISTENER && said < FLT_REFUSE_NODEDOWN ?
	       said : FLT_REFUSE_MALFORMED;
}

static int hof_message_id(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg)
{
	const struct hof_msg_id *body = msg->body;
	u64 id;

	if (msg->len != sizeof(*body))
		return -EBADMSG;
	id = be64_to_cpu(body->id);
	switch (msg->type) {
	case HOF_MSG_ACK:
		hof_transfer_ack(hn, node, id, be32_to_cpu(body->epoch),
				 be32_to_cpu(body->wait_ms));
		return 0;
	case HOF_MSG_NAK:
		if (!body->refusal || be32_to_cpu(body->refusal) > U16_MAX)
			return -EBADMSG;
		hof_transfer_nak(hn, node, id, hof_message_refusal(be32_to_cpu(body->refusal)));
		return 0;
	case HOF_MSG_ABORT:
		hof_adopt_abort(hn, node, id);
		return 0;
	case HOF_MSG_QUERY:
		return hof_transfer_query(hn, node, id);
	default:
		return 0;	/* of a newer peer */
	}
}

static int hof_message_handle(struct flt_node *node, const struct flt_msg *msg)
{
	struct hof_net *hn = hof_net(node->net);
	int err;

	if (!hof_net_enter(hn))
		return 0;
	switch (msg->type) {
	case HOF_MSG_HANDOFF:
	case HOF_MSG_HANDOFF_KEYS:
		err = hof_message_handoff(hn, node, msg);
		break;
	case HOF_MSG_COMMIT:
		err = hof_message_commit(hn, node, msg);
		break;
	case HOF_MSG_LIFE:
		err = hof_message_life(hn, node, msg);
		break;
	case HOF_MSG_HELD:
		err = hof_resync_held(hn, node, msg);
		break;
	case HOF_MSG_HELD_END:
		err = hof_resync_end(hn, node, msg);
		break;
	case HOF_MSG_CLAIM:
		err = hof_origin_claims(hn, node, msg);
		break;
	case HOF_MSG_GRANT:
		err = hof_claim_answer(hn, node, msg);
		break;
	case HOF_MSG_TAKEOVER:
		err = hof_successor_asks(hn, node, msg);
		break;
	case HOF_MSG_TAKEN:
		err = hof_takeover_taken(hn, node, msg);
		break;
	case HOF_MSG_RELOCATE:
		err = hof_removal_asks(hn, node, msg);
		break;
	case HOF_MSG_RELOCATED:
		err = hof_relocate_answer(hn, node, msg);
		break;
	case HOF_MSG_HINT:
		err = hof_hint_receive(hn, node, msg);
		break;
	case HOF_MSG_HAVE:
		err = hof_redirect_asked(hn, node, msg);
		break;
	default:
		err = hof_message_id(hn, node, msg);
	}
	hof_net_leave(hn);
	return err;
}

static const struct flt_msg_handler hof_message_handler = {
	.range = FLT_MSG_HANDOFF,
	.owner = THIS_MODULE,
	.handle = hof_message_handle,
};

static const struct flt_msg_handler hof_redirect_handler = {
	.range = FLT_MSG_REDIRECT,
	.owner = THIS_MODULE,
	.handle = hof_message_handle,
};

int hof_message_register(void)
{
	int err = flt_msg_handler_register(&hof_message_handler);

	if (err)
		return err;
	err = flt_msg_handler_register(&hof_redirect_handler);
	if (err)
		flt_msg_handler_unregister(&hof_message_handler);
	return err;
}

void hof_message_unregister(void)
{
	flt_msg_handler_unregister(&hof_redirect_handler);
	flt_msg_handler_unregister(&hof_message_handler);
}
