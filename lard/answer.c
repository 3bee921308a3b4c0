// SPDX-License-Identifier: GPL-2.0
/* What the control socket answers. */
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cache.h"
#include "cache_key.h"
#include "cacheable.h"
#include "caching.h"
#include "control.h"
#include "crowd.h"
#include "dispatch.h"
#include "early.h"
#include "floor.h"
#include "lardd.h"
#include "page.h"
#include "share.h"
#include "status.h"
#include "url.h"
#include "worker.h"

/* Takes the reference over; to be freed. */
static char *json_line(json_t *json)
{
	char *text = json_dumps(json, JSON_COMPACT);

	json_decref(json);
	return text;
}

/* JSON is UTF-8. What was cut need not be: then its bytes above ASCII are not told, rather than nothing at all. */
static json_t *text_json(char *text)
{
	json_t *json = json_string(text);
	char *c;

	for (c = text; !json && *c; c++)
		if (*c & 0x80)
			*c = '?';
	return json ? json : json_string(text);
}

__attribute__((format(printf, 1, 2)))
static json_t *sorry(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return json_pack("{s:o}", "error", text_json(text));
}

static json_t *params_json(const struct lard_params *p, uint32_t limit)
{
	return json_pack("{s:s, s:I, s:I, s:f, s:I, s:b, s:I, s:f}",
			 "policy", lard_policy_name(p->policy),
			 "t_low", (json_int_t)p->t_low, "t_high", (json_int_t)p->t_high,
			 "replication_seconds", p->replication_us / 1e6,
			 "max_outstanding", (json_int_t)limit,
			 "max_outstanding_auto", !p->max_outstanding,
			 "load_bound", (json_int_t)p->bound_percent,
			 "slow_start_seconds", p->slow_start_us / 1e6);
}

static json_t *connections_json(struct lardd *lardd)
{
	json_t *states = json_object();
	unsigned int state;

	for (state = CONN_SHAKE; state < CONN_STATES; state++)
		json_object_set_new(states, conn_state_names[state],
				    json_integer(workers_live(lardd, state)));
	return states;
}

static json_t *listeners_json(const struct config *config)
{
	json_t *all = json_array();
	char text[ADDRESS_TEXT];
	unsigned int i;

	for (i = 0; i < config->listens; i++)
		json_array_append_new(all, json_string(address_text(&config->listen[i], text,
								    sizeof(text))));
	return all;
}

static json_t *cache_json(struct lardd *lardd)
{
	struct kernel_cache_info kernel;
	struct cache_info info;

	cache_get_info(lardd->cache, &info);
	kernel_cache_get_info(lardd->kernel, &kernel);
	return json_pack("{s:I, s:I, s:I, s:I, s:s, s:I, s:s}", "entries", (json_int_t)info.entries,
			 "bytes", (json_int_t)info.bytes, "limit", (json_int_t)info.limit,
			 "evictions", (json_int_t)info.evictions,
			 "kernel", kernel.on ? "on" : "off", "kernel_sites", (json_int_t)kernel.sites,
			 "kernel_why", kernel.why ? kernel.why : "");
}

static json_t *answer_status(struct lardd *lardd, const json_t *request)
{
	struct worker *w = lardd->worker[0];
	struct lard_params params;
	uint32_t outstanding, others, limit;
	unsigned int nodes;
	json_t *answer;

	(void)request;
	pthread_mutex_lock(&lardd->lock);
	params = *lard_get_params(lardd->engine);
	outstanding = lard_outstanding(lardd->engine);
	others = lard_outstanding_others(lardd->engine);
	limit = lard_limit(lardd->engine);
	nodes = lard_nodes(lardd->engine);
	pthread_mutex_unlock(&lardd->lock);
	answer = json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:f, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
			   "version", FLT_VERSION, "pid", (int)getpid(),
			   "mode", give_ready(&w->give) && w->config->mode == MODE_AUTO ?
			   "handoff" : "proxy",
			   "mode_why", lardd_mode_why(lardd),
			   "policy", lard_policy_name(params.policy),
			   "parameters_from", floor_rules(lardd->floor) ? "sysfs" : "configuration",
			   "uptime", (w->loop.now - lardd->started_us) / 1e6,
			   "events", lardd->by_uselect ? "uselect" : "epoll",
			   "workers", (json_int_t)lardd->workers,
			   "nodes", (json_int_t)nodes,
			   "outstanding", (json_int_t)outstanding,
			   "limit", (json_int_t)limit,
			   "queued", (json_int_t)lardd->waiters,
			   "tunnels", (json_int_t)lardd->tunnels,
			   "client_addresses", (json_int_t)crowd_size(lardd->crowd),
			   "reloads", (json_int_t)lardd->reloads);
	json_object_set_new(answer, "peers", json_integer(share_peers(lardd->share)));
	json_object_set_new(answer, "outstanding_others", json_integer(others));
	json_object_set_new(answer, "early", json_string(early_state(lardd)));
	json_object_set_new(answer, "listen", listeners_json(w->config));
	json_object_set_new(answer, "connections", connections_json(lardd));
	json_object_set_new(answer, "cache", cache_json(lardd));
	return answer;
}

