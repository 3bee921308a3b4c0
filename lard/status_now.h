/* SPDX-License-Identifier: GPL-2.0 */
/* What the status page says: one snapshot, from which both the page and the JSON are made. */
#ifndef LARD_STATUS_NOW_H
#define LARD_STATUS_NOW_H

#include <stdio.h>
#include "cache.h"
#include "conn.h"
#include "counter.h"
#include "hot.h"
#include "policy.h"
#include "share.h"
#include "status_card.h"
#include "tally.h"

#define STATUS_HISTORY	120	/* seconds of the graph */
#define STATUS_RATE	10	/* seconds that a rate is the mean of */
#define STATUS_LATENCY	60	/* seconds whose requests latency is told of */
#define STATUS_TARGETS	20

/**
 * struct status_second - what was counted when a second ended
 * @at:    microseconds of the loop's clock
 * @chosen: decisions for each node
 */
struct status_second {
	uint64_t at;
	uint64_t counters[COUNTERS];
	uint64_t reasons[LARD_REASONS];
	uint64_t chosen[LARD_MAX_NODES];
	struct tally_sum tally;
	struct status_card card;
};

/**
 * struct status_history - the last seconds, in a ring
 * @nr: seconds seen in all; second n is at[n % (STATUS_HISTORY + 1)]
 */
struct status_history {
	struct status_second at[STATUS_HISTORY + 1];
	unsigned int nr;
};

/* Quantiles in seconds; 0: no requests. */
struct status_latency {
	uint64_t count;
	double mean, p50, p95, p99;
};

struct status_node {
	char name[LARD_NAME_MAX];
	char address[ADDRESS_TEXT];
	char why[160];		/* a sentence: why it is up, or is not */
	bool used, up, eligible, handoff;
	enum lard_admin admin;
	uint32_t load, others, low, high, weight;
	uint64_t chosen;
	double rate;
};

struct status_target {
	char text[HOT_TEXT];
	uint64_t count;
	uint64_t nodes;		/* slots */
};

/**
 * struct status_now - the snapshot
 * @seconds:  that rates are the mean of; 0: there are none yet
 * @requests: a second, of the seconds before, the oldest first, @history of them
 * @others:   of the cluster's requests those that other front-ends have dispatched
 */
struct status_now {
	char mode[16];
	const char *mode_why, *policy;
	double uptime, seconds;
	unsigned int workers, nodes_known, nodes_eligible, watchers;
	uint32_t t_low, t_high, outstanding, others, limit, waiting;
	uint64_t counters[COUNTERS];
	double rates[COUNTERS];
	uint64_t reasons[LARD_REASONS];
	double reason_rates[LARD_REASONS];
	uint64_t codes[TALLY_CODES];
	double code_rates[TALLY_CODES];
	uint64_t connections[CONN_STATES];
	unsigned int client_addresses;
	struct status_latency latency[OUTCOMES];
	struct cache_info cache;
	unsigned int kernel_sites;	/* that the kernel has it at */
	struct status_card card;	/* as the last second ended */
	double card_rates[CARD_COUNTERS];
	struct lard_table_info table;
	struct status_node nodes[LARD_MAX_NODES];
	struct share_peer front_ends[SHARE_PEERS_MAX];
	unsigned int front_end_count;
	struct status_target targets[STATUS_TARGETS];
	unsigned int target_count;
	double requests[STATUS_HISTORY];
	unsigned int history;
};

struct lardd;

/* A second has ended. */
void status_history_add(struct status_history *history, struct lardd *lardd);
void status_now_get(struct status_now *now, const struct status_history *history,
		    struct lardd *lardd);

/* status_html.c: what is in the page's <main>. */
void status_html_write(FILE *out, const struct status_now *now);
/* status_json.c: to be freed; NULL: no memory. */
char *status_json_text(const struct status_now *now);

/* status_files.c: lard/status/, built in. */
extern const char status_page_html[], status_page_css[], status_page_js[];

#endif
