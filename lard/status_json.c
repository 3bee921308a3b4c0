// SPDX-License-Identifier: GPL-2.0
/* The snapshot as JSON. */
#include <jansson.h>
#include "nodes.h"
#include "status_now.h"

static json_t *number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *counted(uint64_t total, double rate)
{
	return json_pack("{s:I, s:f}", "total", (json_int_t)total, "rate", rate);
}

static json_t *counters(const struct status_now *now)
{
	json_t *all = json_object();
	unsigned int i;

	for (i = 0; i < COUNTERS; i++)
		json_object_set_new(all, counter_names[i], counted(now->counters[i], now->rates[i]));
	return all;
}

static json_t *reasons(const struct status_now *now)
{
	json_t *all = json_object();
	unsigned int i;

	for (i = 0; i < LARD_REASONS; i++)
		json_object_set_new(all, lard_reason_name(i),
				    counted(now->reasons[i], now->reason_rates[i]));
	return all;
}

static json_t *responses(const struct status_now *now)
{
	json_t *all = json_object();
	unsigned int i;

	for (i = 0; i < TALLY_CODES; i++)
		json_object_set_new(all, (char []){ '1' + i, 'x', 'x', '\0' },
				    counted(now->codes[i], now->code_rates[i]));
	return all;
}

static json_t *connections(const struct status_now *now)
{
	json_t *all = json_object();
	unsigned int i;

	for (i = CONN_SHAKE; i < CONN_STATES; i++)
		json_object_set_new(all, conn_state_names[i], number(now->connections[i]));
	return all;
}

static json_t *latency(const struct status_now *now)
{
	json_t *all = json_object();
	unsigned int i;

	for (i = 0; i < OUTCOMES; i++) {
		const struct status_latency *l = &now->latency[i];

		json_object_set_new(all, outcome_names[i],
				    json_pack("{s:I, s:f, s:f, s:f, s:f}",
					      "requests", (json_int_t)l->count, "mean", l->mean,
					      "p50", l->p50, "p95", l->p95, "p99", l->p99));
	}
	return all;
}

static json_t *nodes(const struct status_now *now)
{
	json_t *all = json_array();
	unsigned int i;

	for (i = 0; i < LARD_MAX_NODES; i++) {
		const struct status_node *n = &now->nodes[i];

		if (!n->used)
			continue;
		json_array_append_new(all, json_pack(
			"{s:s, s:s, s:s, s:s, s:s, s:b, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f}",
			"name", n->name, "address", n->address, "state", n->up ? "up" : "down",
			"why", n->why, "admin", node_admin_names[n->admin],
			"eligible", n->eligible, "mode", n->handoff ? "handoff" : "proxy",
			"load", (json_int_t)n->load, "load_others", (json_int_t)n->others,
			"t_low", (json_int_t)n->low,
			"t_high", (json_int_t)n->high, "weight", (json_int_t)n->weight,
			"chosen", (json_int_t)n->chosen, "rate", n->rate));
	}
	return all;
}

static json_t *front_ends(const struct status_now *now)
{
	json_t *all = json_array();
	unsigned int i;

	for (i = 0; i < now->front_end_count; i++) {
		const struct share_peer *f = &now->front_ends[i];

		json_array_append_new(all, json_pack("{s:s, s:b, s:f, s:I}", "address", f->address,
						     "heard", f->heard, "silent", f->silent,
						     "load", (json_int_t)f->load));
	}
	return all;
}

static json_t *targets(const struct status_now *now)
{
	json_t *all = json_array(), *names;
	uint64_t set;
	unsigned int i;

	for (i = 0; i < now->target_count; i++) {
		names = json_array();
		for (set = now->targets[i].nodes; set; set &= set - 1)
			json_array_append_new(names, json_string(
				now->nodes[__builtin_ctzll(set)].name));
		json_array_append_new(all, json_pack("{s:s, s:I, s:o}", "target", now->targets[i].text,
						     "requests", (json_int_t)now->targets[i].count,
						     "nodes", names));
	}
	return all;
}

static json_t *graph(const struct status_now *now)
{
	json_t *all = json_array();
	unsigned int i;

	for (i = 0; i < now->history; i++)
		json_array_append_new(all, json_real(now->requests[i]));
	return all;
}

static json_t *card(const struct status_now *now)
{
	json_t *all = json_object();
	unsigned int i;

	for (i = 0; i < CARD_COUNTERS; i++)
		json_object_set_new(all, card_counter_names[i],
				    counted(now->card.counts[i], now->card_rates[i]));
	return all;
}

static void set(json_t *all, const char *name, json_t *value)
{
	json_object_set_new(all, name, value);
}

char *status_json_text(const struct status_now *now)
{
	json_t *all = json_pack("{s:s, s:s, s:s, s:f, s:I, s:I, s:s}", "version", FLT_VERSION,
				"mode", now->mode, "mode_why", now->mode_why, "uptime", now->uptime,
				"workers", (json_int_t)now->workers,
				"watchers", (json_int_t)now->watchers, "policy", now->policy);
	char *text;

	set(all, "t_low", number(now->t_low));
	set(all, "t_high", number(now->t_high));
	set(all, "outstanding", number(now->outstanding));
	set(all, "outstanding_others", number(now->others));
	set(all, "limit", number(now->limit));
	set(all, "waiting", number(now->waiting));
	set(all, "nodes_eligible", number(now->nodes_eligible));
	set(all, "nodes", nodes(now));
	set(all, "front_ends", front_ends(now));
	set(all, "counters", counters(now));
	set(all, "decisions", reasons(now));
	set(all, "responses", responses(now));
	set(all, "connections", connections(now));
	set(all, "client_addresses", number(now->client_addresses));
	set(all, "latency", latency(now));
	set(all, "cache", json_pack("{s:I, s:I, s:I, s:I, s:I}", "kernel_sites",
				    (json_int_t)now->kernel_sites, "entries", (json_int_t)now->cache.entries,
				    "bytes", (json_int_t)now->cache.bytes,
				    "limit", (json_int_t)now->cache.limit,
				    "evictions", (json_int_t)now->cache.evictions));
	if (now->card.there)
		set(all, "card", card(now));
	set(all, "table", json_pack("{s:I, s:I, s:I}", "used", (json_int_t)now->table.used,
				    "capacity", (json_int_t)now->table.capacity,
				    "evictions", (json_int_t)now->table.evictions));
	set(all, "targets", targets(now));
	set(all, "requests_per_second", graph(now));
	text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(9));
	json_decref(all);
	return text;
}
