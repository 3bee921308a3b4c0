// SPDX-License-Identifier: GPL-2.0
/* Metrics for Prometheus. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "cache.h"
#include "crowd.h"
#include "metrics.h"
#include "page.h"
#include "share.h"
#include "tools/base/metric.h"
#include "worker.h"

/* Each family has one place, and all its samples behind it: strict readers want that. */
static void put_number(FILE *out, const char *name, const char *type, const char *help,
		       uint64_t value)
{
	metric_family(out, name, type, help);
	fprintf(out, "%s %" PRIu64 "\n", name, value);
}

/* "LardHandedOff" is lard_handed_off_total to Prometheus. */
static void counter_name(const char *name, char *out, size_t size)
{
	size_t n = 0;

	for (; *name && n + 8 < size; name++) {
		bool upper = *name >= 'A' && *name <= 'Z';

		if (upper && n)
			out[n++] = '_';
		out[n++] = upper ? *name | 0x20 : *name;
	}
	strcpy(out + n, "_total");
}

static bool has_unit(enum counter which)
{
	return which == COUNTER_HANDOFF_USEC || which == COUNTER_BYTES_UP ||
	       which == COUNTER_BYTES_DOWN;
}

static void put_counters(FILE *out, struct lardd *lardd)
{
	static const char bytes[] = "lard_proxied_bytes_total";
	static const char seconds[] = "lard_handoff_seconds_total";
	unsigned int i;
	char name[64];

	for (i = 0; i < COUNTERS; i++) {
		if (has_unit(i))
			continue;
		counter_name(counter_names[i], name, sizeof(name));
		put_number(out, name, "counter", counter_helps[i], workers_count(lardd, i));
	}
	metric_family(out, bytes, "counter", "bytes proxied to back-ends (up) and to clients (down)");
	metric_labels(out, bytes, "direction", "up", NULL);
	fprintf(out, "%" PRIu64 "\n", workers_count(lardd, COUNTER_BYTES_UP));
	metric_labels(out, bytes, "direction", "down", NULL);
	fprintf(out, "%" PRIu64 "\n", workers_count(lardd, COUNTER_BYTES_DOWN));
	metric_family(out, seconds, "counter",
		      "time of all handoffs that succeeded, from submission to ownership");
	fprintf(out, "%s %.6f\n", seconds, workers_count(lardd, COUNTER_HANDOFF_USEC) / 1e6);
}

/* As Prometheus writes them: "0.0001", "1.0". */
static void bound_text(uint64_t usec, char *text, size_t size)
{
	if (usec == UINT64_MAX)
		snprintf(text, size, "+Inf");
	else if (usec % 1000000)
		snprintf(text, size, "%.7g", usec / 1e6);
	else
		snprintf(text, size, "%" PRIu64 ".0", usec / 1000000);
}

static void put_histogram(FILE *out, const struct tally_sum *sum, enum outcome outcome)
{
	const char *name = outcome_names[outcome];
	uint64_t count = 0;
	unsigned int i;
	char text[32];

	for (i = 0; i < TALLY_BUCKETS; i++) {
		count += sum->took[outcome].buckets[i];
		bound_text(tally_bounds[i], text, sizeof(text));
		metric_labels(out, "lard_request_duration_seconds_bucket", "outcome", name, "le",
			      text, NULL);
		fprintf(out, "%" PRIu64 "\n", count);
	}
	metric_labels(out, "lard_request_duration_seconds_sum", "outcome", name, NULL);
	fprintf(out, "%.6f\n", sum->took[outcome].usec / 1e6);
	metric_labels(out, "lard_request_duration_seconds_count", "outcome", name, NULL);
	fprintf(out, "%" PRIu64 "\n", count);
}

static void put_requests(FILE *out, struct lardd *lardd)
{
	struct tally_sum sum;
	unsigned int i;

	tally_read(lardd, &sum);
	metric_family(out, "lard_responses_total", "counter",
		      "answers that lardd passed on or gave, by class of status; not those of handed-off connections");
	for (i = 0; i < TALLY_CODES; i++) {
		metric_labels(out, "lard_responses_total", "code",
			      (char []){ '1' + i, 'x', 'x', '\0' }, NULL);
		fprintf(out, "%" PRIu64 "\n", sum.codes[i]);
	}
	metric_family(out, "lard_request_duration_seconds", "histogram",
		      "from the end of a request's header to the end of its answer or, outcome handoff, to the node's ownership");
	for (i = 0; i < OUTCOMES; i++)
		put_histogram(out, &sum, i);
}

