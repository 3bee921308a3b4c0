// SPDX-License-Identifier: GPL-2.0
/* flotilla rebalance: who has what, and what would have to move. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "handoff.h"
#include "rebalance.h"
#include "relocation.h"

void rebalance_sleep(uint64_t ms)
{
	struct timespec pause = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&pause, NULL);
}

uint16_t *rebalance_barred(const struct rebalance *r, uint32_t from, uint32_t to)
{
	return &r->barred[(size_t)from * r->nr_nodes + to];
}

const char *rebalance_why_barred(uint16_t why, char *text, size_t size)
{
	const char *more = why == BARRED_THROUGH ? "what has moved, as it is said, is forwarded to the node that had it still" :
			   why == BARRED_FORGOT ? "what the node that has them begins to move neither moves nor stays under way" :
			   why == FLT_REFUSE_NONODE ? "the node that has them does not know it" : relocation_refused(why);

	snprintf(text, size, "%s", more ? more : handoff_refusal_name(why));
	return text;
}

void rebalance_leave_out(struct reb_node *node, enum left_out how, const char *why)
{
	node->out = how;
	snprintf(node->why, sizeof(node->why), "%s", why);
}

bool rebalance_is_over(const struct rebalance *r)
{
	return follow_is_stopped() || (r->wait_ms != NEVER && follow_now_ms() - r->begun_ms >= r->wait_ms);
}

struct reb_pair *rebalance_pair(struct rebalance *r, uint32_t from, uint32_t to)
{
	struct reb_pair *more;
	size_t i;

	for (i = 0; i < r->nr_pairs; i++)
		if (r->pairs[i].from == from && r->pairs[i].to == to)
			return &r->pairs[i];
	more = reallocarray(r->pairs, r->nr_pairs + 1, sizeof(*more));
	if (!more)
		return NULL;
	r->pairs = more;
	r->pairs[i] = (struct reb_pair){ .from = from, .to = to };
	r->nr_pairs++;
	return &r->pairs[i];
}

void rebalance_count(struct rebalance *r, struct reb_pair *pair, uint64_t nr)
{
	r->nodes[pair->from].gave = r->nodes[pair->to].took = true;
	r->nodes[pair->from].moved_out += nr;
	r->nodes[pair->to].moved_in += nr;
	pair->moved += nr;
	r->moved += nr;
}

/* What a node cannot be asked for, or should not. */
static void judge(struct reb_node *node, bool first)
{
	if (node->out == REFUSES && node->known && !node->lost_ms)
		return;		/* for good */
	rebalance_leave_out(node, COUNTS, "");
	if (!node->known)
		rebalance_leave_out(node, MEANT, "it has been deleted");
	else if (node->admin == FLT_ADMIN_DRAIN)
		rebalance_leave_out(node, MEANT, "it is drained (admin drain)");
	else if (node->admin == FLT_ADMIN_MAINTENANCE)
		rebalance_leave_out(node, MEANT, "it is under maintenance (admin maintenance)");
	else if (!node->weight)
		rebalance_leave_out(node, MEANT, "its weight is 0");
	else if (node->state != FLT_NODE_UP)
		rebalance_leave_out(node, first ? MEANT : REFUSES, first ? "there is no link to it" :
				    "there is no link to it any more");
	else if (!(node->features & FLT_FEATURE_RELOCATE))
		rebalance_leave_out(node, REFUSES, relocation_hopeless(FLT_REFUSE_VERSION));
	/* A link that is lost may come again. */
	if (node->out != REFUSES || node->state == FLT_NODE_UP)
		node->lost_ms = 0;
	else if (!node->lost_ms)
		node->lost_ms = follow_now_ms();
}

static int see_node(const struct flt_node_info *info, void *arg)
{
	struct rebalance *r = arg;
	struct reb_node *node = NULL, *more;
	uint32_t i;

	for (i = 0; i < r->nr_nodes && !node; i++)
		if (r->nodes[i].id == info->id)
			node = &r->nodes[i];
	if (!node && (r->barred || info->role != FLT_ROLE_BACKEND))
		return 0;	/* one that is new takes no part */
	if (!node) {
		more = reallocarray(r->nodes, r->nr_nodes + 1, sizeof(*more));
		if (!more)
			return -ENOMEM;
		r->nodes = more;
		node = &r->nodes[r->nr_nodes++];
		*node = (struct reb_node){ .id = info->id };
		snprintf(node->name, sizeof(node->name), "%s", info->name);
	}
	node->known = info->role == FLT_ROLE_BACKEND;
	node->weight = info->weight;
	node->features = info->features;
	node->state = info->state;
	node->admin = info->admin;
	return 0;
}

