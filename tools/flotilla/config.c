// SPDX-License-Identifier: GPL-2.0
/* What a file wants: one line after another, then as a whole. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include "card.h"
#include "config.h"

void config_place(struct cli *cli, const struct config *config, const char *place)
{
	snprintf(cli->place, sizeof(cli->place), "%.230s%s", config->file, place[0] ? place : ": ");
}

void *config_grow(struct cli *cli, void *array, size_t *nr, size_t size)
{
	char *grown = reallocarray(*(void **)array, *nr + 1, size);

	if (!grown) {
		cli_fail(cli, "out of memory");
		return NULL;
	}
	*(void **)array = grown;
	return memset(grown + size * (*nr)++, 0, size);
}

bool address_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return a->ss_family != AF_INET6 ||
	       !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
		       &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr));
}

const struct config_node *config_node_find(const struct config *config, const char *name)
{
	size_t i;

	for (i = 0; i < config->nr_nodes; i++)
		if (!strcmp(config->nodes[i].info.name, name))
			return &config->nodes[i];
	return NULL;
}

const struct config_export *config_export_find(const struct config *config, const char *name)
{
	size_t i;

	for (i = 0; i < config->nr_exports; i++)
		if (!strcmp(config->exports[i].name, name))
			return &config->exports[i];
	return NULL;
}

const struct config_setting *config_setting_find(const struct config *config, const struct setting *s)
{
	size_t i;

	for (i = 0; i < config->nr_settings; i++)
		if (config->settings[i].setting == s)
			return &config->settings[i];
	return NULL;
}

bool config_service_has(const struct config *config, const struct sockaddr_storage *service)
{
	size_t i;

	for (i = 0; i < config->nr_services; i++)
		if (address_equal(&config->services[i].addr, service) &&
		    address_port(&config->services[i].addr) == address_port(service))
			return true;
	return false;
}

int config_address(struct cli *cli, const struct sockaddr_storage *ss, bool service)
{
	const struct in6_addr *v6 = &((const struct sockaddr_in6 *)ss)->sin6_addr;
	uint32_t v4 = ntohl(((const struct sockaddr_in *)ss)->sin_addr.s_addr);
	char text[64];

	address_text(ss, text, sizeof(text));
	if (ss->ss_family == AF_INET ? !(v4 >> 24) || IN_MULTICAST(v4) || v4 == INADDR_BROADCAST :
	    IN6_IS_ADDR_UNSPECIFIED(v6) || IN6_IS_ADDR_MULTICAST(v6))
		return cli_usage(cli, "%s is not the address of one host", text);
	if (ss->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(v6))
		return cli_usage(cli, "%s is an IPv4 address: give it as such", text);
	if (ss->ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(v6))
		return cli_usage(cli, "%s is a link-local address, which does not say on which interface", text);
	if (service && (ss->ss_family == AF_INET ? v4 >> 24 == 127 : IN6_IS_ADDR_LOOPBACK(v6)))
		return cli_usage(cli, "%s is a loopback address, which serves this machine only", text);
	return CLI_OK;
}

static int take_address(struct cli *cli, const char *key, const char *value, struct sockaddr_storage *out)
{
	int status = value_address(cli, key, value, out);

	return status ? status : config_address(cli, out, false);
}

static int take_name(struct cli *cli, const char *value, char out[FLT_NAME_MAX])
{
	if (!strcmp(value, ".") || !strcmp(value, ".."))
		return cli_usage(cli, "%s is not a name", value);
	return value_name(cli, value, out);
}

static int twice(struct cli *cli, const char *key)
{
	return cli_usage(cli, "%s is given twice", key);
}

static int take_text(struct cli *cli, const char *key, const char *value, char *out, size_t size)
{
	if (out[0])
		return twice(cli, key);
	if (!value[0] || strlen(value) >= size)
		return cli_usage(cli, "%s is empty or too long", key);
	strcpy(out, value);
	return CLI_OK;
}

static int local_argument(struct cli *cli, struct config_local *local, const char *key, const char *value,
			  bool *switched)
{
	struct sockaddr_storage addr = { 0 }, *where;
	int status;

	if (!strcmp(key, "name"))
		return local->name[0] ? twice(cli, key) : take_name(cli, value, local->name);
	if (!strcmp(key, "port")) {
		if (address_port(&local->addr4))
			return twice(cli, key);
		status = value_port(cli, value, &local->addr4);
		local->port = address_port(&local->addr4);
		return status;
	}
	if (!strcmp(key, "insecure")) {
		if (*switched)
			return twice(cli, key);
		*switched = true;
		return value_word(cli, key, value, &switches, &local->insecure);
	}
	if (strcmp(key, "address"))
		return cli_usage(cli, "%s is not something that this node has", key);
	status = take_address(cli, key, value, &addr);
	if (status)
		return status;
	where = addr.ss_family == AF_INET ? &local->addr4 : &local->addr6;
	if (where->ss_family)
		return cli_usage(cli, "one address of a family, not two");
	((struct sockaddr_in *)&addr)->sin_port = ((struct sockaddr_in *)where)->sin_port;
	*where = addr;
	return CLI_OK;
}

static int take_local(struct cli *cli, struct config *config, const char *place, int argc, char **argv)
{
	struct config_local *local = &config->local;
	bool switched = false;
	int status = CLI_OK;

	cli_doing(cli, "use this node's line");
	if (local->given)
		return cli_usage(cli, "there is one already");
	local->given = true;
	local->port = FLT_LINK_PORT;
	snprintf(local->place, PLACE_SIZE, "%s", place);
	for (; argc && !status; argc -= 2, argv += 2) {
		if (argc == 1)
			return cli_usage(cli, "%s needs a value", argv[0]);
		status = local_argument(cli, local, argv[0], argv[1], &switched);
	}
	if (!status && !local->name[0])
		status = cli_usage(cli, "its name is missing");
	if (!status && !local->addr4.ss_family && !local->addr6.ss_family)
		status = cli_usage(cli, "its address is missing");
	return status;
}

static int node_line_argument(struct cli *cli, struct config_node *node, const char *key, const char *value)
{
	struct flt_node_info *info = &node->info;
	uint32_t before = info->given;
	int status;

	if (!strcmp(key, "address")) {
		if (info->addr.ss_family)
			return twice(cli, key);
		return take_address(cli, key, value, &info->addr);
	}
	if (!strcmp(key, "port"))
		return address_port(&info->addr) ? twice(cli, key) : value_port(cli, value, &info->addr);
	if (!strcmp(key, "key"))
		return take_text(cli, key, value, node->key, sizeof(node->key));
	status = node_argument(cli, info, key, value);
	if (!status && info->given == before)
		return twice(cli, key);
	if (!status && !strcmp(key, "forward-address"))
		status = config_address(cli, &info->fwd_addr, false);
	return status;
}

static int take_node(struct cli *cli, struct config *config, const char *place, int argc, char **argv)
{
	struct config_node *node;
	int status;

	cli_doing(cli, "use a node");
	if (config->max_nodes && config->nr_nodes == config->max_nodes)
		return cli_usage(cli, "there are more than %zu of them (--max)", config->max_nodes);
	node = config_grow(cli, &config->nodes, &config->nr_nodes, sizeof(*node));
	if (!node)
		return CLI_FAILED;
	if (!argc)
		return cli_usage(cli, "its name is missing");
	cli_doing(cli, "use node %s", argv[0]);
	node->info.weight = 100;
	snprintf(node->place, PLACE_SIZE, "%s", place);
	status = take_name(cli, argv[0], node->info.name);
	for (argc--, argv++; argc && !status; argc -= 2, argv += 2) {
		if (argc == 1)
			return cli_usage(cli, "%s needs a value", argv[0]);
		status = node_line_argument(cli, node, argv[0], argv[1]);
	}
	if (status)
		return status;
	if (!node->info.addr.ss_family)
		return cli_usage(cli, "its address is missing");
	if (!address_port(&node->info.addr))
		((struct sockaddr_in *)&node->info.addr)->sin_port = htons(FLT_LINK_PORT);
	if (node->info.fwd_addr.ss_family && address_equal(&node->info.fwd_addr, &node->info.addr))
		memset(&node->info.fwd_addr, 0, sizeof(node->info.fwd_addr));
	if (node->info.auth == FLT_AUTH_PSK && !node->key[0])
		return cli_usage(cli, "auth psk needs a key");
	if (node->key[0] && node->info.auth != FLT_AUTH_PSK)
		return cli_usage(cli, "a key goes only with auth psk");
	return CLI_OK;
}

static int take_services(struct cli *cli, struct config *config, const char *place, int argc, char **argv)
{
	struct config_service *service;
	struct sockaddr_storage addr;
	int status;

	cli_doing(cli, "use a service");
	if (!argc)
		return cli_usage(cli, "its address is missing");
	for (; argc; argc--, argv++) {
		cli_doing(cli, "use service %s", argv[0]);
		status = value_service(cli, argv[0], &addr);
		if (!status)
			status = config_address(cli, &addr, true);
		if (status)
			return status;
		if (config_service_has(config, &addr))
			return cli_usage(cli, "it is there already");
		service = config_grow(cli, &config->services, &config->nr_services, sizeof(*service));
		if (!service)
			return CLI_FAILED;
		service->addr = addr;
		snprintf(service->place, PLACE_SIZE, "%s", place);
	}
	return CLI_OK;
}

static int take_setting(struct cli *cli, struct config *config, const char *place, const struct setting *s,
			const char *value)
{
	struct config_setting *setting;
	int status = setting_check(cli, s, value);

	if (status)
		return status;
	if (config_setting_find(config, s))
		return twice(cli, s->name);
	setting = config_grow(cli, &config->settings, &config->nr_settings, sizeof(*setting));
	if (!setting)
		return CLI_FAILED;
	setting->setting = s;
	/* 007 and 7 are one number. */
	while (value[0] == '0' && value[1])
		value++;
	snprintf(setting->value, VALUE_SIZE, "%s", value);
	snprintf(setting->place, PLACE_SIZE, "%s", place);
	return CLI_OK;
}

