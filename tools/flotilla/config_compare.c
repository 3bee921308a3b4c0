// SPDX-License-Identifier: GPL-2.0
/* The way from what the kernel has to what a file wants, as commands of this program. */
#include <stdlib.h>
#include <string.h>
#include "card.h"
#include "config_diff.h"
#include "key.h"

#define CARD_FLAGS_GIVEN	(CARD_FLAG_WRITE | CARD_FLAG_SHARED | CARD_FLAG_UNCLAIMED)

/* One line for the whole policy: it changes together or not at all. */
static void compare_policy(struct compare *c)
{
	struct change *change;
	const char *place = NULL;
	struct diff d;
	size_t i;

	diff_begin(&d);
	for (i = 0; i < c->wanted->nr_settings; i++) {
		const struct config_setting *is = &c->wanted->settings[i];
		const struct config_setting *was = config_setting_find(c->live, is->setting);
		const char *value = was ? was->value : "";

		if (strcmp(is->setting->kind, "policy"))
			continue;
		/* The kernel shows the limit in effect and not whether it was given. */
		if (!strcmp(is->setting->name, "max_outstanding") && c->live->auto_limit) {
			if (!strcmp(is->value, value)) {
				change = add_change(c, 0, PHASE_SETTING, is->place);
				change->commands[0] = text_of("policy set max_outstanding %s", is->value);
				continue;
			}
			value = "auto";
		}
		diff_text(&d, is->setting->name, value, is->value);
		if (d.nr == 1 && !place)
			place = is->place;
	}
	diff_end(&d);
	if (d.nr) {
		change = add_change(c, '~', PHASE_SETTING, place);
		change->text = text_of("policy %s", d.text);
		change->commands[0] = text_of("policy set%s", d.words);
	}
	diff_free(&d);
}

static int compare_settings(struct compare *c)
{
	struct change *change;
	size_t i;

	for (i = 0; i < c->wanted->nr_settings; i++) {
		const struct config_setting *is = &c->wanted->settings[i];
		const struct config_setting *was = config_setting_find(c->live, is->setting);

		if (!was) {
			config_place(c->cli, c->wanted, is->place);
			return cli_fail(c->cli, "there is no %s %s: %s.ko is not loaded, or /sys and /proc show another "
					"network namespace", is->setting->kind, is->setting->name,
					strcmp(is->setting->kind, "sysctl") ? "flotilla" : "handoff");
		}
		if (!strcmp(is->setting->kind, "policy") || !strcmp(is->value, was->value))
			continue;
		change = add_change(c, '~', PHASE_SETTING, is->place);
		change->text = text_of("%s %s %s -> %s", is->setting->kind, is->setting->name, was->value, is->value);
		change->setting = is->setting;
		change->value = is->value;
	}
	compare_policy(c);
	return CLI_OK;
}

/* Values that are each possible, but not together. */
static int check_limits(struct compare *c)
{
	const struct setting *low = setting_find("policy", "t_low"), *high = setting_find("policy", "t_high");
	const struct config_setting *wanted_low = config_setting_find(c->wanted, low);
	const struct config_setting *wanted_high = config_setting_find(c->wanted, high);
	const struct config_setting *l = wanted_low ? wanted_low : config_setting_find(c->live, low);
	const struct config_setting *h = wanted_high ? wanted_high : config_setting_find(c->live, high);

	if ((!wanted_low && !wanted_high) || !l || !h || atoi(l->value) < atoi(h->value))
		return CLI_OK;
	config_place(c->cli, c->wanted, wanted_low ? wanted_low->place : wanted_high->place);
	return cli_usage(c->cli, "t_low %s is not below t_high %s", l->value, h->value);
}

static int check_taken_away(struct compare *c, const struct sockaddr_storage *was,
			    const struct sockaddr_storage *is)
{
	char text[64];

	if (!was->ss_family || is->ss_family)
		return CLI_OK;
	config_place(c->cli, c->wanted, c->wanted->local.place);
	return cli_fail(c->cli, "this node has the address %s, which cannot be taken away: name it, too, or load flotilla.ko anew",
			address_text(was, text, sizeof(text)));
}

