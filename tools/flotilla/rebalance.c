// SPDX-License-Identifier: GPL-2.0
/* flotilla rebalance: connections move until the nodes' loads are near their shares. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "handoff.h"
#include "lock.h"
#include "rebalance.h"
#include "relocation.h"

#define WITHIN		10
#define WAIT_MS		60000
/* Other connections are tried when so long none of those that were named has moved; at the most. */
#define PATIENCE_MS	3000
#define PATIENCE_MAX_MS	24000
/* A link that is lost may come again. */
#define LOST_MS		10000
#define LOST_STEP_MS	500

static const struct column columns[] = {
	{ "node", "NODE", NULL },
	{ "weight", "WEIGHT", NULL },
	{ "before", "BEFORE", NULL },
	{ "after", "AFTER", NULL },
	{ "share", "SHARE", NULL },
	{ "low", "LOW", NULL },
	{ "high", "HIGH", NULL },
	{ "gave", "GAVE", NULL },
	{ "got", "GOT", NULL },
	{ "left_out", "LEFT-OUT", NULL },
};

static json_t *row_of(const struct rebalance *r, const struct reb_node *node)
{
	bool counts = node->out == COUNTS;
	uint64_t after = r->dry_run && counts ? node->bounds.after : node->load;
	json_t *row;

	row = json_pack("{s:s, s:I, s:I, s:I}", "node", node->name, "weight", (json_int_t)node->weight,
			"before", (json_int_t)node->first, "after", (json_int_t)after);
	if (counts) {
		json_object_set_new(row, "share", json_integer(node->bounds.share));
		json_object_set_new(row, "low", json_integer(node->bounds.low));
		json_object_set_new(row, "high", json_integer(node->bounds.high));
	}
	json_object_set_new(row, "gave", json_integer(node->moved_out));
	json_object_set_new(row, "got", json_integer(node->moved_in));
	if (!counts)
		json_object_set_new(row, "left_out", json_string(node->why));
	return row;
}

static const char *barred_text(const struct rebalance *r, const struct reb_pair *pair, char *text, size_t size)
{
	uint16_t why = *rebalance_barred(r, pair->from, pair->to);

	return why ? rebalance_why_barred(why, text, size) : NULL;
}

static json_t *step_of(const struct rebalance *r, const struct reb_pair *pair)
{
	const struct hof_relocate *last = &pair->last;
	char text[160];

	return json_pack("{s:s, s:s, s:I, s:I, s:s, s:s*, s:I, s:I, s:I, s:I, s:o, s:o}", "from", r->nodes[pair->from].name,
			 "to", r->nodes[pair->to].name, "planned", (json_int_t)pair->planned,
			 "moved", (json_int_t)pair->moved, "since", pair->since,
			 "barred", barred_text(r, pair, text, sizeof(text)), "waiting", (json_int_t)last->waiting,
			 "busy", (json_int_t)last->busy, "stuck", (json_int_t)last->stuck,
			 "through", (json_int_t)last->through, "stuck_by", follow_reasons(last->stuck_by),
			 "put_off", follow_reasons(last->put_off));
}

static void print_json(const struct rebalance *r, bool within)
{
	json_t *nodes = json_array(), *steps = json_array();
	size_t i;

	for (i = 0; i < r->nr_nodes; i++)
		json_array_append_new(nodes, row_of(r, &r->nodes[i]));
	for (i = 0; i < r->nr_pairs; i++)
		json_array_append_new(steps, step_of(r, &r->pairs[i]));
	json_print(r->cli, json_pack("{s:s, s:I, s:b, s:I, s:I, s:b, s:b, s:s*, s:o, s:o}",
				     "by", r->by_load ? "load" : "connections", "within", (json_int_t)r->within,
				     "dry_run", r->dry_run, "moved", (json_int_t)r->moved,
				     "rounds", (json_int_t)r->rounds, "balanced", within,
				     "interrupted", follow_is_stopped(), "why", r->outcome[0] ? r->outcome : NULL,
				     "nodes", nodes, "steps", steps));
}