static int take_settings(struct cli *cli, struct config *config, const char *place, const char *kind, int argc,
			 char **argv)
{
	const struct setting *s;
	int status = CLI_OK;

	cli_doing(cli, "use the %s line", kind);
	if (!argc)
		return cli_usage(cli, "nothing to set is given");
	/* As in "policy set": its own name may be left out. */
	s = setting_find(kind, kind);
	if (s && argc % 2) {
		status = take_setting(cli, config, place, s, argv[0]);
		argc--, argv++;
	}
	for (; argc && !status; argc -= 2, argv += 2) {
		s = setting_find(kind, argv[0]);
		if (!s)
			return cli_usage(cli, "there is no %s setting %s", kind, argv[0]);
		if (argc == 1)
			return cli_usage(cli, "%s needs a value", argv[0]);
		status = take_setting(cli, config, place, s, argv[1]);
	}
	return status;
}

static int take_range(struct cli *cli, const char *key, const char *value, uint64_t max, char *out, size_t size)
{
	uint64_t number;
	int status = value_number(cli, key, value, 0, max, &number);

	return status ? status : take_text(cli, key, value, out, size);
}

static int take_names(struct cli *cli, const char *key, const char *value, char *out, size_t size)
{
	char names[CARD_NODES_MAX * FLT_NAME_MAX], name[FLT_NAME_MAX], *each, *save = NULL;
	int status = take_text(cli, key, value, out, size);

	if (status)
		return status;
	strcpy(names, value);
	for (each = strtok_r(names, ",", &save); each && !status; each = strtok_r(NULL, ",", &save))
		status = take_name(cli, each, name);
	return status;
}

