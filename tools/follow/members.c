// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's nodes follow an answer: those of the source are made as it says, all others stay as they are.
 *
 * What is wanted is the whole table, others' nodes included, so that the comparison is that of apply.
 */
#include <stdlib.h>
#include <string.h>
#include "follow.h"
#include "tools/flotilla/lock.h"

static bool is_here(const struct config_local *local, const struct config_node *node)
{
	return address_equal(&node->info.addr, &local->addr4) || address_equal(&node->info.addr, &local->addr6);
}

/* Once, as long as it is so; @told has what was said before. */
static void tell(struct members *members, const char *told, const char *name)
{
	char line[FLT_NAME_MAX + 2], *more;

	snprintf(line, sizeof(line), "\n%s\n", name);
	if (!told || !strstr(told, line))
		log_say(LEVEL_WARN, "node %s was not added for this source: it stays as it is (--adopt)", name);
	if (asprintf(&more, "%s%s\n", members->told ? members->told : "\n", name) < 0)
		return;
	free(members->told);
	members->told = more;
}

static int add_node(struct cli *cli, struct config *wanted, const struct config_node *node)
{
	struct config_node *copy = config_grow(cli, &wanted->nodes, &wanted->nr_nodes, sizeof(*copy));

	if (!copy)
		return CLI_FAILED;
	*copy = *node;
	return CLI_OK;
}

/* A node of the answer, after all others' are there. */
static int want(struct members *members, const struct config *live, struct config *wanted, struct config_node *node,
		const char *told)
{
	const struct config_node *was = config_node_find(live, node->info.name);

	if (is_here(&live->local, node))
		return CLI_OK;
	if (was && config_node_find(wanted, node->info.name) && !owner_has(&members->owner, was) && !members->rules->adopt) {
		tell(members, told, node->info.name);
		return CLI_OK;
	}
	if (was && address_equal(&was->info.addr, &node->info.addr) &&
	    address_port(&was->info.addr) == address_port(&node->info.addr))
		rules_inherit(node, was);
	return add_node(members->cli, wanted, node);
}

static bool is_theirs(const struct members *members, const struct config_node *node, const struct config *answer)
{
	if (owner_has(&members->owner, node))
		return false;
	return !members->rules->adopt || !config_node_find(answer, node->info.name);
}

static int plan(struct members *members, const struct config *live, struct config *answer, struct config *wanted)
{
	char *told = members->told;
	int status = CLI_OK;
	size_t i;

	*wanted = (struct config){ .file = answer->file, .local = live->local };
	for (i = 0; i < live->nr_nodes && !status; i++)
		if (is_theirs(members, &live->nodes[i], answer))
			status = add_node(members->cli, wanted, &live->nodes[i]);
	members->told = NULL;
	for (i = 0; i < answer->nr_nodes && !status; i++)
		status = want(members, live, wanted, &answer->nodes[i], told);
	free(told);
	return status ? status : config_check(members->cli, wanted);
}

/*
 * The source's of what there is, and before it is there: those that are to be added, which have no number yet. Of the
 * nodes that there are, one is the source's if it was, or if the answer made it what it is.
 */
static int own(struct members *members, const struct config *live, const struct config *answer, bool done)
{
	struct owned *list = calloc(live->nr_nodes + answer->nr_nodes + 1, sizeof(*list));
	struct owner *owner = &members->owner;
	int status;
	size_t nr = 0, i;

	if (!list)
		return cli_fail(members->cli, "out of memory");
	for (i = 0; i < live->nr_nodes; i++) {
		const struct config_node *node = &live->nodes[i];

		if (!owner_has(owner, node) && !(members->rules->adopt && config_node_find(answer, node->info.name)))
			continue;
		strcpy(list[nr].name, node->info.name);
		list[nr].addr = node->info.addr;
		list[nr++].id = node->info.id;
	}
	for (i = 0; i < answer->nr_nodes && !done; i++) {
		const struct config_node *node = &answer->nodes[i], *was = config_node_find(live, node->info.name);

		/* Never added; one without a number would be anybody's who has its name and address later. */
		if (is_here(&live->local, node))
			continue;
		/* Somebody else's stay theirs, and what is as it should be has its number. */
		if (was && (is_theirs(members, was, answer) || (address_equal(&was->info.addr, &node->info.addr) &&
			    address_port(&was->info.addr) == address_port(&node->info.addr))))
			continue;
		strcpy(list[nr].name, node->info.name);
		list[nr++].addr = node->info.addr;
	}
	status = owner_set(members->cli, owner, list, nr);
	free(list);
	return status;
}