static int see_nodes(struct rebalance *r)
{
	bool first = !r->barred;
	uint32_t i;
	int status;

	for (i = 0; i < r->nr_nodes; i++)
		r->nodes[i].known = false;
	status = cli_result(r->cli, flt_node_each(r->cli->client, see_node, r));
	if (status)
		return status;
	if (first)
		r->barred = calloc((size_t)r->nr_nodes * r->nr_nodes + 1, sizeof(*r->barred));
	if (!r->barred)
		return cli_fail(r->cli, "out of memory");
	for (i = 0; i < r->nr_nodes; i++)
		judge(&r->nodes[i], first);
	return CLI_OK;
}

static bool is_of_service(const struct rebalance *r, const struct flt_tuple *tuple)
{
	const struct sockaddr_storage *s = &r->service;

	if (!s->ss_family)
		return true;
	if (s->ss_family != tuple->family || (address_port(s) && htons(address_port(s)) != tuple->server_port))
		return false;
	if (s->ss_family == AF_INET)
		return !memcmp(&((const struct sockaddr_in *)s)->sin_addr, tuple->server, 4);
	return !memcmp(&((const struct sockaddr_in6 *)s)->sin6_addr, tuple->server, 16);
}

static int see_conn(const struct flt_conn_info *info, void *arg)
{
	struct rebalance *r = arg;
	struct reb_conn *more;
	uint32_t i;

	if (strcmp(info->state, "FORWARD") || !is_of_service(r, &info->tuple))
		return 0;
	for (i = 0; i < r->nr_nodes && strcmp(r->nodes[i].name, info->node); i++)
		;
	if (i == r->nr_nodes)
		return 0;
	if (r->nr_conns == r->room) {
		more = reallocarray(r->conns, r->room ? r->room * 2 : 256, sizeof(*more));
		if (!more)
			return -ENOMEM;
		r->conns = more;
		r->room = r->room ? r->room * 2 : 256;
	}
	r->conns[r->nr_conns++] = (struct reb_conn){ .tuple = info->tuple, .node = i, .packets = info->packets, .load = 1,
							.named_to = NOT_NAMED };
	return 0;
}

static int by_tuple(const void *a, const void *b)
{
	const struct reb_conn *x = a, *y = b;

	return memcmp(&x->tuple, &y->tuple, sizeof(x->tuple));
}

static void note_arrived(struct rebalance *r, const struct reb_conn *was, const struct reb_conn *conn)
{
	struct reb_pair *pair;

	if (was->named_to == NOT_NAMED || (conn->node != was->named_to && conn->node != was->node))
		return;
	pair = rebalance_pair(r, was->node, was->named_to);
	if (pair && conn->node == was->node)
		pair->stayed++;
	else if (pair)
		pair->arrived++;
}

/* What the table says of the last round. */
static void judge_pair(struct rebalance *r, struct reb_pair *pair)
{
	if (pair->arrived > pair->moved)
		rebalance_count(r, pair, pair->arrived - pair->moved);
	/* Its packets cannot be sent straight, or it is a lie: it would be told the same again and again. */
	if (pair->named && pair->said + pair->stayed > pair->named)
		*rebalance_barred(r, pair->from, pair->to) = BARRED_THROUGH;
	pair->named = pair->stayed = 0;
}