static json_t *node_json(const struct lardd_node *node, const struct lard_node_info *info)
{
	char text[ADDRESS_TEXT] = "";

	if (node->address.any.sa_family)
		address_text(&node->address, text, sizeof(text));
	return json_pack("{s:s, s:s, s:s, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s}",
			 "name", info->name, "state", info->state == LARD_UP ? "up" : "down",
			 "admin", node_admin_names[info->admin], "eligible", info->eligible,
			 "suspended", node->suspended != 0, "weight", (json_int_t)info->weight,
			 "load", (json_int_t)info->load,
			 "load_others", (json_int_t)info->others, "t_low", (json_int_t)info->low,
			 "t_high", (json_int_t)info->high, "chosen", (json_int_t)info->chosen,
			 "id", (json_int_t)node->kernel_id, "address", text,
			 "mode", node->kernel_id ? "handoff" : "proxy");
}

static json_t *answer_nodes(struct lardd *lardd, const json_t *request)
{
	json_t *nodes = json_array();
	struct lard_node_info info;
	int slot;

	(void)request;
	pthread_mutex_lock(&lardd->lock);
	for (slot = 0; slot < LARD_MAX_NODES; slot++)
		if (lard_node_get(lardd->engine, slot, &info))
			json_array_append_new(nodes, node_json(&lardd->nodes.at[slot], &info));
	pthread_mutex_unlock(&lardd->lock);
	return json_pack("{s:o}", "nodes", nodes);
}

/* Names of a set of nodes; under the lock. */
static json_t *set_json(struct lardd *lardd, uint64_t set)
{
	json_t *names = json_array();

	for (; set; set &= set - 1)
		json_array_append_new(names, json_string(
			lardd->nodes.at[__builtin_ctzll(set)].name));
	return names;
}

/* http://HOST[:PORT]/PATH, or @host and a path, as a connection to that port in clear text would have it; no if
 * there can be no such port.
 */
static bool take_target(struct cache_target *of, const char *url, const char *host)
{
	const char *colon = NULL, *c;
	size_t digits;

	of->host = (struct span){ host, strlen(host) };
	if (*url != '/') {
		url += strlen("http://");
		of->host = (struct span){ url, strcspn(url, "/?") };
		url += of->host.len;
	}
	of->target = (struct span){ url, strlen(url) };
	of->port = 80;
	for (c = of->host.at; c < of->host.at + of->host.len; c++)
		if (*c == ':' || *c == ']')
			colon = *c == ':' ? c : NULL;
	if (!colon)
		return true;
	digits = of->host.at + of->host.len - ++colon;
	if (!digits)
		return true;
	if (digits > 5 || strspn(colon, "0123456789") < digits)
		return false;
	of->port = strtoul(colon, NULL, 10);
	return of->port >= 1 && of->port <= 65535;
}

/* What the cache has of it, or why not. */
static json_t *cached_json(struct lardd *lardd, const struct config *config, const struct cache_target *of)
{
	struct cache_said said;
	json_t *json;

	if (!config->cache_size)
		return json_null();
	caching_explain(lardd, of, loop_clock(), &said);
	json = json_pack("{s:b, s:b, s:b}", "there", said.is_there, "fresh", said.is_fresh, "kernel", said.in_kernel);
	if (said.is_there) {
		json_object_set_new(json, "age_ms", json_integer(said.age_us / 1000));
		json_object_set_new(json, "fresh_ms", json_integer(said.fresh_us / 1000));
	}
	if (said.is_noted) {
		json_object_set_new(json, "not_kept", json_string(cacheable_not_name(said.why)));
		json_object_set_new(json, "because", json_string(cacheable_not_text(said.why)));
	}
	return json;
}