static void tell_changes(const struct members *members, const struct changes *changes)
{
	static const char *const statuses[] = { "planned", "done", "failed", "skipped" };
	char sign[2] = "";
	size_t i;

	for (i = 0; i < changes->nr; i++) {
		const struct change *c = &changes->list[i];

		sign[0] = c->sign;
		/* Of what was not begun something else has been said. */
		if (c->sign && (members->dry || c->status != CHANGE_PLANNED))
			log_change(sign, c->text, members->dry ? "would be" : statuses[c->status]);
	}
}

/* What a dry run would have made. */
static void model_take(struct members *members, struct config *wanted)
{
	struct config *model = &members->model;
	const struct config_node *was;
	size_t i;

	for (i = 0; i < wanted->nr_nodes; i++) {
		struct config_node *node = &wanted->nodes[i];

		was = config_node_find(model, node->info.name);
		if (was && address_equal(&was->info.addr, &node->info.addr))
			node->info.id = was->info.id;
		if (!node->info.id)
			node->info.id = ++members->next_id;
	}
	free(model->nodes);
	model->nodes = wanted->nodes;
	model->nr_nodes = wanted->nr_nodes;
	wanted->nodes = NULL;
	wanted->nr_nodes = 0;
}

static int live_of(struct members *members, struct config *live)
{
	size_t i;
	int status = CLI_OK;

	if (!members->model.file) {
		status = config_live_nodes(members->cli, live);
		if (!status && !live->local.given)
			status = cli_fail(members->cli, "this node has no name and address yet; try \"flotilla local set help\"");
		return status;
	}
	*live = (struct config){ .file = "", .local = members->model.local };
	for (i = 0; i < members->model.nr_nodes && !status; i++)
		status = add_node(members->cli, live, &members->model.nodes[i]);
	return status;
}

static int run(struct members *members, const struct config *answer, struct config *wanted, struct changes *changes)
{
	struct config now = { 0 };
	int status = changes_run(members->cli, wanted, changes), after;

	after = config_live_nodes(members->cli, &now);
	if (!after)
		after = own(members, &now, answer, true);
	config_free(&now);
	return status ? status : after;
}

/* @live and @wanted are freed by the caller. */
static int reconcile(struct members *members, struct config *answer, struct config *live, struct config *wanted)
{
	struct changes changes = { 0 };
	int status;

	status = live_of(members, live);
	if (!status)
		status = plan(members, live, answer, wanted);
	if (!status)
		status = config_compare(members->cli, live, wanted, false, &changes);
	cli_doing(members->cli, "change the nodes");
	if (!status && !members->dry && changes.nr)
		status = changes_permitted(members->cli);
	if (!status)
		status = own(members, live, answer, false);
	members->cli->doing[0] = '\0';
	if (!status && !members->dry && changes.nr)
		status = run(members, answer, wanted, &changes);
	if (!status && members->dry && members->model.file) {
		model_take(members, wanted);
		status = own(members, &members->model, answer, true);
	}
	tell_changes(members, &changes);
	changes_free(&changes);
	return status;
}

int members_follow(struct members *members, struct config *answer)
{
	struct config live = { 0 }, wanted = { 0 };
	struct cli *cli = members->cli;
	int status, lock = -1;

	status = rules_check(cli, members->rules, answer);
	if (status)
		return status;
	cli_doing(cli, "change the nodes");
	if (!members->dry) {
		lock = apply_lock(cli);
		if (lock < 0)
			return CLI_FAILED;
	}
	cli->doing[0] = '\0';
	status = reconcile(members, answer, &live, &wanted);
	apply_unlock(lock);
	config_free(&live);
	config_free(&wanted);
	cli->place[0] = '\0';
	cli->doing[0] = '\0';
	return status;
}

void members_free(struct members *members)
{
	owner_close(&members->owner);
	config_free(&members->model);
	free(members->told);
}
