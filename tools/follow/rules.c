// SPDX-License-Identifier: GPL-2.0
/* What a source may say of nodes, and what is said in its place. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include "follow.h"

#define ALWAYS	(FLT_GIVEN(FLT_A_NODE_WEIGHT) | FLT_GIVEN(FLT_A_NODE_ADMIN))

static const struct {
	const char *name;
	uint32_t bit;
	bool allowed;	/* by --allow */
} says[] = {
	{ "role", FLT_GIVEN(FLT_A_NODE_ROLE), true },
	{ "forward", FLT_GIVEN(FLT_A_NODE_FORWARD), true },
	{ "forward-address", FLT_GIVEN(FLT_A_NODE_FWD_ADDR4), true },
	{ "auth", FLT_GIVEN(FLT_A_NODE_AUTH), false },
};

int rules_set(struct cli *cli, struct rules *rules, char *words)
{
	char *argv[CLI_WORDS] = { "node", "set", "address", "192.0.2.1" };
	struct config set = { .file = "--set" };
	char *each[CLI_WORDS];
	int status, nr = cli_split(words, each), i;

	if (nr < 0 || nr + 4 > CLI_WORDS)
		return cli_usage(cli, "--set: %s", cli_split_why(nr));
	for (i = 0; i < nr; i++) {
		argv[i + 4] = each[i];
		if (!(i % 2) && (!strcmp(each[i], "address") || !strcmp(each[i], "port")))
			return cli_usage(cli, "--set: %s is for the source to say", each[i]);
	}
	status = config_take(cli, &set, ": ", nr + 4, argv);
	if (!status)
		rules->set = set.nodes[0];
	config_free(&set);
	cli->place[0] = '\0';
	cli->doing[0] = '\0';
	return status;
}

int rules_allow(struct cli *cli, struct rules *rules, char *words)
{
	char *each, *save = NULL;
	size_t i;

	for (each = strtok_r(words, ", ", &save); each; each = strtok_r(NULL, ", ", &save)) {
		for (i = 0; i < ARRAY_SIZE(says); i++)
			if (says[i].allowed && !strcmp(says[i].name, each))
				break;
		if (i == ARRAY_SIZE(says))
			return cli_usage(cli, "--allow %s: a source may be allowed role, forward and forward-address", each);
		rules->allow |= says[i].bit;
	}
	return CLI_OK;
}

int rules_within(struct cli *cli, struct rules *rules, const char *text)
{
	struct range *range = &rules->within[rules->nr_within];
	char address[64], *slash;
	uint64_t bits;
	int status;

	if (rules->nr_within == WITHIN_MAX)
		return cli_usage(cli, "--within: more than %d", WITHIN_MAX);
	snprintf(address, sizeof(address), "%s", text);
	slash = strchr(address, '/');
	if (slash)
		*slash++ = '\0';
	range->family = inet_pton(AF_INET, address, range->bytes) == 1 ? AF_INET :
			inet_pton(AF_INET6, address, range->bytes) == 1 ? AF_INET6 : 0;
	if (!range->family || !slash)
		return cli_usage(cli, "--within %s is not ADDRESS/BITS", text);
	status = value_number(cli, "--within: bits", slash, 0, range->family == AF_INET ? 32 : 128, &bits);
	range->bits = bits;
	rules->nr_within++;
	return status;
}

static bool is_within(const struct range *range, const struct sockaddr_storage *ss)
{
	const unsigned char *bytes = ss->ss_family == AF_INET ?
		(const void *)&((const struct sockaddr_in *)ss)->sin_addr :
		(const void *)&((const struct sockaddr_in6 *)ss)->sin6_addr;
	int whole = range->bits / 8, rest = range->bits % 8;

	if (range->family != ss->ss_family || memcmp(range->bytes, bytes, whole))
		return false;
	return !rest || !((range->bytes[whole] ^ bytes[whole]) >> (8 - rest));
}

static int check_range(struct cli *cli, const struct rules *rules, const struct sockaddr_storage *ss)
{
	char text[64];
	unsigned int i;

	for (i = 0; i < rules->nr_within; i++)
		if (is_within(&rules->within[i], ss))
			return CLI_OK;
	if (!rules->nr_within || !ss->ss_family)
		return CLI_OK;
	return cli_usage(cli, "%s is not within what --within allows", address_text(ss, text, sizeof(text)));
}

/* What is given of @from and not of @to. */
static void inherit(struct config_node *to, const struct config_node *from, uint32_t given)
{
	struct flt_node_info *t = &to->info;
	const struct flt_node_info *f = &from->info;

	given &= ~t->given;
	t->given |= given;
	if (given & FLT_GIVEN(FLT_A_NODE_WEIGHT))
		t->weight = f->weight;
	if (given & FLT_GIVEN(FLT_A_NODE_ROLE))
		t->role = f->role;
	if (given & FLT_GIVEN(FLT_A_NODE_ADMIN))
		t->admin = f->admin;
	if (given & FLT_GIVEN(FLT_A_NODE_FORWARD))
		t->forward = f->forward;
	if (given & FLT_GIVEN(FLT_A_NODE_FWD_ADDR4))
		t->fwd_addr = f->fwd_addr;
	if (given & FLT_GIVEN(FLT_A_NODE_AUTH)) {
		t->auth = f->auth;
		t->key = f->key;
		strcpy(to->key, from->key);
	}
}

static int check_node(struct cli *cli, const struct rules *rules, const struct config *answer, struct config_node *node)
{
	uint32_t more = node->info.given & ~(ALWAYS | rules->allow);
	size_t i;
	int status;

	config_place(cli, answer, node->place);
	cli_doing(cli, "use node %s", node->info.name);
	for (i = 0; i < ARRAY_SIZE(says); i++)
		if (more & says[i].bit || (node->key[0] && !says[i].allowed))
			return cli_usage(cli, "%s is not for this source to say (%s)", says[i].name,
					 says[i].allowed ? "--allow" : "--set");
	status = check_range(cli, rules, &node->info.addr);
	if (!status)
		status = check_range(cli, rules, &node->info.fwd_addr);
	if (!status)
		inherit(node, &rules->set, rules->set.info.given);
	return status;
}

int rules_check(struct cli *cli, const struct rules *rules, struct config *answer)
{
	int status = CLI_OK;
	size_t i;

	config_place(cli, answer, "");
	cli->doing[0] = '\0';
	if (answer->local.given || answer->nr_services || answer->nr_settings || answer->nr_migrates ||
	    answer->nr_redirects || answer->nr_exports)
		status = cli_usage(cli, "a source has nodes and nothing else");
	else if (!answer->nr_nodes && !rules->empty)
		status = cli_usage(cli, "it names no node, so nothing is changed (--allow-empty)");
	for (i = 0; i < answer->nr_nodes && !status; i++)
		status = check_node(cli, rules, answer, &answer->nodes[i]);
	cli->place[0] = '\0';
	cli->doing[0] = '\0';
	return status;
}

void rules_inherit(struct config_node *to, const struct config_node *from)
{
	inherit(to, from, ~0U);
}
