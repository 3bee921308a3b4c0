// SPDX-License-Identifier: GPL-2.0
/*
 * Who may give this node which connections. Whoever can send a HANDOFF names the client as it
 * likes, and our listener believes it. So the link must have proven who is at its other end,
 * the operator must have listed the service, the client must be one that there can be, and the
 * giver must be a front-end, or give back what it was given by us.
 */

#include "kmod/endpoint.h"
#include "kmod/node.h"
#include "kmod/service.h"

#include "counter.h"
#include "entry.h"
#include "move.h"
#include "net.h"
#include "peer.h"
#include "permit.h"

/*
 * A connection that is in our table of forwarding comes from the node that we gave it to, or
 * not at all. One that is not in it, or that we have never had, comes from a front-end.
 */
static enum flt_refusal hof_permit_role(struct hof_net *hn, const struct flt_node *node,
					const struct flt_tuple *tuple)
{
	bool theirs, given = false, taken = false;
	struct hof_entry *e;
	u8 state;

	rcu_read_lock();
	e = hof_entry_find_tuple(hn, tuple);
	if (e) {
		state = hof_entry_state(e);
		theirs = READ_ONCE(e->peer)->node == node && state != HOF_GONE && state != HOF_DEAD;
		/* A SYN that was redirected is no connection: who gets it may have forged it. */
		given = theirs && !READ_ONCE(e->redirect);
		/* A closed one lingers for its late packets; its client may have begun anew. */
		taken = !theirs && (state == HOF_FORWARD || state == HOF_HOLD);
	}
	rcu_read_unlock();
	if (given)
		return FLT_REFUSE_NONE;
	if (taken || READ_ONCE(node->role) != FLT_ROLE_FRONTEND)
		return FLT_REFUSE_ROLE;
	return FLT_REFUSE_NONE;
}

bool hof_permit_keys(const struct hof_net *hn, const struct flt_node *node)
{
	return flt_node_is_proven(node) || READ_ONCE(hn->tunables.keys_in_clear);
}

/* The giver says which listener of the address takes it: of those that the operator has listed. */
static enum flt_refusal hof_permit_port(struct hof_net *hn, const struct flt_peek *peek)
{
	struct flt_tuple door = peek->tuple;

	door.server_port = peek->port;
	return flt_service_permit(hn->net, &door);
}

/* By a drained address nothing comes in any more; who gives finds another node. */
static enum flt_refusal hof_permit_drained(struct hof_net *hn, const struct flt_peek *peek)
{
	struct flt_tuple door = peek->tuple;

	if (peek->tls)
		door.server_port = peek->port;
	if (!hof_move_drains(hn->net, &door))
		return FLT_REFUSE_NONE;
	hof_count(hn, HOF_STAT_ADOPT_DRAINED);
	return FLT_REFUSE_NOLISTENER;
}

static const char *hof_permit_hint(enum flt_refusal why)
{
	switch (why) {
	case FLT_REFUSE_INSECURE:
		return "no authenticated link (node set NAME auth psk, or local set insecure on)";
	case FLT_REFUSE_KEYS:
		return "its keys came over a link that is not encrypted (node set NAME auth psk)";
	case FLT_REFUSE_SERVICE:
		return "not one of the services listed here (flotilla service add ADDRESS:PORT)";
	case FLT_REFUSE_CLIENT:
		return "no client has that address";
	default:
		return "no front-end here, nor given this connection (node set NAME role frontend)";
	}
}

static void hof_permit_log(const struct flt_node *node, const struct flt_tuple *tuple,
			   enum flt_refusal why)
{
	const char *hint = hof_permit_hint(why);

	if (tuple->family == AF_INET)
		pr_warn_ratelimited("a connection of node %s for %pI4:%u is refused: %s\n",
				    node->name, tuple->server, ntohs(tuple->server_port), hint);
	else
		pr_warn_ratelimited("a connection of node %s for [%pI6c]:%u is refused: %s\n",
				    node->name, tuple->server, ntohs(tuple->server_port), hint);
}

enum flt_refusal hof_permit(struct hof_net *hn, struct flt_node *node, const void *wire,
			    u32 len)
{
	enum flt_refusal why;
	struct flt_peek peek;

	why = flt_endpoint_peek(wire, len, &peek);
	if (why != FLT_REFUSE_NONE)
		return why;
	if (!flt_node_is_proven(node) && !flt_service_insecure(hn->net))
		why = FLT_REFUSE_INSECURE;
	else if (peek.tls && !hof_permit_keys(hn, node))
		why = FLT_REFUSE_KEYS;
	if (why == FLT_REFUSE_NONE)
		why = flt_service_permit(hn->net, &peek.tuple);
	if (why == FLT_REFUSE_NONE && peek.tls)
		why = hof_permit_port(hn, &peek);
	if (why == FLT_REFUSE_NONE)
		why = hof_permit_role(hn, node, &peek.tuple);
	if (why == FLT_REFUSE_NONE)
		return hof_permit_drained(hn, &peek);
	hof_permit_log(node, &peek.tuple, why);
	return why;
}
