// SPDX-License-Identifier: GPL-2.0
/*
 * flotilla doctor: what this node's packet filter does with packets of services. Only nft can read all rules, and only
 * what is plain in them is judged: a chain that drops what no rule lets in, and rules that drop connections which are
 * seen from their middle on, as all are that were given to this node.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "doctor.h"
#include "machine.h"

/* Without what named sets hold: that may be every address of a country, and is not looked at. */
#define LIST_RULES "PATH=/usr/sbin:/usr/bin:/sbin:/bin nft -j -t list ruleset 2>/dev/null"

static const char *text(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value ? value : "";
}

static json_t *rules_of_machine(void)
{
	json_t *all, *list;
	FILE *f;

	if (geteuid() || !machine_has_program("nft"))
		return NULL;
	f = popen(LIST_RULES, "re");
	if (!f)
		return NULL;
	all = json_loadf(f, 0, NULL);
	pclose(f);
	list = json_incref(json_object_get(all, "nftables"));
	json_decref(all);
	return list;
}

/* "new" in "new", in [ "new", "related" ], or in a set of these; what has to be looked up holds everything. */
static bool holds(const json_t *right, const char *word, int number)
{
	const json_t *range = json_object_get(right, "range"), *set = json_object_get(right, "set");
	size_t i;

	if (json_is_string(right))
		return json_string_value(right)[0] == '@' || (word && !strcmp(json_string_value(right), word));
	if (json_is_integer(right))
		return !word && json_integer_value(right) == number;
	if (range)
		return !word && number >= json_integer_value(json_array_get(range, 0)) &&
		       number <= json_integer_value(json_array_get(range, 1));
	if (set)
		return holds(set, word, number);
	for (i = 0; i < json_array_size(right); i++)
		if (holds(json_array_get(right, i), word, number))
			return true;
	return false;
}

static bool is_match(const json_t *statement, const char *kind, const char *key, const char *name)
{
	const json_t *left = json_object_get(json_object_get(statement, "match"), "left");
	const json_t *masked = json_array_get(json_object_get(left, "&"), 0);

	return !strcmp(text(json_object_get(masked ? masked : left, kind), key), name);
}

static bool has(const json_t *rule, const char *what)
{
	const json_t *expr = json_object_get(rule, "expr");
	size_t i;

	for (i = 0; i < json_array_size(expr); i++)
		if (json_object_get(json_array_get(expr, i), what))
			return true;
	return false;
}

/* Is one condition of the rule such that it may hold for the first packet here of a connection to the port? */
static bool may_hold(const json_t *statement, int port)
{
	const json_t *match = json_object_get(statement, "match"), *right = json_object_get(match, "right");
	bool is = strcmp(text(match, "op"), "!=");

	if (!match)
		return true;
	if (is_match(statement, "payload", "field", "dport"))
		return !is_match(statement, "payload", "protocol", "udp") && holds(right, NULL, port) == is;
	if (is_match(statement, "ct", "key", "state"))
		return holds(right, "new", 0) || holds(right, "untracked", 0);
	if (is_match(statement, "meta", "key", "iif") || is_match(statement, "meta", "key", "iifname"))
		return holds(right, "lo", 0) != is;
	if (is_match(statement, "meta", "key", "l4proto") || is_match(statement, "payload", "field", "protocol"))
		return (holds(right, "tcp", 0) || holds(right, NULL, 6)) == is;
	return true;
}

static bool lets_in(const json_t *rule, int port)
{
	const json_t *expr = json_object_get(rule, "expr");
	size_t i;

	if (!has(rule, "accept") && !has(rule, "vmap"))
		return false;
	for (i = 0; i < json_array_size(expr); i++)
		if (!may_hold(json_array_get(expr, i), port))
			return false;
	return true;
}

static bool is_in_table(const json_t *rule, const json_t *chain)
{
	return !strcmp(text(rule, "table"), text(chain, "table")) && !strcmp(text(rule, "family"), text(chain, "family"));
}