static void print_left(const struct rebalance *r, const struct reb_pair *pair)
{
	if (pair->moved >= pair->planned || r->dry_run)
		return;
	follow_print(pair->last.waiting, "named last, between requests; they move with the next one (or by --idle)");
	follow_print(pair->last.busy, "named last, with a request or an answer under way");
	follow_print(pair->last.stuck, "cannot move");
}

static void print_steps(const struct rebalance *r)
{
	size_t i;

	for (i = 0; i < r->nr_pairs; i++) {
		const struct reb_pair *pair = &r->pairs[i];
		unsigned long long moved = r->dry_run ? pair->planned : pair->moved, planned = pair->planned;
		char text[160];
		const char *barred = barred_text(r, pair, text, sizeof(text));

		if (barred)
			printf("%s -> %s: not any more, %s\n", r->nodes[pair->from].name, r->nodes[pair->to].name, barred);
		if (!planned)
			continue;
		printf("%s -> %s: %llu", r->nodes[pair->from].name, r->nodes[pair->to].name, moved);
		if (moved < planned)
			printf(" of %llu", planned);
		printf(" connection%s, since %s\n", planned == 1 ? "" : "s", pair->since);
		if (r->explain)
			print_left(r, pair);
	}
}

static void print_shares(const struct rebalance *r)
{
	uint64_t load = 0, weights = 0;
	size_t i;

	for (i = 0; i < r->nr_counted; i++) {
		load += r->counted[i].load;
		weights += r->counted[i].weight;
	}
	printf("%llu %s of %u node%s, whose weights are %llu together\n", (unsigned long long)load,
	       r->by_load ? "packets in two seconds" : "connections", r->nr_counted, r->nr_counted == 1 ? "" : "s",
	       (unsigned long long)weights);
	for (i = 0; i < r->nr_nodes; i++) {
		const struct reb_node *node = &r->nodes[i];

		if (node->out == COUNTS)
			printf("%s: %llu * %u / %llu is a fair share of %llu; %llu to %llu is near enough\n", node->name,
			       (unsigned long long)load, node->weight, (unsigned long long)weights,
			       (unsigned long long)node->bounds.share, (unsigned long long)node->bounds.low,
			       (unsigned long long)node->bounds.high);
		else
			printf("%s is left out: %s\n", node->name, node->why);
	}
}

static void print(const struct rebalance *r, bool within)
{
	struct table table;
	size_t i;

	if (r->cli->json) {
		print_json(r, within);
		return;
	}
	table_begin(&table, r->cli, columns, ARRAY_SIZE(columns));
	for (i = 0; i < r->nr_nodes; i++)
		table_row(&table, row_of(r, &r->nodes[i]));
	table_end(&table);
	if (r->cli->tabs)
		return;
	if (r->explain)
		print_shares(r);
	print_steps(r);
	if (!r->dry_run)
		printf("moved %llu connection%s\n", (unsigned long long)r->moved, r->moved == 1 ? "" : "s");
}

/* Of a node that is not near its share: what has kept connections of it, or from it. */
static const char *hindrance(const struct rebalance *r, uint32_t node, char *text, size_t size)
{
	char why[160];
	size_t i;

	if (follow_is_stopped())
		return "interrupted";
	if (r->nodes[node].out != COUNTS)
		return r->nodes[node].why;
	for (i = 0; i < r->nr_pairs; i++) {
		const struct reb_pair *pair = &r->pairs[i];
		const char *barred = pair->from == node || pair->to == node ? barred_text(r, pair, why, sizeof(why)) : NULL;

		if (!barred)
			continue;
		snprintf(text, size, "%s -> %s: %s", r->nodes[pair->from].name, r->nodes[pair->to].name, barred);
		return text;
	}
	if (r->moved >= r->max)
		return "no more may move (--max)";
	if (r->nr_moves)
		return r->idle_ms ? "the others are busy" :
		       "the others are busy, or have no request that they could move with (--idle MS moves them without)";
	return "what it has is of no use, or cannot move";
}

