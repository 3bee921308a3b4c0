// SPDX-License-Identifier: GPL-2.0
/* Whose nodes are the source's, after each reading, of a table that is no kernel's. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tools/follow/follow.h"
#include "tools/flotilla/lock.h"

/* The table, and whether it takes changes. */
static struct config table;
static bool refuses;
static uint32_t last_id = 10;

int __wrap_apply_lock(struct cli *cli);
void __wrap_apply_unlock(int fd);
int __wrap_changes_permitted(struct cli *cli);
int __wrap_config_live_nodes(struct cli *cli, struct config *config);
int __wrap_changes_run(struct cli *cli, const struct config *wanted, struct changes *changes);

static void copy_nodes(struct config *to, const struct config *from)
{
	*to = (struct config){ .file = "", .local = from->local, .nr_nodes = from->nr_nodes };
	to->nodes = calloc(from->nr_nodes + 1, sizeof(*to->nodes));
	assert_non_null(to->nodes);
	if (from->nr_nodes)
		memcpy(to->nodes, from->nodes, from->nr_nodes * sizeof(*to->nodes));
}

int __wrap_apply_lock(struct cli *cli)
{
	(void)cli;
	return 0;
}

void __wrap_apply_unlock(int fd)
{
	(void)fd;
}

int __wrap_changes_permitted(struct cli *cli)
{
	(void)cli;
	return CLI_OK;
}

int __wrap_config_live_nodes(struct cli *cli, struct config *config)
{
	(void)cli;
	copy_nodes(config, &table);
	return CLI_OK;
}

int __wrap_changes_run(struct cli *cli, const struct config *wanted, struct changes *changes)
{
	size_t i;

	(void)cli;
	(void)changes;
	if (refuses)
		return CLI_FAILED;
	config_free(&table);
	copy_nodes(&table, wanted);
	for (i = 0; i < table.nr_nodes; i++)
		if (!table.nodes[i].info.id)
			table.nodes[i].info.id = ++last_id;
	return CLI_OK;
}

static void begin(struct cli *cli)
{
	char text[] = "local name fe address 10.0.0.1\n";

	config_free(&table);
	table.file = "";
	assert_int_equal(config_text(cli, &table, text), CLI_OK);
	refuses = false;
}

static int follow(struct members *members, const char *lines)
{
	struct config answer = { .file = "source" };
	char *text = strdup(lines);
	int status = config_text(members->cli, &answer, text);

	if (!status)
		status = members_follow(members, &answer);
	config_free(&answer);
	free(text);
	return status;
}

static void its_own_are(const struct members *members, const char *expected)
{
	char text[256] = "";
	size_t i;

	for (i = 0; i < members->owner.nr; i++)
		sprintf(text + strlen(text), "%s%s%s", i ? " " : "", members->owner.list[i].name,
			members->owner.list[i].id ? "" : "?");
	assert_string_equal(text, expected);
}

static void nodes_that_were_added_are_its_own(void **state)
{
	const struct rules rules = { .max = 10 };
	struct cli cli = { .quiet = true };
	struct members members = { .cli = &cli, .rules = &rules, .owner.fd = -1 };

	(void)state;
	begin(&cli);
	assert_int_equal(follow(&members, "node be1 address 10.0.0.2\n"), CLI_OK);
	its_own_are(&members, "be1");
	refuses = true;
	assert_int_equal(follow(&members, "node be1 address 10.0.0.2\nnode be2 address 10.0.0.3\n"), CLI_FAILED);
	its_own_are(&members, "be1");
	members_free(&members);
}

/* Who gets this node's address later is not the source's because this node had it. */
static void this_node_itself_is_not(void **state)
{
	const struct rules rules = { .max = 10 };
	struct cli cli = { .quiet = true };
	struct members members = { .cli = &cli, .rules = &rules, .owner.fd = -1 };
	int i;

	(void)state;
	begin(&cli);
	for (i = 0; i < 2; i++) {
		assert_int_equal(follow(&members, "node fe address 10.0.0.1\nnode be1 address 10.0.0.2\n"), CLI_OK);
		its_own_are(&members, "be1");
	}
	members_free(&members);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes_that_were_added_are_its_own),
		cmocka_unit_test(this_node_itself_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