static int export_argument(struct cli *cli, struct config_export *export, const char *key, const char *value)
{
	unsigned char uuid[CARD_UUID_LEN];

	if (!strcmp(key, "device"))
		return take_text(cli, key, value, export->device, sizeof(export->device));
	if (!strcmp(key, "mount"))
		return take_text(cli, key, value, export->mount, sizeof(export->mount));
	if (!strcmp(key, "policy"))
		return take_text(cli, key, value, export->policy, sizeof(export->policy));
	if (!strcmp(key, "nodes"))
		return take_names(cli, key, value, export->nodes, sizeof(export->nodes));
	if (!strcmp(key, "serve"))
		return value_word(cli, key, value, &card_serves, &export->serve);
	if (!strcmp(key, "deliver"))
		return value_word(cli, key, value, &card_delivers, &export->deliver);
	if (!strcmp(key, "host"))
		return take_range(cli, key, value, INT32_MAX, export->host, sizeof(export->host));
	if (!strcmp(key, "home_shift"))
		return take_range(cli, key, value, CARD_HOME_SHIFT_MAX, export->home_shift, sizeof(export->home_shift));
	if (strcmp(key, "uuid"))
		return cli_usage(cli, "%s is not something that an export has", key);
	if (!uuid_read(value, uuid))
		return cli_usage(cli, "%s is not a UUID", value);
	if (export->uuid[0])
		return twice(cli, key);
	uuid_write(uuid, export->uuid);
	return CLI_OK;
}

