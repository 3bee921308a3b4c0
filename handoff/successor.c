// SPDX-License-Identifier: GPL-2.0
/*
 * A front-end has died, and another has its service address: it asks for what we were given of that
 * service. Each connection is claimed from it, as if it had been handed on (claim.c); what it
 * grants it forwards, and it is the giver from then on. Who was hears of the end, too: it may live,
 * and may have the address still, and then it goes on forwarding what comes there.
 *
 * One page of claims at a time, so that no more wait for an answer than one origin may have. The
 * lists of what was given turn, as in resync.c: where a page ended the next begins. The last one
 * has seen all and found nothing.
 */

#include <linux/slab.h>

#include "kmod/service.h"

#include "adopt.h"
#include "claim.h"
#include "counter.h"
#include "message.h"
#include "net.h"
#include "peer.h"
#include "standby.h"
#include "successor.h"

/* Claims of one page, and connections that are looked at under the lock. */
#define HOF_PAGE_MAX	512
#define HOF_LOOK_MAX	256

/**
 * struct hof_page - one answer
 * @hn:      namespace
 * @heir:    who asks
 * @service: for what
 * @proof:   of the question
 * @begun:   claims
 * @more:    not all was seen
 * @found:   with a reference each
 * @record:  what is said of these
 */
struct hof_page {
	struct hof_net *hn;
	struct hof_peer *heir;
	struct hof_service service;
	u64 proof;
	unsigned int begun;
	bool more;
	struct hof_adoption *found[HOF_LIFE_MAX];
	struct hof_msg_claim record[HOF_LIFE_MAX];
};

/* Of what @giver gave; @left is how many of its list are yet to be seen. */
static unsigned int hof_successor_collect(struct hof_page *page, struct hof_peer *giver,
					  unsigned int *left)
{
	struct hof_net *hn = page->hn;
	unsigned int nr = 0, looks = HOF_LOOK_MAX;
	struct hof_adoption *a;

	lockdep_assert_held(&giver->held_turn);
	spin_lock_bh(&hn->adopt_lock);
	for (; *left && nr < HOF_LIFE_MAX && looks; --*left, looks--) {
		if (list_empty(&giver->held)) {
			*left = 0;
			break;
		}
		a = list_first_entry(&giver->held, struct hof_adoption, held);
		list_move_tail(&a->held, &giver->held);
		if (!hof_service_has(&page->service, &a->tuple) ||
		    !hof_claim_may_offer(a, page->heir, page->proof))
			continue;
		refcount_inc(&a->ref);
		page->found[nr++] = a;
	}
	spin_unlock_bh(&hn->adopt_lock);
	return nr;
}

/* False: the heir has to answer first. */
static bool hof_successor_claim(struct hof_page *page, unsigned int nr)
{
	struct kvec vec = { .iov_base = page->record };
	struct hof_net *hn = page->hn;
	unsigned int i, said = 0;

	for (i = 0; i < nr; i++) {
		/* The list may be another one than when it was taken. */
		if (flt_service_permit(hn->net, &page->found[i]->tuple) == FLT_REFUSE_NONE) {
			if (hof_claim_offer(page->found[i], page->heir, page->proof,
					    &page->record[said]))
				said++;
			else
				page->more = true;	/* there was no memory, perhaps */
		}
		hof_adoption_put(page->found[i]);
	}
	page->begun += said;
	hof_count_add(hn, HOF_STAT_CLAIM_SENT, said);
	vec.iov_len = said * sizeof(page->record[0]);
	/* When this is lost it is said again (claim.c). */
	if (said && flt_link_send(page->heir->node, HOF_MSG_CLAIM, &vec, 1, GFP_KERNEL))
		return false;
	return page->begun < HOF_PAGE_MAX && READ_ONCE(page->heir->nr_claims) < HOF_CLAIMS_MAX;
}

/* False: as above. */
static bool hof_successor_list(struct hof_page *page, struct hof_peer *giver)
{
	unsigned int left = READ_ONCE(giver->nr_held), nr;

	while (left) {
		nr = hof_successor_collect(page, giver, &left);
		if (nr && !hof_successor_claim(page, nr))
			return false;
		cond_resched();
	}
	return true;
}