static json_t *answer_explain(struct lardd *lardd, const json_t *request)
{
	const char *url = json_string_value(json_object_get(request, "url"));
	const char *host = json_string_value(json_object_get(request, "host"));
	const struct config *config = lardd->worker[0]->config;
	char canonical[URL_CANONICAL_MAX(256, REQUEST_HEADER_MAX)], text[1024];
	struct cache_target of = { .hsts = *config->hsts };
	struct lard_decision d;
	json_t *answer;
	long len;

	if (!url || (*url != '/' && strncasecmp(url, "http://", 7)))
		return sorry("\"url\" must be http://host/path or /path");
	if (strlen(url) + (host ? strlen(host) : 0) > REQUEST_HEADER_MAX || (host && strlen(host) > 255))
		return sorry("the URL is longer than a request may be");
	if (!take_target(&of, url, host ? host : ""))
		return sorry("the URL's port must be a number from 1 to 65535");
	len = dispatch_canonical(config, host ? host : "", host ? strlen(host) : 0, url,
				 strlen(url), canonical, sizeof(canonical));
	if (len < 0)
		return sorry("the URL cannot be made canonical");

	pthread_mutex_lock(&lardd->lock);
	lard_explain(lardd->engine, url_key(canonical, len), lardd->worker[0]->loop.now, &d);
	lard_decision_text(lardd->engine, &d, canonical, text, sizeof(text));
	answer = json_pack("{s:s, s:o, s:s, s:s, s:o, s:I, s:I, s:b, s:I, s:I, s:o, s:o}",
			   "target", canonical,
			   "node", d.node < 0 ? json_null() :
			   json_string(lardd->nodes.at[d.node].name),
			   "policy", lard_policy_name(lard_get_params(lardd->engine)->policy),
			   "reason", lard_reason_name(d.why), "why", text_json(text),
			   "load", (json_int_t)d.load, "load_others", (json_int_t)d.others,
			   "learnt", d.learnt, "outstanding", (json_int_t)d.total,
			   "limit", (json_int_t)d.limit,
			   "assigned", set_json(lardd, d.was), "assigned_then", set_json(lardd, d.set));
	pthread_mutex_unlock(&lardd->lock);
	json_object_set_new(answer, "cache", cached_json(lardd, config, &of));
	return answer;
}

/* A number of @request into @value, if it is there; false: it is no number in range. */
static bool take_number(const json_t *request, const char *key, uint32_t *value)
{
	const json_t *v = json_object_get(request, key);

	if (!v)
		return true;
	if (!json_is_integer(v) || json_integer_value(v) < 0 ||
	    json_integer_value(v) > UINT32_MAX)
		return false;
	*value = json_integer_value(v);
	return true;
}

static json_t *answer_policy(struct lardd *lardd, const json_t *request)
{
	const char *policy = json_string_value(json_object_get(request, "policy"));
	const json_t *seconds = json_object_get(request, "replication_seconds");
	struct lard_params params;
	const char *why = NULL;
	uint32_t limit;

	pthread_mutex_lock(&lardd->lock);
	params = *lard_get_params(lardd->engine);
	limit = lard_limit(lardd->engine);
	pthread_mutex_unlock(&lardd->lock);
	if (json_object_size(request) == 1)
		return params_json(&params, limit);

	if (floor_rules(lardd->floor))
		return sorry("the parameters are in /sys/class/flotilla/dispatch: write them there");
	if (policy && lard_policy_parse(policy, &params.policy))
		return sorry("\"%s\" is not one of wrr, lb, lard, lard/r, lc, chbl", policy);
	if (seconds && (!json_is_number(seconds) || json_number_value(seconds) < 0 ||
			json_number_value(seconds) > 1e9))
		return sorry("replication_seconds must be a number");
	if (seconds)
		params.replication_us = json_number_value(seconds) * 1e6;
	if (!take_number(request, "t_low", &params.t_low) ||
	    !take_number(request, "t_high", &params.t_high) ||
	    !take_number(request, "max_outstanding", &params.max_outstanding) ||
	    !take_number(request, "load_bound", &params.bound_percent))
		return sorry("t_low, t_high, max_outstanding and load_bound are whole numbers");
	if (lard_check_params(&params, &why))
		return sorry("%s", why);

	pthread_mutex_lock(&lardd->lock);
	lard_set_params(lardd->engine, &params, lardd->worker[0]->loop.now);
	limit = lard_limit(lardd->engine);
	pthread_mutex_unlock(&lardd->lock);
	lardd->worker[0]->room = true;
	log_info("dispatch-parameters", "policy=%s t_low=%u t_high=%u max_outstanding=%u",
		 lard_policy_name(params.policy), params.t_low, params.t_high,
		 params.max_outstanding);
	return params_json(&params, limit);
}