/* What was known of it; a table that grows meanwhile shows one twice. */
static void remember(struct rebalance *r, const struct reb_conn *old, size_t nr_old)
{
	size_t i, to = 0;

	if (r->nr_conns)
		qsort(r->conns, r->nr_conns, sizeof(*r->conns), by_tuple);
	for (i = 0; i < r->nr_conns; i++) {
		struct reb_conn *conn = &r->conns[to];
		const struct reb_conn *was;
		uint64_t since;

		if (to && !by_tuple(&r->conns[to - 1], &r->conns[i]))
			continue;
		*conn = r->conns[i];
		was = nr_old ? bsearch(conn, old, nr_old, sizeof(*old), by_tuple) : NULL;
		since = was && conn->packets >= was->packets ? conn->packets - was->packets : conn->packets;
		conn->active = since;
		if (was) {
			conn->tries = was->tries;
			conn->fixed = was->fixed && was->node == conn->node;
			note_arrived(r, was, conn);
		}
		if (r->by_load)
			conn->load = since < UINT32_MAX ? since : UINT32_MAX;
		to++;
	}
	r->nr_conns = to;
}

static int see_conns(struct rebalance *r)
{
	struct reb_conn *old = r->conns;
	size_t nr_old = r->nr_conns, i;
	int status;

	r->conns = NULL;
	r->nr_conns = r->room = 0;
	status = cli_result(r->cli, flt_conn_each(r->cli->client, see_conn, r));
	if (!status)
		remember(r, old, nr_old);
	free(old);
	for (i = 0; i < r->nr_pairs; i++)
		judge_pair(r, &r->pairs[i]);
	for (i = 0; i < r->nr_nodes; i++)
		r->nodes[i].load = 0;
	for (i = 0; i < r->nr_conns; i++)
		r->nodes[r->conns[i].node].load += r->conns[i].load;
	return status;
}

int rebalance_look(struct rebalance *r)
{
	int status;

	if (!cli_client(r->cli))
		return CLI_FAILED;
	status = see_nodes(r);
	if (!status && r->by_load) {
		status = see_conns(r);
		if (!status)
			rebalance_sleep(SAMPLE_MS);
	}
	return status ? status : see_conns(r);
}

/* Those that count, and their shares. */
static void bounds(struct rebalance *r)
{
	uint32_t i;

	r->nr_counted = 0;
	for (i = 0; i < r->nr_nodes; i++) {
		struct reb_node *node = &r->nodes[i];

		if (node->out != COUNTS)
			continue;
		node->counted = r->nr_counted;
		r->counted[r->nr_counted++] = (struct balance_node){
			.load = node->load, .weight = node->weight, .gives = !node->took, .takes = !node->gave };
	}
	balance_bounds(r->counted, r->nr_counted, r->within);
	for (i = 0; i < r->nr_nodes; i++)
		if (r->nodes[i].out == COUNTS)
			r->nodes[i].bounds = r->counted[r->nodes[i].counted];
}

/* A node that has too few, and that nobody with too many can give to; 0: it is none. */
static uint16_t why_nobody_gives(const struct rebalance *r, uint32_t to)
{
	uint16_t why = 0;
	uint32_t i;

	if (r->nodes[to].out != COUNTS || r->nodes[to].load >= r->nodes[to].bounds.low)
		return 0;
	for (i = 0; i < r->nr_nodes; i++) {
		if (i == to || r->nodes[i].out != COUNTS || r->nodes[i].load <= r->nodes[i].bounds.share)
			continue;
		why = *rebalance_barred(r, i, to);
		if (!why)
			return 0;
	}
	return why;
}

static void leave_out(struct rebalance *r)
{
	char text[160];
	uint16_t why;
	uint32_t i;

	for (i = 0, bounds(r); i < r->nr_nodes; i++) {
		why = why_nobody_gives(r, i);
		if (!why)
			continue;
		rebalance_leave_out(&r->nodes[i], REFUSES, rebalance_why_barred(why, text, sizeof(text)));
		bounds(r);
		i = -1;		/* for the others it may be different now */
	}
}

/**
 * struct may - who may give to whom, by indices of those that count
 */
struct may {
	const struct rebalance *r;
	uint32_t *node;
};

static bool may_give(const void *arg, uint32_t from, uint32_t to)
{
	const struct may *may = arg;

	return !*rebalance_barred(may->r, may->node[from], may->node[to]);
}