/* All that should count, those that refuse among them. Sets @outcome when it is not as it should be. */
static bool is_balanced(struct rebalance *r)
{
	struct balance_node *all = calloc(r->nr_nodes + 1, sizeof(*all));
	char text[240];
	uint32_t i, nr = 0, worst = r->nr_nodes;

	if (!all)
		return false;
	for (i = 0; i < r->nr_nodes; i++)
		if (r->nodes[i].out != MEANT)
			all[nr++] = (struct balance_node){ .load = r->nodes[i].load, .weight = r->nodes[i].weight };
	balance_bounds(all, nr, r->within);
	for (i = 0, nr = 0; i < r->nr_nodes; i++) {
		const struct balance_node *of = &all[nr];

		if (r->nodes[i].out == MEANT)
			continue;
		nr++;
		if (balance_is_near(of) || (worst < r->nr_nodes && r->nodes[worst].out == REFUSES))
			continue;
		/* One that refuses says more than the others. */
		if (worst < r->nr_nodes && r->nodes[i].out != REFUSES && of->load <= of->high)
			continue;
		worst = i;
		snprintf(r->outcome, sizeof(r->outcome), "%s has %llu of a fair share %llu (+-%llu%%): %s", r->nodes[i].name,
			 (unsigned long long)of->load, (unsigned long long)of->share, (unsigned long long)r->within,
			 hindrance(r, i, text, sizeof(text)));
	}
	free(all);
	return worst == r->nr_nodes;
}

/* Is a node away that may soon be back? */
static bool waits_for_link(const struct rebalance *r)
{
	uint32_t i;

	for (i = 0; i < r->nr_nodes; i++)
		if (r->nodes[i].lost_ms && follow_now_ms() - r->nodes[i].lost_ms < LOST_MS)
			return true;
	return false;
}

/* Rounds until nothing is left to do, or nothing more can be done. Each moves some, or waits longer than the one before. */
static int go_on(struct rebalance *r)
{
	uint64_t before;
	int status = CLI_OK;

	while (!status && !rebalance_is_over(r)) {
		before = r->moved;
		if (r->nr_moves)
			status = rebalance_round(r);
		else if (waits_for_link(r))
			rebalance_sleep(LOST_STEP_MS);
		else
			break;
		if (r->moved > before)
			r->patience_ms = PATIENCE_MS + r->idle_ms;
		else if (r->patience_ms < PATIENCE_MAX_MS)
			r->patience_ms *= 2;
		if (!status)
			status = rebalance_look(r);
		if (!status)
			status = rebalance_plan(r);
	}
	return status;
}

static int run(struct rebalance *r)
{
	uint32_t i;
	int status = rebalance_look(r), lock = -1;

	if (status)
		return status;
	if (!r->nr_nodes)
		return cli_fail(r->cli, "there is no back-end (node add)");
	if (!r->dry_run) {
		r->device = follow_device(r->cli);
		lock = r->device < 0 ? -1 : rebalance_lock(r->cli);
		if (lock < 0)
			return CLI_FAILED;
		/* Another one may have been at it until just now. */
		status = rebalance_look(r);
	}
	for (i = 0; i < r->nr_nodes; i++)
		r->nodes[i].first = r->nodes[i].load;
	if (!status)
		status = rebalance_plan(r);
	if (!status && !r->dry_run)
		status = go_on(r);
	if (lock >= 0)
		close(lock);
	return status;
}