static json_t *answer_stats(struct lardd *lardd, const json_t *request)
{
	json_t *counters = json_object(), *reasons = json_object();
	struct lard_table_info table;
	unsigned int i;

	(void)request;
	for (i = 0; i < COUNTERS; i++)
		json_object_set_new(counters, counter_names[i], json_integer(workers_count(lardd, i)));
	pthread_mutex_lock(&lardd->lock);
	for (i = 0; i < LARD_REASONS; i++)
		json_object_set_new(reasons, lard_reason_name(i),
				    json_integer(lard_reason_count(lardd->engine, i)));
	lard_table_get(lardd->engine, &table);
	pthread_mutex_unlock(&lardd->lock);
	return json_pack("{s:o, s:o, s:{s:I, s:I, s:I, s:I, s:I, s:I}}", "counters", counters,
			 "reasons", reasons, "table", "used", (json_int_t)table.used,
			 "capacity", (json_int_t)table.capacity,
			 "evictions", (json_int_t)table.evictions,
			 "learnt", (json_int_t)table.learnt, "learned", (json_int_t)table.learned,
			 "adopted", (json_int_t)table.adopted);
}

/* The key ends in the target, whatever scheme and port it was asked for by, and its variants'. */
static bool is_target(const struct entry *entry, const void *arg)
{
	const char *target = arg, *first = memchr(entry->key.at, ' ', entry->key.len);
	size_t len = strlen(target), at = first + 1 - entry->key.at;
	const char *blank = strchr(target, ' ');
	size_t host = blank - target;

	return entry->key.len >= at + len && !strncasecmp(entry->key.at + at, target, host) &&
	       !memcmp(entry->key.at + at + host, blank, len - host) &&
	       (entry->key.len == at + len || entry->key.at[at + len] == ' ');
}

static bool has_tag(const struct entry *entry, const void *arg)
{
	return cacheable_has_tag(entry->fields, arg);
}

static bool is_any(const struct entry *entry, const void *arg)
{
	(void)entry;
	(void)arg;
	return true;
}

/* Without a port. */
static size_t host_length(const char *host, size_t len)
{
	const char *colon = memrchr(host, ':', len);

	return colon && !memchr(colon, ']', host + len - colon) ? (size_t)(colon - host) : len;
}

static json_t *clear_url(struct lardd *lardd, const char *url)
{
	const char *path = strlen(url) > 7 ? strchr(url + 7, '/') : NULL;
	char text[256 + REQUEST_HEADER_MAX + 2];
	size_t host, cleared;

	if (strncasecmp(url, "http://", 7) || !path || path == url + 7 || strpbrk(url, " \t\r\n") ||
	    strlen(url) > REQUEST_HEADER_MAX || path - url > 256)
		return sorry("\"url\" must be http://host/path");
	host = path - url - 7;
	snprintf(text, sizeof(text), "%.*s %s", (int)host, url + 7, path);
	cleared = cache_clear(lardd->cache, is_target, text);
	text[host_length(text, host)] = '\0';
	kernel_cache_clear(lardd->kernel, NULL, text, path);
	return json_pack("{s:I}", "cleared", (json_int_t)cleared);
}

