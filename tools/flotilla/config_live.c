// SPDX-License-Identifier: GPL-2.0
/* What the kernel has of all that save prints. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/genetlink.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "card.h"
#include "config.h"
#include "key.h"

/* How often the nodes are read again because one came up or went down meanwhile. */
#define STABLE_TRIES	8

/* The library tells one address of this node; it may have one of each family. */
static void local_message(const struct nlmsghdr *nlh, void *arg)
{
	struct config_local *local = arg;
	const struct nlattr *attr;

	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr)) {
		switch (mnl_attr_get_type(attr)) {
		case FLT_A_LOCAL_NAME:
			local->given = true;
			snprintf(local->name, FLT_NAME_MAX, "%s", mnl_attr_get_str(attr));
			break;
		case FLT_A_LOCAL_PORT:
			local->port = mnl_attr_get_u16(attr);
			break;
		case FLT_A_LOCAL_INSECURE:
			local->insecure = mnl_attr_get_u8(attr);
			break;
		case FLT_A_LOCAL_ADDR4:
			local->addr4.ss_family = AF_INET;
			memcpy(&((struct sockaddr_in *)&local->addr4)->sin_addr, mnl_attr_get_payload(attr), 4);
			break;
		case FLT_A_LOCAL_ADDR6:
			local->addr6.ss_family = AF_INET6;
			memcpy(&((struct sockaddr_in6 *)&local->addr6)->sin6_addr, mnl_attr_get_payload(attr), 16);
			break;
		}
	}
}

static int live_local(struct cli *cli, struct config_local *local)
{
	struct wire *w = wire_open_family(cli, FLT_GENL_NAME, "flotilla");

	if (!w)
		return CLI_FAILED;
	local->port = FLT_LINK_PORT;
	return wire_settle(cli, w, wire_transact(w, wire_request(w, FLT_CMD_LOCAL_GET, NLM_F_ACK), local_message, local));
}

struct live {
	struct cli *cli;
	struct config *config;
	unsigned int nr_ready;
};

static int take_node(const struct flt_node_info *info, void *arg)
{
	struct live *live = arg;
	struct config *config = live->config;
	struct config_node *node = config_grow(live->cli, &config->nodes, &config->nr_nodes, sizeof(*node));

	if (!node)
		return -ENOMEM;
	node->info = *info;
	if (info->auth == FLT_AUTH_PSK)
		snprintf(node->key, sizeof(node->key), "%d", info->key);
	if (info->fwd_addr.ss_family && address_equal(&info->fwd_addr, &info->addr))
		memset(&node->info.fwd_addr, 0, sizeof(node->info.fwd_addr));
	live->nr_ready += info->state == FLT_NODE_UP && info->role == FLT_ROLE_BACKEND &&
			  info->admin == FLT_ADMIN_ACTIVE;
	return 0;
}

static int take_service(const struct sockaddr_storage *addr, void *arg)
{
	struct live *live = arg;
	struct config *config = live->config;
	struct config_service *service;

	service = config_grow(live->cli, &config->services, &config->nr_services, sizeof(*service));
	if (!service)
		return -ENOMEM;
	service->addr = *addr;
	return 0;
}

static int live_settings(struct cli *cli, struct config *config)
{
	struct config_setting *setting;
	char value[VALUE_SIZE];
	unsigned int i;
	int err;

	for (i = 0; i < nr_settings; i++) {
		err = setting_read(&settings[i], value, sizeof(value));
		if (err == -ENOENT)
			continue;
		if (err)
			return cli_fail(cli, "%s %s cannot be read: %s", settings[i].kind, settings[i].name,
					strerror(-err));
		setting = config_grow(cli, &config->settings, &config->nr_settings, sizeof(*setting));
		if (!setting)
			return CLI_FAILED;
		setting->setting = &settings[i];
		strcpy(setting->value, value);
	}
	return CLI_OK;
}

static uint64_t number_of(const struct config *config, const char *kind, const char *name)
{
	const struct config_setting *s = config_setting_find(config, setting_find(kind, name));

	return s ? strtoull(s->value, NULL, 10) : 0;
}