static int finish(struct rebalance *r, int status)
{
	bool balanced;

	/* What has moved is said, whatever else has gone wrong. */
	if (status && !r->moved)
		return status;
	balanced = is_balanced(r);
	if (r->dry_run)
		r->outcome[0] = '\0';
	print(r, balanced);
	if (status || balanced || r->dry_run)
		return status;
	return cli_fail(r->cli, "%s", r->outcome);
}

static int parse_by(struct rebalance *r, const char *text)
{
	if (strcmp(text, "load") && strcmp(text, "connections"))
		return cli_usage(r->cli, "--by %s is not connections or load", text);
	r->by_load = !strcmp(text, "load");
	return CLI_OK;
}

static int parse_value(struct rebalance *r, const char *word, const char *text)
{
	if (!strcmp(word, "--within"))
		return value_number(r->cli, word, text, 0, 100, &r->within);
	if (!strcmp(word, "--by"))
		return parse_by(r, text);
	if (!strcmp(word, "--idle"))
		return value_number(r->cli, word, text, 10, 86400000, &r->idle_ms);
	if (!strcmp(word, "--max"))
		return value_number(r->cli, word, text, 1, UINT32_MAX, &r->max);
	if (!strcmp(word, "--wait"))
		return follow_wait(r->cli, text, &r->wait_ms);
	return value_service(r->cli, text, &r->service);
}

static bool has_value(const char *word)
{
	return !strcmp(word, "--within") || !strcmp(word, "--by") || !strcmp(word, "--idle") || !strcmp(word, "--max") ||
	       !strcmp(word, "--wait") || !strcmp(word, "--service");
}

static int parse(struct rebalance *r, int argc, char **argv)
{
	int i, status = CLI_OK;

	for (i = 0; i < argc && !status; i++) {
		if (!strcmp(argv[i], "--dry-run"))
			r->dry_run = true;
		else if (!strcmp(argv[i], "--explain"))
			r->explain = true;
		else if (!has_value(argv[i]))
			status = cli_unknown(r->cli, argv[i]);
		else if (i + 1 == argc)
			status = cli_usage(r->cli, "%s needs a value", argv[i]);
		else
			status = parse_value(r, argv[i], argv[i + 1]), i++;
	}
	return status;
}

static int rebalance(struct cli *cli, int argc, char **argv)
{
	struct rebalance r = { .cli = cli, .within = WITHIN, .wait_ms = WAIT_MS, .max = SIZE_MAX, .device = -1 };
	struct follow follow;
	int status;

	cli_doing(cli, "rebalance");
	status = parse(&r, argc, argv);
	if (status)
		return status;
	r.patience_ms = PATIENCE_MS + r.idle_ms;
	r.begun_ms = follow_now_ms();
	follow_begin(&follow);
	status = finish(&r, run(&r));
	follow_end(&follow);
	if (r.device >= 0)
		close(r.device);
	free(r.nodes);
	free(r.conns);
	free(r.barred);
	free(r.pairs);
	free(r.moves);
	free(r.counted);
	return status;
}

static const struct command commands[] = {
	{ "", NULL, rebalance,
	  "[--within PERCENT] [--by connections|load] [--idle MS] [--wait SECONDS] [--max NUMBER]\n"
	  "         [--service ADDRESS[:PORT]] [--dry-run] [--explain]",
	  "Have connections move from back-ends with more than their share to those with less" },
	{ 0 }
};

const struct object rebalance_object = {
	"rebalance", "connections move between back-ends until each has about its share", commands, true,
	"Typed at the front-end, of the connections that it gave away. A fair share is by weight; a node that is\n"
	"within PERCENT (10) of it is left alone. Connections move with their next request after an answer;\n"
	"--idle MS: those, too, that have been still for so long. --by load counts the packets of clients in two\n"
	"seconds. A node that is drained, is down, or refuses is left out, and it is said why. It ends when all are\n"
	"within the bound, when nothing more can be done, or after --wait seconds (60); what has moved stays moved.\n"
	"The status is 1 when a node that should count is not within the bound. --dry-run only plans.\n",
};