/* What is being told to it just now turns the same list: then the next page has it. */
static bool hof_successor_giver(struct hof_page *page, struct hof_peer *giver)
{
	bool all;

	if (!mutex_trylock(&giver->held_turn)) {
		page->more = true;
		return true;
	}
	all = hof_successor_list(page, giver);
	mutex_unlock(&giver->held_turn);
	return all;
}

static void hof_successor_fill(struct hof_page *page)
{
	struct hof_net *hn = page->hn;
	struct hof_peer *giver;
	unsigned long id = 0;
	bool all = true;

	/* In turn, page by page: one who asks without end would mostly have the list of a giver. */
	mutex_lock(&hn->successor_turn);
	while (all && (giver = hof_peer_next(hn, &id))) {
		all = hof_successor_giver(page, giver);
		hof_peer_put(giver);
	}
	mutex_unlock(&hn->successor_turn);
	page->more |= !all || page->begun || hof_claim_offering(hn, page->heir, &page->service);
	if (READ_ONCE(hn->nr_claims))
		queue_delayed_work(system_unbound_wq, &hn->claim,
				   msecs_to_jiffies(READ_ONCE(hn->tunables.query_ms)) + 1);
}

static enum flt_refusal hof_successor_permit(struct hof_net *hn, const struct flt_node *node,
					     const struct hof_service *service)
{
	if (!flt_node_is_proven(node) && !flt_service_insecure(hn->net))
		return FLT_REFUSE_INSECURE;
	if (READ_ONCE(node->role) != FLT_ROLE_FRONTEND)
		return FLT_REFUSE_ROLE;
	if (!READ_ONCE(hn->tunables.takeover))
		return FLT_REFUSE_POLICY;
	return flt_service_has(hn->net, service->family, service->addr, service->port) ?
	       FLT_REFUSE_NONE : FLT_REFUSE_SERVICE;
}

static enum flt_refusal hof_successor_page(struct hof_net *hn, struct flt_node *node,
					   const struct hof_msg_takeover *ask,
					   struct hof_msg_taken *answer)
{
	struct hof_page *page = kzalloc(sizeof(*page), GFP_KERNEL);
	enum flt_refusal why;

	if (!page)
		return FLT_REFUSE_NOMEM;
	page->hn = hn;
	page->proof = be64_to_cpu(ask->proof);
	page->service.family = ask->family == cpu_to_be16(4) ? AF_INET : AF_INET6;
	page->service.port = ask->port;
	memcpy(page->service.addr, ask->server, page->service.family == AF_INET ? 4 : 16);
	why = hof_successor_permit(hn, node, &page->service);
	if (why != FLT_REFUSE_NONE)
		goto out;
	/* What it forwards to us may come in tunnels. */
	page->heir = hof_peer_expect(hn, node);
	if (IS_ERR(page->heir)) {
		why = FLT_REFUSE_NOMEM;
		goto out;
	}
	hof_successor_fill(page);
	hof_peer_put(page->heir);
	answer->begun = cpu_to_be32(page->begun);
	answer->more = cpu_to_be32(page->more);
out:
	kfree(page);
	return why;
}

int hof_successor_asks(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg)
{
	const struct hof_msg_takeover *ask = msg->body;
	struct hof_msg_taken answer = {};
	struct kvec vec = { .iov_base = &answer, .iov_len = sizeof(answer) };
	enum flt_refusal why;

	if (msg->len != sizeof(*ask))
		return -EBADMSG;
	hof_count(hn, HOF_STAT_SUCCESSOR_ASKED);
	answer.proof = ask->proof;
	answer.page = ask->page;
	why = ask->proof ? hof_successor_page(hn, node, ask, &answer) : FLT_REFUSE_MALFORMED;
	if (why != FLT_REFUSE_NONE)
		hof_count(hn, HOF_STAT_SUCCESSOR_REFUSED);
	answer.refusal = cpu_to_be32(why);
	/* When this is lost it asks again. */
	flt_link_send(node, HOF_MSG_TAKEN, &vec, 1, GFP_KERNEL);
	return 0;
}