/* What max_outstanding shows when it is automatic (LARD, section 3.1.4: S). */
static bool limit_is_auto(const struct config *config, unsigned int nr_ready)
{
	uint64_t shown = number_of(config, "policy", "max_outstanding"), limit = 0;

	if (nr_ready)
		limit = (nr_ready - 1) * number_of(config, "policy", "t_high") +
			number_of(config, "policy", "t_low") - 1;
	return shown == (limit < 100000000 ? limit : 100000000);
}

/*
 * The limit in effect is all that the kernel shows, and it moves with nodes that come up and go down: they and it are
 * read until both belong together, or it is not the computed one time after time.
 */
static int live_nodes_and_settings(struct live *live)
{
	struct config *config = live->config;
	int tries, status;

	for (tries = 0; tries < STABLE_TRIES && !config->auto_limit; tries++) {
		live->nr_ready = 0;
		config->nr_nodes = 0;
		config->nr_settings = 0;
		status = cli_result(live->cli, flt_node_each(live->cli->client, take_node, live));
		if (!status)
			status = live_settings(live->cli, config);
		if (status)
			return status;
		config->auto_limit = limit_is_auto(config, live->nr_ready);
	}
	return CLI_OK;
}

static void export_message(const struct nlmsghdr *nlh, void *arg)
{
	struct live *live = arg;
	struct config *config = live->config;
	struct config_export *export;
	const struct nlattr *attr;
	struct attrs a;
	size_t n = 0;

	export = config_grow(live->cli, &config->exports, &config->nr_exports, sizeof(*export));
	if (!export)
		return;
	attrs_parse(nlh, &a);
	snprintf(export->name, sizeof(export->name), "%s", attrs_text(&a, CARD_A_EXPORT_NAME));
	snprintf(export->device, sizeof(export->device), "%s", attrs_text(&a, CARD_A_EXPORT_PATH));
	snprintf(export->mount, sizeof(export->mount), "%s", attrs_text(&a, CARD_A_EXPORT_MOUNT));
	snprintf(export->policy, sizeof(export->policy), "%s", attrs_text(&a, CARD_A_EXPORT_POLICY));
	export->flags = attrs_number(&a, CARD_A_EXPORT_FLAGS);
	export->serve = attrs_number(&a, CARD_A_EXPORT_SERVE);
	export->deliver = attrs_number(&a, CARD_A_EXPORT_DELIVER);
	if (attrs_number(&a, CARD_A_EXPORT_ORIGIN) == CARD_ORIGIN_NAMED)
		uuid_write(mnl_attr_get_payload(a.at[CARD_A_EXPORT_UUID]), export->uuid);
	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr))
		if (mnl_attr_get_type(attr) == CARD_A_EXPORT_NODE && n < sizeof(export->nodes))
			n += snprintf(export->nodes + n, sizeof(export->nodes) - n, "%s%s", n ? "," : "",
				      mnl_attr_get_str(attr));
}

/* Without card.ko there are none; the kernel loads it for whoever asks. */
static int live_exports(struct live *live, bool load)
{
	bool quiet = live->cli->quiet;
	struct wire *w = NULL;

	live->cli->quiet = true;
	if (load || !access("/sys/module/card", F_OK))
		w = wire_open(live->cli);
	live->cli->quiet = quiet;
	if (!w) {
		live->config->no_card = true;
		return CLI_OK;
	}
	return wire_settle(live->cli, w, wire_transact(w, wire_request(w, CARD_CMD_EXPORT_GET, NLM_F_DUMP),
						       export_message, live));
}

int config_live_nodes(struct cli *cli, struct config *config)
{
	struct live live = { .cli = cli, .config = config };
	int status;

	*config = (struct config){ .file = "" };
	if (!cli_client(cli))
		return CLI_FAILED;
	status = live_local(cli, &config->local);
	return status ? status : cli_result(cli, flt_node_each(cli->client, take_node, &live));
}

int config_live(struct cli *cli, bool exports, struct config *config)
{
	struct live live = { .cli = cli, .config = config };
	int status;

	*config = (struct config){ .file = "" };
	if (!cli_client(cli))
		return CLI_FAILED;
	status = live_local(cli, &config->local);
	if (!status)
		status = live_nodes_and_settings(&live);
	if (!status)
		status = cli_result(cli, flt_service_each(cli->client, take_service, &live));
	if (!status)
		status = config_live_rules(cli, config);
	if (!status)
		status = live_exports(&live, exports);
	return status;
}