static json_t *answer_clear(struct lardd *lardd, const json_t *request)
{
	const json_t *tag = json_object_get(request, "tag"), *url = json_object_get(request, "url");
	const char *word = json_string_value(tag);
	size_t cleared;

	if (json_object_size(request) > 2 || (url && !json_is_string(url)) ||
	    (tag && (!word || !*word || strpbrk(word, " \t\r\n"))))
		return sorry("clear takes a \"tag\", which is a word, or a \"url\"");
	if (url)
		return clear_url(lardd, json_string_value(url));
	cleared = cache_clear(lardd->cache, tag ? has_tag : is_any, word);
	kernel_cache_clear(lardd->kernel, tag ? word : KERNEL_TAG, NULL, NULL);
	return json_pack("{s:I}", "cleared", (json_int_t)cleared);
}

static json_t *answer_reload(struct lardd *lardd, const json_t *request)
{
	char error[512];

	(void)request;
	if (lardd_reload(lardd, error, sizeof(error)))
		return sorry("%s", error);
	return json_pack("{s:I}", "reloads", (json_int_t)lardd->reloads);
}

static const struct {
	const char *name;
	json_t *(*answer)(struct lardd *lardd, const json_t *request);
	bool changes;			/* something, if there is more than its name */
} commands[] = {
	{ "status", answer_status, false },
	{ "nodes", answer_nodes, false },
	{ "explain", answer_explain, false },
	{ "policy", answer_policy, true },
	{ "stats", answer_stats, false },
	{ "clear", answer_clear, true },
	{ "reload", answer_reload, true },
};

char *control_handover(struct lardd *lardd, int *fds, size_t max, size_t *count)
{
	json_t *addresses = json_array(), *reply;
	char text[ADDRESS_TEXT], *sites;
	union address address;
	unsigned int w, i;
	int fd;

	*count = 0;
	/* Worker 0 may read what others own here: listeners change only with the configuration. */
	if (!lardd_settle(lardd))
		log_warn("handover", "text=\"a worker has not moved to the last configuration yet\"");
	for (w = 0; w < lardd->workers; w++) {
		for (i = 0; i < WORKER_LISTENERS_MAX; i++) {
			const struct listener *l = lardd->worker[w]->listeners[i];

			if (!l || *count == max - 2)	/* the metrics' and the status page's */
				continue;
			fds[(*count)++] = l->source.fd;
			json_array_append_new(addresses, json_string(address_text(&l->address, text,
										  sizeof(text))));
		}
	}
	for (i = 0; i < 2; i++) {
		fd = pages_socket(i ? status_pages(lardd->status) : lardd->metrics, &address);
		if (fd < 0)
			continue;
		fds[(*count)++] = fd;
		json_array_append_new(addresses, json_string(address_text(&address, text,
									  sizeof(text))));
	}
	sites = kernel_cache_ours(lardd->kernel);
	reply = json_pack("{s:o, s:s}", "listen", addresses, "sites", sites ? sites : "");
	free(sites);
	return json_line(reply);
}

#define ENTITLED "only root and the user who started lardd may do that"

/* "policy" without anything to set. */
static bool only_asks(const json_t *request)
{
	return json_object_size(request) == 1 &&
	       !strcmp(json_string_value(json_object_get(request, "cmd")), "policy");
}

static json_t *answer(struct lardd *lardd, const json_t *request, bool entitled)
{
	const char *name = json_string_value(json_object_get(request, "cmd"));
	unsigned int i;

	if (!name)
		return sorry("a request is {\"cmd\":\"...\"}");
	if (!entitled && (!strcmp(name, "handover") || !strcmp(name, "taken")))
		return sorry(ENTITLED);
	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(name, commands[i].name))
			return commands[i].changes && !entitled && !only_asks(request) ?
			       sorry(ENTITLED) : commands[i].answer(lardd, request);
	return sorry("unknown command: status, nodes, explain, policy, stats, clear and reload are known");
}

char *control_answer(struct lardd *lardd, const char *line, size_t len, bool entitled)
{
	json_t *request, *reply;
	json_error_t where;

	request = json_loadb(line, len, JSON_REJECT_DUPLICATES, &where);
	reply = json_is_object(request) ? answer(lardd, request, entitled) :
		sorry("the request is not a JSON object");
	json_decref(request);
	return json_line(reply);
}