static int compare_local(struct compare *c)
{
	const struct config_local *was = &c->live->local, *is = &c->wanted->local;
	const struct sockaddr_storage *first = is->addr4.ss_family ? &is->addr4 : &is->addr6;
	struct change *change;
	struct diff d;
	char text[64];
	int status;

	status = check_taken_away(c, &was->addr4, &is->addr4);
	if (!status)
		status = check_taken_away(c, &was->addr6, &is->addr6);
	if (status)
		return status;
	diff_begin(&d);
	diff_text(&d, "name", was->name, is->name);
	diff_address(&d, "address", &was->addr4, &is->addr4);
	diff_address(&d, "address", &was->addr6, &is->addr6);
	diff_number(&d, "port", was->port, is->port);
	diff_word(&d, "insecure", &switches, was->insecure, is->insecure);
	diff_end(&d);
	if (d.nr) {
		change = add_change(c, was->given ? '~' : '+', PHASE_LOCAL, is->place);
		change->text = was->given ? text_of("local %s", d.text) : with_words("local", local_words(is));
		change->commands[0] = text_of("local set name %s address %s port %u insecure %s", is->name,
					      address_text(first, text, sizeof(text)), is->port,
					      word_of(&switches, is->insecure));
		if (is->addr4.ss_family && is->addr6.ss_family)
			change->commands[1] = text_of("local set address %s", address_text(&is->addr6, text, sizeof(text)));
	}
	diff_free(&d);
	return CLI_OK;
}

/* Who would be refused while @node, which goes or moves, is still there; NULL: nobody. */
static const char *who_waits(const struct compare *c, const struct flt_node_info *node)
{
	const struct config_local *local = &c->wanted->local;
	size_t i;

	if (!strcmp(local->name, node->name) || address_equal(&node->addr, &local->addr4) ||
	    address_equal(&node->addr, &local->addr6))
		return local->name;
	for (i = 0; i < c->wanted->nr_nodes; i++)
		if (strcmp(c->wanted->nodes[i].info.name, node->name) &&
		    address_equal(&c->wanted->nodes[i].info.addr, &node->addr))
			return c->wanted->nodes[i].info.name;
	return NULL;
}

/* The difference of a node's keys; a file that holds another key than the one that is used is one, too. */
static int diff_key(struct compare *c, struct diff *d, const struct config_node *was, const struct config_node *is)
{
	int32_t serial = 0;
	int status = CLI_OK;

	if (is->key[0])
		status = value_key(c->cli, is->key, false, &serial);
	if (status || is->info.auth != FLT_AUTH_PSK)
		return status;
	if (was->info.auth != FLT_AUTH_PSK)
		diff_text(d, "key", "", is->key);
	else if (serial != was->info.key)
		diff_text(d, "key", was->key, is->key);
	return CLI_OK;
}

static int diff_node(struct compare *c, struct diff *d, const struct config_node *was, const struct config_node *is)
{
	/* There is no word for none; its own address is the same. */
	const struct sockaddr_storage *forward[2] = {
		was->info.fwd_addr.ss_family ? &was->info.fwd_addr : &was->info.addr,
		is->info.fwd_addr.ss_family ? &is->info.fwd_addr : &is->info.addr,
	};

	diff_number(d, "weight", was->info.weight, is->info.weight);
	diff_word(d, "role", &node_roles, was->info.role, is->info.role);
	diff_word(d, "admin", &node_admins, was->info.admin, is->info.admin);
	diff_word(d, "forward", &forwards, was->info.forward, is->info.forward);
	if (was->info.fwd_addr.ss_family || is->info.fwd_addr.ss_family)
		diff_address(d, "forward-address", forward[0], forward[1]);
	diff_word(d, "auth", &auths, was->info.auth, is->info.auth);
	return diff_key(c, d, was, is);
}

static int node_set(struct compare *c, const struct config_node *was, const struct config_node *is)
{
	struct change *change;
	struct diff d;
	int status;

	diff_begin(&d);
	status = diff_node(c, &d, was, is);
	diff_end(&d);
	if (!status && d.nr) {
		change = add_change(c, '~', PHASE_NODE, is->place);
		change->text = text_of("node %s %s%s", is->info.name, d.text, was->info.auth == is->info.auth ? "" :
				       ": its link is set up anew");
		change->commands[0] = text_of("node set %s%s", is->info.name, d.words);
	}
	diff_free(&d);
	return status;
}

