// SPDX-License-Identifier: GPL-2.0
/* Looks at the kernel and at lardd, and what happened between two of them. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "counter.h"
#include "dispatcher.h"
#include "top.h"

#define ANSWER_SECONDS	1
/* lardd has fewer; who has taken its place is looked at no longer. */
#define COUNTERS_MAX	1024

static int keep_stat(const char *room, const char *name, uint64_t value, void *arg)
{
	return samples_add(arg, room, name, value, false);
}

static int keep_node(const struct flt_node_info *node, void *arg)
{
	return node_list_add(arg, node);
}

static json_t *ask(const char *path, const char *what)
{
	json_t *request = json_pack("{s:s}", "cmd", what), *answer;
	struct cli silent = { .quiet = true };

	answer = dispatcher_ask(&silent, path, request, ANSWER_SECONDS);
	json_decref(request);
	return answer;
}

static void take_dispatcher(struct look *look, const char *path)
{
	json_t *stats, *nodes = NULL;
	const json_t *value;
	const char *name;
	size_t nr = 0;

	look->dispatcher = ask(path, "status");
	stats = look->dispatcher ? ask(path, "stats") : NULL;
	if (stats)
		nodes = ask(path, "nodes");
	json_object_foreach(json_object_get(stats, "counters"), name, value)
		if (nr++ < COUNTERS_MAX)
			keep_stat("lardd", name, json_integer_value(value), &look->samples);
	look->dispatcher_nodes = json_incref(json_object_get(nodes, "nodes"));
	json_decref(stats);
	json_decref(nodes);
}

/* A client knows the family from before, so that asking does not load the module again. */
static void take_kernel(struct look *look, struct flt_client **client)
{
	if (!*client && (!module_is_loaded("flotilla") || flt_client_open(client)))
		return;
	look->has_kernel = !flt_stats_each(*client, keep_stat, &look->samples) &&
			   !flt_node_each(*client, keep_node, &look->nodes);
	if (look->has_kernel)
		return;
	flt_client_close(*client);
	*client = NULL;
	samples_free(&look->samples);
	node_list_free(&look->nodes);
}

bool look_take(struct look *look, struct flt_client **client, const char *path)
{
	struct timespec now;

	*look = (struct look){ 0 };
	take_kernel(look, client);
	iolite_counters_each(keep_stat, &look->samples);
	clock_gettime(CLOCK_MONOTONIC, &now);
	look->at = now.tv_sec + now.tv_nsec / 1e9;
	take_dispatcher(look, path);
	return look->has_kernel || look->samples.nr || look->dispatcher;
}

void look_free(struct look *look)
{
	samples_free(&look->samples);
	node_list_free(&look->nodes);
	json_decref(look->dispatcher);
	json_decref(look->dispatcher_nodes);
	*look = (struct look){ 0 };
}

/* What has begun anew since has counted from 0. */
static double rate_of(uint64_t before, uint64_t after, double seconds)
{
	return seconds > 0 ? (after >= before ? after - before : after) / seconds : 0;
}

/* -1: it was not there. Both looks have the same order as long as no module comes or goes. */
static ssize_t find(const struct samples *samples, const char *room, const char *name, size_t near)
{
	size_t i;

	if (near < samples->nr && !strcmp(samples->at[near].name, name) &&
	    !strcmp(samples->at[near].room, room))
		return near;
	for (i = 0; i < samples->nr; i++)
		if (!strcmp(samples->at[i].name, name) && !strcmp(samples->at[i].room, room))
			return i;
	return -1;
}

static double seconds_between(const struct look *before, const struct look *after)
{
	return before ? after->at - before->at : 0;
}

static double sample_rate(const struct look *before, const struct look *after, size_t i)
{
	const struct sample *s = &after->samples.at[i];
	ssize_t was = before ? find(&before->samples, s->room, s->name, i) : -1;

	return was < 0 ? 0 : rate_of(before->samples.at[was].value, s->value,
				     seconds_between(before, after));
}

static double rate_named(const struct look *before, const struct look *after, const char *room,
			 const char *name)
{
	ssize_t i = find(&after->samples, room, name, 0);

	return i < 0 ? 0 : sample_rate(before, after, i);
}

static bool is_refusal(const struct sample *s)
{
	static const char *const others[] = {
		"LardBadRequest", "LardTooLarge", "LardTimedOut", "LardUnavailable",
		"LardBadGateway", "LardHandoffFailed", "CardDenied", "ForwardStranger",
		"OriginForged",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(others); i++)
		if (!strcmp(s->name, others[i]))
			return true;
	return strstr(s->name, "Refused");
}

/* Three lists, in the kernel's order: what counts, what was refused, and what is at this moment. */
static void put_samples(json_t *top, const struct look *before, const struct look *after,
			const char *room)
{
	json_t *counters = json_array(), *refused = json_array(), *gauges = json_array();
	size_t i;

	for (i = 0; i < after->samples.nr; i++) {
		const struct sample *s = &after->samples.at[i];
		enum metric_kind kind = metric_kind(s);

		if ((room && strcmp(room, s->room)) || kind == METRIC_HISTOGRAM || !s->value)
			continue;
		if (kind == METRIC_GAUGE)
			json_array_append_new(gauges, json_pack("{s:s, s:s, s:I}", "room", s->room,
								"name", s->name, "value",
								(json_int_t)s->value));
		else
			json_array_append_new(is_refusal(s) ? refused : counters,
					      json_pack("{s:s, s:s, s:f, s:I}", "room", s->room,
							"name", s->name, "rate",
							sample_rate(before, after, i), "total",
							(json_int_t)s->value));
	}
	json_object_set_new(top, "refused", refused);
	json_object_set_new(top, "counters", counters);
	json_object_set_new(top, "gauges", gauges);
}