/* As many as can move, in the order of @of. */
static size_t candidates(const struct rebalance *r, struct balance_conn *conns, size_t *of)
{
	size_t i, nr = 0;

	for (i = 0; i < r->nr_conns; i++) {
		const struct reb_conn *conn = &r->conns[i];
		const struct reb_node *node = &r->nodes[conn->node];

		if (conn->fixed || node->out != COUNTS || node->took)
			continue;
		/* Who asks is soon between two requests. */
		conns[nr] = (struct balance_conn){ .node = node->counted, .load = conn->load,
						   .rank = 2 * conn->tries + !conn->active };
		of[nr++] = i;
	}
	return nr;
}

static int by_nodes(const void *a, const void *b, void *arg)
{
	const struct reb_move *x = a, *y = b;
	const struct reb_conn *conns = arg;
	uint32_t from = conns[x->conn].node, other = conns[y->conn].node;

	if (from != other)
		return from < other ? -1 : 1;
	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	return x->conn < y->conn ? -1 : x->conn > y->conn;
}

static void say_since(const struct rebalance *r, struct reb_pair *pair)
{
	const struct reb_node *from = &r->nodes[pair->from], *to = &r->nodes[pair->to];
	const struct reb_node *of = from->load > from->bounds.high ? from : to;

	snprintf(pair->since, sizeof(pair->since), "%s has %llu%s of a fair share %llu (+-%llu%%)", of->name,
		 (unsigned long long)of->load, r->by_load ? " packets" : "", (unsigned long long)of->bounds.share,
		 (unsigned long long)r->within);
}

static int note_pairs(struct rebalance *r)
{
	struct reb_pair *pair;
	size_t i;

	for (i = 0; i < r->nr_pairs; i++)
		r->pairs[i].planned = r->pairs[i].moved;
	for (i = 0; i < r->nr_moves; i++) {
		pair = rebalance_pair(r, r->conns[r->moves[i].conn].node, r->moves[i].to);
		if (!pair)
			return cli_fail(r->cli, "out of memory");
		if (!pair->since[0])
			say_since(r, pair);
		pair->planned++;
	}
	return CLI_OK;
}

/* From the plan to moves. */
static int take_plan(struct rebalance *r, const struct balance *b, const size_t *of, const uint32_t *node)
{
	size_t i;

	free(r->moves);
	r->nr_moves = 0;
	r->moves = calloc(b->nr_conns + 1, sizeof(*r->moves));
	if (!r->moves)
		return cli_fail(r->cli, "out of memory");
	for (i = 0; i < b->nr_conns; i++)
		if (b->conns[i].to != BALANCE_STAYS)
			r->moves[r->nr_moves++] = (struct reb_move){ .to = node[b->conns[i].to], .conn = of[i] };
	if (r->nr_moves)
		qsort_r(r->moves, r->nr_moves, sizeof(*r->moves), by_nodes, r->conns);
	for (i = 0; i < r->nr_nodes; i++)
		if (r->nodes[i].out == COUNTS)
			r->nodes[i].bounds = r->counted[r->nodes[i].counted];
	return note_pairs(r);
}

int rebalance_plan(struct rebalance *r)
{
	struct balance_conn *conns = calloc(r->nr_conns + 1, sizeof(*conns));
	size_t *of = calloc(r->nr_conns + 1, sizeof(*of));
	uint32_t *node = calloc((size_t)r->nr_nodes + 1, sizeof(*node));
	struct may may = { .r = r, .node = node };
	struct balance b = { .conns = conns, .may = may_give, .arg = &may, .max = r->moved < r->max ? r->max - r->moved : 0 };
	int status = CLI_FAILED;
	uint32_t i;

	free(r->counted);
	r->counted = calloc((size_t)r->nr_nodes + 1, sizeof(*r->counted));
	if (!conns || !of || !node || !r->counted) {
		cli_fail(r->cli, "out of memory");
		goto out;
	}
	leave_out(r);
	for (i = 0; i < r->nr_nodes; i++)
		if (r->nodes[i].out == COUNTS)
			node[r->nodes[i].counted] = i;
	b.nodes = r->counted;
	b.nr_nodes = r->nr_counted;
	b.nr_conns = candidates(r, conns, of);
	if (balance_plan(&b) < 0)
		cli_fail(r->cli, "out of memory");
	else
		status = take_plan(r, &b, of, node);
out:
	free(conns);
	free(of);
	free(node);
	return status;
}