/* Its address is what a node is known by: another one is another node. */
static int node_move(struct compare *c, const struct config_node *was, const struct config_node *is)
{
	struct change *change;
	struct diff d;
	int status;

	diff_begin(&d);
	diff_address(&d, "address", &was->info.addr, &is->info.addr);
	diff_number(&d, "port", address_port(&was->info.addr), address_port(&is->info.addr));
	status = diff_node(c, &d, was, is);
	diff_end(&d);
	if (!status) {
		change = add_change(c, '~', PHASE_NODE, is->place);
		change->text = text_of("node %s %s: it is removed and added again, its connections are reset",
				       is->info.name, d.text);
		change->commands[0] = text_of("node del %s", is->info.name);
		change->commands[1] = with_words("node add", node_words(is));
		change->undo = with_words("node add", node_words(was));
		if (who_waits(c, &was->info)) {
			change->early = change->commands[0];
			change->commands[0] = NULL;
		}
	}
	diff_free(&d);
	return status;
}

static int node_new(struct compare *c, const struct config_node *is)
{
	struct change *change;
	int32_t serial;
	int status = CLI_OK;

	/* A file that is missing or no key at all is found out now. */
	if (is->key[0])
		status = value_key(c->cli, is->key, false, &serial);
	if (status)
		return status;
	change = add_change(c, '+', PHASE_NODE, is->place);
	change->text = with_words("node", node_words(is));
	change->commands[0] = with_words("node add", node_words(is));
	return CLI_OK;
}

static int node_gone(struct compare *c, const struct config_node *was)
{
	const char *waits = who_waits(c, &was->info);
	struct change *change;

	if (c->keep && !waits)
		return CLI_OK;
	if (c->keep) {
		config_place(c->cli, c->wanted, "");
		cli_doing(c->cli, "keep node %s", was->info.name);
		return cli_fail(c->cli, "%s has its name or address in the file", waits);
	}
	change = add_change(c, '-', waits ? PHASE_EARLY : PHASE_REMOVE, "");
	change->text = with_words("node", node_words(was));
	change->commands[0] = text_of("node del %s", was->info.name);
	return CLI_OK;
}

static int compare_nodes(struct compare *c)
{
	int status = CLI_OK;
	size_t i;

	for (i = 0; i < c->wanted->nr_nodes && !status; i++) {
		const struct config_node *is = &c->wanted->nodes[i];
		const struct config_node *was = config_node_find(c->live, is->info.name);

		config_place(c->cli, c->wanted, is->place);
		cli_doing(c->cli, "use node %s", is->info.name);
		if (!was)
			status = node_new(c, is);
		else if (!address_equal(&was->info.addr, &is->info.addr) ||
			 address_port(&was->info.addr) != address_port(&is->info.addr))
			status = node_move(c, was, is);
		else
			status = node_set(c, was, is);
	}
	for (i = 0; i < c->live->nr_nodes && !status; i++)
		if (!config_node_find(c->wanted, c->live->nodes[i].info.name))
			status = node_gone(c, &c->live->nodes[i]);
	c->cli->doing[0] = '\0';
	return status;
}

static void compare_services(struct compare *c)
{
	struct change *change;
	size_t i;

	for (i = 0; i < c->wanted->nr_services; i++) {
		const struct config_service *is = &c->wanted->services[i];

		if (config_service_has(c->live, &is->addr))
			continue;
		change = add_change(c, '+', PHASE_SERVICE, is->place);
		change->text = with_words("service", service_words(&is->addr));
		change->commands[0] = with_words("service add", service_words(&is->addr));
	}
	for (i = 0; i < c->live->nr_services && !c->keep; i++) {
		const struct config_service *was = &c->live->services[i];

		if (config_service_has(c->wanted, &was->addr))
			continue;
		change = add_change(c, '-', PHASE_REMOVE, "");
		change->text = with_words("service", service_words(&was->addr));
		change->commands[0] = with_words("service del", service_words(&was->addr));
	}
}

static void diff_flag(struct diff *d, const char *key, uint32_t was, uint32_t is, uint32_t flag)
{
	diff_text(d, key, was & flag ? "on" : "off", is & flag ? "on" : "off");
}