/* Of the handoffs since the look before, in seconds. */
static double handoff_seconds(const struct look *before, const struct look *after)
{
	double count = 0, time = rate_named(before, after, "handoff", "HandoffUsecSum");
	size_t i;

	for (i = 0; i < after->samples.nr; i++)
		if (!strncmp(after->samples.at[i].name, "HandoffUsec", 11) &&
		    strcmp(after->samples.at[i].name, "HandoffUsecSum"))
			count += sample_rate(before, after, i);
	return count > 0 ? time / count / 1e6 : 0;
}

static void put_rates(json_t *top, const struct look *before, const struct look *after)
{
	static const struct {
		const char *key, *room, *name;
	} rates[] = {
		{ "accepted", "lardd", "LardAccepted" },
		{ "requests", "lardd", "LardRequests" },
		{ "proxied", "lardd", "LardProxied" },
		{ "handed_off", "handoff", "HandoffDone" },
		{ "adopted", "handoff", "AdoptCommitted" },
		{ "forwarded_packets", "handoff", "ForwardPackets" },
		{ "kernel_answers", "afpa", "AfpaHits" },
		{ "remote_reads", "card", "CardReads" },
	};
	json_t *all = json_object();
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rates); i++)
		json_object_set_new(all, rates[i].key,
				    json_real(rate_named(before, after, rates[i].room,
							 rates[i].name)));
	json_object_set_new(all, "handoff_seconds", json_real(handoff_seconds(before, after)));
	json_object_set_new(top, "rates", all);
}

static const char *name_of(const json_t *node)
{
	return json_string_value(json_object_get(node, "name"));
}

/* lardd's nodes by their names: it may have many, and name as many as it likes. To be given back. */
static json_t *by_name(const struct look *look)
{
	json_t *nodes = json_object(), *node;
	size_t i;

	if (look)
		json_array_foreach(look->dispatcher_nodes, i, node)
			if (name_of(node) && !json_object_get(nodes, name_of(node)))
				json_object_set(nodes, name_of(node), node);
	return nodes;
}

static json_int_t number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* What lardd knows of a node besides. */
static void put_dispatched(json_t *row, const json_t *node, const json_t *was, double seconds)
{

	json_object_set_new(row, "load", json_integer(number(node, "load")));
	json_object_set_new(row, "t_high", json_integer(number(node, "t_high")));
	json_object_set_new(row, "requests_rate",
			    json_real(was ? rate_of(number(was, "chosen"), number(node, "chosen"),
						    seconds) : 0));
}

/* A name that somebody gave a node otherwise than with this program may be no text. */
static const char *as_text(const char *name, char *text, size_t size)
{
	size_t n = 0;

	for (; *name && n + 5 < size; name++)
		n += sprintf(text + n, *name & 0x80 ? "\\x%02x" : "%c", (unsigned char)*name);
	text[n] = '\0';
	return text;
}

static void put_nodes(json_t *top, const struct look *before, const struct look *after)
{
	double seconds = seconds_between(before, after);
	json_t *rows = json_array(), *row, *was = by_name(before), *is = by_name(after), *node;
	char text[4 * FLT_NAME_MAX + 6], reason[262];
	const char *name;
	size_t i;

	/* Those that are not the kernel's stay in it. */
	for (i = 0; i < after->nodes.nr; i++) {
		const struct flt_node_info *info = &after->nodes.at[i];

		as_text(info->name, text, sizeof(text));
		row = json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:f, s:s}", "node", text,
				"state", word_of(&node_states, info->state),
				"role", word_of(&node_roles, info->role),
				"admin", word_of(&node_admins, info->admin), "load", info->load,
				"weight", info->weight, "rtt_seconds", info->rtt_us / 1e6,
				"reason", as_text(info->reason, reason, sizeof(reason)));
		node = json_object_get(is, text);
		if (node)
			put_dispatched(row, node, json_object_get(was, text), seconds);
		json_object_del(is, text);
		json_array_append_new(rows, row);
	}
	json_object_foreach(is, name, node) {
		row = json_object();
		json_object_set_new(row, "node", json_string(name));
		json_object_set(row, "state", json_object_get(node, "state"));
		json_object_set(row, "admin", json_object_get(node, "admin"));
		json_object_set_new(row, "weight", json_integer(number(node, "weight")));
		put_dispatched(row, node, json_object_get(was, name), seconds);
		json_array_append_new(rows, row);
	}
	json_decref(was);
	json_decref(is);
	json_object_set_new(top, "nodes", rows);
}

json_t *look_compare(const struct look *before, const struct look *after, const char *room)
{
	json_t *top = json_object();
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	json_object_set_new(top, "time", json_real(now.tv_sec + now.tv_nsec / 1000000 / 1e3));
	json_object_set_new(top, "seconds", json_real(seconds_between(before, after)));
	json_object_set_new(top, "kernel", json_boolean(after->has_kernel));
	json_object_set(top, "dispatcher", after->dispatcher ? after->dispatcher : json_null());
	put_rates(top, before, after);
	put_nodes(top, before, after);
	put_samples(top, before, after, room);
	return top;
}