/* Under the lock. */
static void put_reasons(FILE *out, struct lardd *lardd)
{
	unsigned int i;

	metric_family(out, "lard_decisions_total", "counter", "decisions by the rule that made them");
	for (i = 0; i < LARD_REASONS; i++) {
		metric_labels(out, "lard_decisions_total", "reason", lard_reason_name(i), NULL);
		fprintf(out, "%" PRIu64 "\n", lard_reason_count(lardd->engine, i));
	}
}

static void put_process(FILE *out, struct lardd *lardd)
{
	double uptime = (loop_clock() - lardd->started_us) / 1e6;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	metric_family(out, "lard_build_info", "gauge", "always 1; its version");
	metric_labels(out, "lard_build_info", "version", FLT_VERSION, NULL);
	fputs("1\n", out);
	metric_family(out, "process_start_time_seconds", "gauge",
		      "when lardd was started, in seconds since 1970");
	fprintf(out, "process_start_time_seconds %.3f\n",
		now.tv_sec + now.tv_nsec / 1e9 - uptime);
}

static void put_connections(FILE *out, struct lardd *lardd)
{
	unsigned int state;

	metric_family(out, "lard_connections", "gauge", "client connections by what they are at");
	for (state = CONN_SHAKE; state < CONN_STATES; state++) {
		metric_labels(out, "lard_connections", "state", conn_state_names[state], NULL);
		fprintf(out, "%" PRIu64 "\n", workers_live(lardd, state));
	}
}

/* Under the lock. */
static void put_state(FILE *out, struct lardd *lardd)
{
	struct lard_table_info table;
	struct cache_info cache;

	put_process(out, lardd);
	put_connections(out, lardd);
	put_number(out, "lard_client_addresses", "gauge",
		   "addresses, of IPv6 networks of 64 bits, that max-connections-per-address counts connections of",
		   crowd_size(lardd->crowd));
	cache_get_info(lardd->cache, &cache);
	put_number(out, "lard_cache_bytes", "gauge", "memory of the answers in the cache", cache.bytes);
	put_number(out, "lard_cache_limit_bytes", "gauge", "most memory that the cache may have; 0: no cache",
		   cache.limit);
	put_number(out, "lard_cache_entries", "gauge", "answers in the cache", cache.entries);
	put_number(out, "lard_cache_evictions_total", "counter",
		   "answers that left the cache to make room", cache.evictions);
	put_number(out, "lard_cache_kernel_sites", "gauge", "listeners at which afpa.ko gets them, too",
		   kernel_cache_filled(lardd->kernel));
	lard_table_get(lardd->engine, &table);
	put_number(out, "lard_outstanding", "gauge", "load of all nodes that get requests, together",
		   lard_outstanding(lardd->engine));
	put_number(out, "lard_outstanding_others", "gauge", "load that other front-ends have given them, as they say",
		   lard_outstanding_others(lardd->engine));
	put_number(out, "lard_peers", "gauge", "other front-ends that are heard", share_peers(lardd->share));
	put_number(out, "lard_targets_learnt", "gauge", "of the targets, those that other front-ends have told of and nobody asked for here",
		   table.learnt);
	put_number(out, "lard_outstanding_limit", "gauge", "load beyond which requests wait",
		   lard_limit(lardd->engine));
	put_number(out, "lard_tunnels", "gauge", "WebSockets that are open through lardd; no load of a node's",
		   lardd->tunnels);
	put_number(out, "lard_waiting", "gauge", "requests that wait for room", lardd->waiters);
	put_number(out, "lard_nodes", "gauge", "nodes that get requests", lard_nodes(lardd->engine));
	put_number(out, "lard_targets", "gauge", "targets whose nodes are remembered", table.used);
	put_number(out, "lard_targets_limit", "gauge", "most targets that can be remembered",
		   table.capacity);
	put_number(out, "lard_target_evictions_total", "counter",
		   "targets that were forgotten to make room", table.evictions);
	metric_family(out, "lard_policy_info", "gauge", "always 1; the policy in force");
	metric_labels(out, "lard_policy_info", "policy",
		      lard_policy_name(lard_get_params(lardd->engine)->policy), NULL);
	fputs("1\n", out);
}