static int take_export(struct cli *cli, struct config *config, const char *place, int argc, char **argv)
{
	struct config_export *export = config_grow(cli, &config->exports, &config->nr_exports, sizeof(*export));
	uint32_t flag;
	int status;

	cli_doing(cli, "use an export");
	if (!export)
		return CLI_FAILED;
	if (!argc)
		return cli_usage(cli, "its name is missing");
	cli_doing(cli, "use export %s", argv[0]);
	snprintf(export->place, PLACE_SIZE, "%s", place);
	status = take_name(cli, argv[0], export->name);
	for (argc--, argv++; argc && !status; argc--, argv++) {
		flag = card_flag(argv[0]) & (CARD_FLAG_WRITE | CARD_FLAG_SHARED | CARD_FLAG_UNCLAIMED);
		if (export->flags & flag)
			return twice(cli, argv[0]);
		export->flags |= flag;
		if (flag)
			continue;
		if (argc == 1)
			return cli_usage(cli, "%s is unknown, or needs a value", argv[0]);
		status = export_argument(cli, export, argv[0], argv[1]);
		argc--, argv++;
	}
	if (status)
		return status;
	if (!export->policy[0])
		strcpy(export->policy, "none");
	if (!export->device[0])
		return cli_usage(cli, "its device is missing");
	if (!export->nodes[0])
		return cli_usage(cli, "its nodes are missing");
	if (export->flags & CARD_FLAG_SHARED && !(export->flags & CARD_FLAG_WRITE))
		return cli_usage(cli, "shared goes only with write");
	return CLI_OK;
}

int config_take(struct cli *cli, struct config *config, const char *place, int argc, char **argv)
{
	config_place(cli, config, place);
	cli->doing[0] = '\0';
	if (!strcmp(argv[0], "local"))
		return take_local(cli, config, place, argc - 1, argv + 1);
	if (!strcmp(argv[0], "node"))
		return take_node(cli, config, place, argc - 1, argv + 1);
	if (!strcmp(argv[0], "service"))
		return take_services(cli, config, place, argc - 1, argv + 1);
	if (!strcmp(argv[0], "policy") || !strcmp(argv[0], "links") || !strcmp(argv[0], "sysctl"))
		return take_settings(cli, config, place, argv[0], argc - 1, argv + 1);
	if (!strcmp(argv[0], "migrate"))
		return config_take_migrate(cli, config, place, argc - 1, argv + 1);
	if (!strcmp(argv[0], "redirect"))
		return config_take_redirect(cli, config, place, argc - 1, argv + 1);
	if (!strcmp(argv[0], "export"))
		return take_export(cli, config, place, argc - 1, argv + 1);
	return cli_usage(cli, "a line begins with local, node, service, policy, links, sysctl, migrate, redirect or "
			 "export, not with %s", argv[0]);
}

static bool is_local(const struct config_local *local, const struct sockaddr_storage *addr)
{
	return address_equal(addr, &local->addr4) || address_equal(addr, &local->addr6);
}

static int check_node(struct cli *cli, const struct config *config, size_t at)
{
	const struct config_node *node = &config->nodes[at];
	size_t i;

	config_place(cli, config, node->place);
	cli_doing(cli, "use node %s", node->info.name);
	if (!strcmp(node->info.name, config->local.name))
		return cli_usage(cli, "that is the name of this node itself");
	if (is_local(&config->local, &node->info.addr))
		return cli_usage(cli, "that is the address of this node itself");
	for (i = 0; i < at; i++) {
		if (!strcmp(node->info.name, config->nodes[i].info.name))
			return cli_usage(cli, "a node of that name is there already");
		if (address_equal(&node->info.addr, &config->nodes[i].info.addr))
			return cli_usage(cli, "node %s has that address", config->nodes[i].info.name);
	}
	return CLI_OK;
}

/*
 * Without this node's line it could be any file, an empty one say, whose lack of nodes would end all links.
 */
int config_check(struct cli *cli, const struct config *config)
{
	int status = CLI_OK;
	size_t i, j;

	config_place(cli, config, "");
	cli->doing[0] = '\0';
	if (!config->local.given)
		return cli_usage(cli, "the line \"local name NAME address ADDRESS\" is missing");
	for (i = 0; i < config->nr_nodes && !status; i++)
		status = check_node(cli, config, i);
	for (i = 0; i < config->nr_exports && !status; i++)
		for (j = 0; j < i && !status; j++)
			if (!strcmp(config->exports[i].name, config->exports[j].name)) {
				config_place(cli, config, config->exports[i].place);
				cli_doing(cli, "use export %s", config->exports[i].name);
				status = cli_usage(cli, "an export of that name is there already");
			}
	cli->doing[0] = '\0';
	return status;
}

void config_free(struct config *config)
{
	free(config->nodes);
	free(config->services);
	free(config->exports);
	free(config->settings);
	free(config->migrates);
	free(config->redirects);
	memset(config, 0, sizeof(*config));
}
