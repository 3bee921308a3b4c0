/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A connection that was handed on to us is claimed from the node where its packets arrive, so that
 * they come from there straight and who handed it on is out of it.
 */
#ifndef HOF_CLAIM_H
#define HOF_CLAIM_H

#include <linux/list.h>
#include <linux/types.h>

struct flt_msg;
struct flt_node;
struct hof_adoption;
struct hof_msg_claim;
struct hof_msg_origin;
struct hof_net;
struct hof_peer;
struct hof_service;

/* Of one origin, so that one that does not answer keeps no other out. */
#define HOF_CLAIMS_MAX	1024

/**
 * struct hof_claim - on a connection, to its origin
 * @a:        the connection; with @claims a counted reference
 * @origin:   who forwards it to who gave it to us; a counted reference
 * @instance: of @origin, when it was named
 * @from:     its id there
 * @to:       the id that it has there once it is forwarded to us; ours to choose
 * @proof:    that who had it from @origin agrees; under hn->adopt_lock, as all that follows
 * @until:    jiffies: so long the connection stays here, so that the next who has it can be told
 *	      to claim it
 * @claims:   in @origin->claims from COMMIT until the answer
 * @by_id:    with it: in hn->claims
 * @acked:    with @takeover
 * @takeover: @origin has asked for it, as the new front-end of its service
 * @offers:   with @takeover: in @a->offers; also when @origin has refused it, so that the same
 *	      question is not told of it again. Then @a has it, and no more than that
 * @farewell: what tells the end to who gave it, or to @origin if there is an end already;
 *	      made before, since then there is no way back
 */
struct hof_claim {
	struct hof_adoption *a;
	struct hof_peer *origin;
	u64 instance;
	u64 from;
	u64 to;
	unsigned long until;
	u64 proof;
	u32 acked;
	bool takeover;
	struct list_head claims;
	struct list_head offers;
	struct hlist_node by_id;
	struct hof_adoption *farewell;
};

void hof_claim_net_init(struct hof_net *hn);
void hof_claim_net_exit(struct hof_net *hn);

/*
 * The giver of @a, which has no child yet, names its origin. Whether that can be asked is seen
 * here, and nothing comes of it if not. Process context.
 */
void hof_claim_prepare(struct hof_adoption *a, const struct hof_msg_origin *named);
/* The giver has let go, with its proof or without (0). Process context. */
void hof_claim_begin(struct hof_adoption *a, u64 proof);
/* The origin has not answered yet, and may well in a moment; NULL: it was not adopted. */
bool hof_claim_awaited(const struct hof_adoption *a);
/* Nor will it: the giver keeps @a, which may be remembered for long. */
void hof_claim_never(struct hof_adoption *a);
/*
 * @origin asks for @a, to forward it: @proof is its own. Process context; the record is to be sent.
 * False: it is not to be had now.
 */
bool hof_claim_offer(struct hof_adoption *a, struct hof_peer *origin, u64 proof,
		     struct hof_msg_claim *record);
/* It would be looked at by hof_claim_offer(); under hn->adopt_lock. */
bool hof_claim_may_offer(const struct hof_adoption *a, const struct hof_peer *origin, u64 proof);
/* Has @origin not answered all that it was offered of the service, by whatever question? */
bool hof_claim_offering(struct hof_net *hn, struct hof_peer *origin,
			const struct hof_service *service);
/* Another may forward it to us before we know; under hn->adopt_lock. */
bool hof_claim_is_open(const struct hof_adoption *a);
/* Nobody has @a any more. */
void hof_claim_forget(struct hof_adoption *a);

/* GRANT of @node. */
int hof_claim_answer(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg);

/*
 * To say again on a link that came up: up to @max records of what @peer has not answered, @left
 * as in resync.c. Under @peer->claims_turn.
 */
unsigned int hof_claim_collect(struct hof_net *hn, struct hof_peer *peer,
			       struct hof_msg_claim *record, unsigned int max,
			       unsigned int *left);
/* It is another instance, or was removed: what we claimed of it is not there. */
void hof_claim_node_gone(struct hof_net *hn, struct hof_peer *peer, bool removed);

#endif