static uint64_t is_up(const struct lard_node_info *info)
{
	return info->state == LARD_UP;
}

static uint64_t is_eligible(const struct lard_node_info *info)
{
	return info->eligible;
}

static uint64_t load_of(const struct lard_node_info *info)
{
	return info->load;
}

static uint64_t others_of(const struct lard_node_info *info)
{
	return info->others;
}

static uint64_t high_of(const struct lard_node_info *info)
{
	return info->high;
}

static uint64_t weight_of(const struct lard_node_info *info)
{
	return info->weight;
}

static uint64_t chosen_of(const struct lard_node_info *info)
{
	return info->chosen;
}

static const struct {
	const char *name, *type, *help;
	uint64_t (*value)(const struct lard_node_info *info);
} node_families[] = {
	{ "lard_node_up", "gauge", "whether the node's link or health check says that it is up", is_up },
	{ "lard_node_eligible", "gauge", "whether the node gets new requests", is_eligible },
	{ "lard_node_load", "gauge", "requests that were handed to the node and have not ended", load_of },
	{ "lard_node_load_others", "gauge", "requests that other front-ends have given the node, as they say", others_of },
	{ "lard_node_load_high", "gauge", "the node's T_high: beyond it targets may move away", high_of },
	{ "lard_node_weight", "gauge", "the node's weight", weight_of },
	{ "lard_node_requests_total", "counter", "requests that were dispatched to the node", chosen_of },
};

/* Under the lock. */
static void put_nodes(FILE *out, struct lardd *lardd)
{
	struct lard_node_info info;
	unsigned int i;
	int slot;

	for (i = 0; i < sizeof(node_families) / sizeof(node_families[0]); i++) {
		metric_family(out, node_families[i].name, node_families[i].type,
			      node_families[i].help);
		for (slot = 0; slot < LARD_MAX_NODES; slot++) {
			if (!lard_node_get(lardd->engine, slot, &info))
				continue;
			metric_labels(out, node_families[i].name, "node", info.name, NULL);
			fprintf(out, "%" PRIu64 "\n", node_families[i].value(&info));
		}
	}
}

static bool wants(struct span query, const char *scope)
{
	return !query.len || span_lists(query, scope, strlen(scope));
}

static char *page(struct lardd *lardd, struct span query, size_t *len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, len);

	if (!out)
		return NULL;
	if (wants(query, "counters"))
		put_counters(out, lardd);
	if (wants(query, "requests"))
		put_requests(out, lardd);
	pthread_mutex_lock(&lardd->lock);
	if (wants(query, "reasons"))
		put_reasons(out, lardd);
	if (wants(query, "state"))
		put_state(out, lardd);
	if (wants(query, "nodes"))
		put_nodes(out, lardd);
	pthread_mutex_unlock(&lardd->lock);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

static void answer(struct pages *pages, struct page_visitor *v, const struct request *r)
{
	static const char type[] = "text/plain; version=0.0.4; charset=utf-8";
	struct span query = { NULL, 0 };
	size_t len = 0;
	char *body;

	if (!page_is(r, "/metrics")) {
		page_answer(v, r, "404 Not Found", type, "", NULL, 0);
		return;
	}
	if (r->target.len > 15 && !memcmp(r->target.at + 8, "?scope=", 7))
		query = (struct span){ r->target.at + 15, r->target.len - 15 };
	body = page(pages->lardd, query, &len);
	if (body)
		page_answer(v, r, "200 OK", type, "", body, len);
	free(body);
}

struct pages *metrics_open(struct lardd *lardd, const union address *address, char *error,
			   size_t size)
{
	struct pages *pages = calloc(1, sizeof(*pages));

	if (!pages) {
		snprintf(error, size, "no memory");
		return NULL;
	}
	pages->what = "metrics";
	pages->answer = answer;
	if (!pages_open(pages, lardd, address, error, size))
		return pages;
	free(pages);
	return NULL;
}

void metrics_close(struct pages *metrics)
{
	pages_close(metrics);
	free(metrics);
}