static void export_set(struct compare *c, const struct config_export *was, const struct config_export *is)
{
	struct change *change;
	struct diff d, modes;

	diff_begin(&d);
	diff_text(&d, "device", was->device, is->device);
	diff_text(&d, "nodes", was->nodes, is->nodes);
	diff_flag(&d, "write", was->flags, is->flags, CARD_FLAG_WRITE);
	diff_flag(&d, "shared", was->flags, is->flags, CARD_FLAG_SHARED);
	diff_flag(&d, "unclaimed", was->flags, is->flags, CARD_FLAG_UNCLAIMED);
	diff_text(&d, "mount", was->mount, is->mount);
	diff_text(&d, "policy", was->policy, is->policy);
	diff_text(&d, "uuid", was->uuid, is->uuid);
	diff_end(&d);
	diff_begin(&modes);
	diff_word(&modes, "serve", &card_serves, was->serve, is->serve);
	diff_word(&modes, "deliver", &card_delivers, was->deliver, is->deliver);
	diff_end(&modes);
	if (d.nr) {
		change = add_change(c, '~', PHASE_EXPORT, is->place);
		change->text = text_of("export %s %s%s%s: it is ended and offered again, who has it waits meanwhile", is->name,
				       d.text, modes.nr ? ", " : "", modes.text);
		change->commands[0] = text_of("card unexport %s", is->name);
		change->commands[1] = with_words("card export", export_words(is));
		change->undo = with_words("card export", export_words(was));
	} else if (modes.nr) {
		change = add_change(c, '~', PHASE_EXPORT, is->place);
		change->text = text_of("export %s %s", is->name, modes.text);
		change->commands[0] = text_of("card set %s%s", is->name, modes.words);
	}
	diff_free(&d);
	diff_free(&modes);
}

static bool device_is_wanted(const struct config *wanted, const char *device)
{
	size_t i;

	for (i = 0; i < wanted->nr_exports; i++)
		if (!strcmp(wanted->exports[i].device, device))
			return true;
	return false;
}

static int compare_exports(struct compare *c)
{
	struct change *change;
	size_t i;

	if (c->wanted->nr_exports && c->live->no_card) {
		config_place(c->cli, c->wanted, c->wanted->exports[0].place);
		return cli_fail(c->cli, "card.ko is not loaded: modprobe card");
	}
	for (i = 0; i < c->wanted->nr_exports; i++) {
		const struct config_export *is = &c->wanted->exports[i];
		const struct config_export *was = config_export_find(c->live, is->name);

		if (was) {
			export_set(c, was, is);
			continue;
		}
		change = add_change(c, '+', PHASE_EXPORT, is->place);
		change->text = with_words("export", export_words(is));
		change->commands[0] = with_words("card export", export_words(is));
	}
	for (i = 0; i < c->live->nr_exports && !c->keep; i++) {
		const struct config_export *was = &c->live->exports[i];

		if (config_export_find(c->wanted, was->name))
			continue;
		/* It claims a disk that another one is to have. */
		change = add_change(c, '-', device_is_wanted(c->wanted, was->device) ? PHASE_EARLY : PHASE_REMOVE, "");
		change->text = with_words("export", export_words(was));
		change->commands[0] = text_of("card unexport %s", was->name);
	}
	return CLI_OK;
}

int config_compare(struct cli *cli, const struct config *live, const struct config *wanted, bool keep,
		   struct changes *changes)
{
	struct compare c = { .cli = cli, .live = live, .wanted = wanted, .keep = keep, .changes = changes };
	int status;

	cli->doing[0] = '\0';
	status = compare_settings(&c);
	if (!status)
		status = check_limits(&c);
	if (!status)
		status = compare_local(&c);
	/* Before the services and the nodes that they speak of. */
	if (!status)
		compare_rules_gone(&c);
	if (!status)
		compare_services(&c);
	if (!status)
		status = compare_nodes(&c);
	if (!status)
		status = compare_rules(&c);
	if (!status)
		status = compare_exports(&c);
	/* Nothing of what cannot be whole is a plan. */
	if (status)
		changes_free(changes);
	cli->place[0] = '\0';
	cli->doing[0] = '\0';
	return status;
}