/* A rule of any chain of the table: which jumps lead to it is not looked at. */
static bool table_lets_in(const json_t *list, const json_t *chain, int port)
{
	size_t i;

	for (i = 0; i < json_array_size(list); i++) {
		const json_t *rule = json_object_get(json_array_get(list, i), "rule");

		if (rule && is_in_table(rule, chain) && lets_in(rule, port))
			return true;
	}
	return false;
}

static void look_at_chain(struct doctor *d, const json_t *list, const json_t *chain, int port)
{
	struct about about = { "", "" };

	if (table_lets_in(list, chain, port))
		return;
	doctor_found(&about, "chain %s of table %s %s drops what no rule accepts, and none accepts TCP port %d",
		     text(chain, "name"), text(chain, "family"), text(chain, "table"), port);
	doctor_mend(&about, "nft insert rule %s %s %s tcp dport %d accept", text(chain, "family"), text(chain, "table"),
		    text(chain, "name"), port);
	doctor_say(d, FAULT, "firewall", &about);
}

static bool sees_ip(const json_t *chain)
{
	const char *family = text(chain, "family"), *hook = text(chain, "hook");

	return (!strcmp(family, "inet") || !strcmp(family, "ip")) && !strcmp(text(chain, "policy"), "drop") &&
	       (!strcmp(hook, "input") || !strcmp(hook, "prerouting"));
}

/* New connections that do not begin with a SYN. */
static bool drops_the_middle(const json_t *rule)
{
	const json_t *expr = json_object_get(rule, "expr");
	bool state = false, flags = false;
	size_t i;

	for (i = 0; i < json_array_size(expr); i++) {
		const json_t *statement = json_array_get(expr, i);
		const json_t *right = json_object_get(json_object_get(statement, "match"), "right");

		state |= is_match(statement, "ct", "key", "state") && holds(right, "new", 0);
		flags |= is_match(statement, "payload", "field", "flags");
	}
	return state && flags && (has(rule, "drop") || has(rule, "reject"));
}

static void look_at_middles(struct doctor *d, const json_t *rule)
{
	struct about about = { "", "" };

	doctor_found(&about, "chain %s of table %s %s drops new connections without a SYN, as all are that are taken",
		     text(rule, "chain"), text(rule, "family"), text(rule, "table"));
	doctor_mend(&about, "nft delete rule %s %s %s handle %" JSON_INTEGER_FORMAT, text(rule, "family"),
		    text(rule, "table"), text(rule, "chain"), json_integer_value(json_object_get(rule, "handle")));
	doctor_say(d, FAULT, "firewall", &about);
}

static void look_at_rules(struct doctor *d, const json_t *list)
{
	bool tracked = true;
	size_t i;

	for (i = 0; i < json_array_size(list); i++)
		if (has(json_object_get(json_array_get(list, i), "rule"), "notrack"))
			tracked = false;
	for (i = 0; i < json_array_size(list) && tracked; i++) {
		const json_t *rule = json_object_get(json_array_get(list, i), "rule");

		if (rule && drops_the_middle(rule))
			look_at_middles(d, rule);
	}
}

void doctor_filter(struct doctor *d)
{
	struct about none = { "no rule of its packet filter stands in the way of a service", "" };
	unsigned int faults = d->count[FAULT];
	json_t *list = rules_of_machine();
	size_t i, k;

	if (!list)
		return;
	for (i = 0; i < json_array_size(list); i++) {
		const json_t *chain = json_object_get(json_array_get(list, i), "chain");

		if (!chain || !sees_ip(chain))
			continue;
		for (k = 0; k < d->nr_services; k++)
			if (address_port(&d->services[k]))
				look_at_chain(d, list, chain, address_port(&d->services[k]));
		if (d->nr_nodes)
			look_at_chain(d, list, chain, d->local.addr.ss_family && address_port(&d->local.addr) ?
				      address_port(&d->local.addr) : FLT_LINK_PORT);
	}
	if (doctor_is_backend(d))
		look_at_rules(d, list);
	if (d->count[FAULT] == faults && json_array_size(list) > 1)
		doctor_say(d, FINE, "firewall", &none);
	json_decref(list);
}
