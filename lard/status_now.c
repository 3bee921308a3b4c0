// SPDX-License-Identifier: GPL-2.0
/* The snapshot of the status page. */
#include <stdlib.h>
#include <string.h>
#include "crowd.h"
#include "lardd.h"
#include "status_now.h"
#include "worker.h"

static void get_counters(struct lardd *lardd, uint64_t *counters)
{
	unsigned int i;

	for (i = 0; i < COUNTERS; i++)
		counters[i] = workers_count(lardd, i);
}

void status_history_add(struct status_history *history, struct lardd *lardd)
{
	struct status_second *s = &history->at[history->nr++ % (STATUS_HISTORY + 1)];
	struct lard_node_info info;
	unsigned int i;

	s->at = lardd->worker[0]->loop.now;
	get_counters(lardd, s->counters);
	tally_read(lardd, &s->tally);
	status_card_get(&s->card, lardd->floor);
	pthread_mutex_lock(&lardd->lock);
	for (i = 0; i < LARD_REASONS; i++)
		s->reasons[i] = lard_reason_count(lardd->engine, i);
	for (i = 0; i < LARD_MAX_NODES; i++)
		s->chosen[i] = lard_node_get(lardd->engine, i, &info) ? info.chosen : 0;
	pthread_mutex_unlock(&lardd->lock);
}

/* The one that ended @ago before the last; the oldest, if that is gone or never was. NULL: none. */
static const struct status_second *second(const struct status_history *history, unsigned int ago)
{
	unsigned int have = history->nr < STATUS_HISTORY + 1 ? history->nr : STATUS_HISTORY + 1;

	if (!have)
		return NULL;
	if (ago >= have)
		ago = have - 1;
	return &history->at[(history->nr - 1 - ago) % (STATUS_HISTORY + 1)];
}

static double rate(uint64_t from, uint64_t to, double seconds)
{
	return seconds > 0 && to > from ? (to - from) / seconds : 0;
}

static void get_rates(struct status_now *now, const struct status_history *history)
{
	const struct status_second *last = second(history, 0), *first = second(history, STATUS_RATE);
	unsigned int i;

	if (!last || last == first)
		return;
	now->seconds = (last->at - first->at) / 1e6;
	for (i = 0; i < COUNTERS; i++)
		now->rates[i] = rate(first->counters[i], last->counters[i], now->seconds);
	for (i = 0; i < LARD_REASONS; i++)
		now->reason_rates[i] = rate(first->reasons[i], last->reasons[i], now->seconds);
	for (i = 0; i < TALLY_CODES; i++)
		now->code_rates[i] = rate(first->tally.codes[i], last->tally.codes[i], now->seconds);
	for (i = 0; i < LARD_MAX_NODES; i++)
		now->nodes[i].rate = rate(first->chosen[i], last->chosen[i], now->seconds);
}

/* What was counted before the module was seen is no rate. */
static void get_card(struct status_now *now, const struct status_history *history)
{
	const struct status_second *last = second(history, 0), *first = last;
	unsigned int ago, i;

	if (!last)
		return;
	now->card = last->card;
	for (ago = STATUS_RATE; ago && !(first = second(history, ago))->card.there; ago--)
		;
	for (i = 0; ago && i < CARD_COUNTERS; i++)
		now->card_rates[i] = rate(first->card.counts[i], last->card.counts[i],
					  (last->at - first->at) / 1e6);
}

static void get_graph(struct status_now *now, const struct status_history *history)
{
	unsigned int have = history->nr < STATUS_HISTORY + 1 ? history->nr : STATUS_HISTORY + 1;
	unsigned int ago;

	for (ago = have; ago-- > 1;) {
		const struct status_second *from = second(history, ago), *to = second(history, ago - 1);

		now->requests[now->history++] = rate(from->counters[COUNTER_REQUESTS],
						     to->counters[COUNTER_REQUESTS],
						     (to->at - from->at) / 1e6);
	}
}

/* As Prometheus does it: requests lie evenly between the bounds of their bucket. */
static double quantile(const uint64_t *buckets, uint64_t count, double q)
{
	double want = q * count, seen = 0;
	unsigned int i;

	for (i = 0; i < TALLY_BUCKETS - 1; i++) {
		double low = i ? tally_bounds[i - 1] : 0, high = tally_bounds[i];

		if (buckets[i] && seen + buckets[i] >= want)
			return (low + (high - low) * (want - seen) / buckets[i]) / 1e6;
		seen += buckets[i];
	}
	return tally_bounds[TALLY_BUCKETS - 2] / 1e6;
}

/* Of the last minute and what has come of the present second. */
static void get_latency(struct status_now *now, const struct status_history *history,
			struct lardd *lardd)
{
	const struct status_second *first = history->nr > STATUS_LATENCY ?
					    second(history, STATUS_LATENCY) : NULL;
	struct tally_sum sum;
	unsigned int o, i;

	tally_read(lardd, &sum);
	memcpy(now->codes, sum.codes, sizeof(now->codes));
	for (o = 0; o < OUTCOMES; o++) {
		struct status_latency *l = &now->latency[o];
		uint64_t buckets[TALLY_BUCKETS], usec = sum.took[o].usec;

		for (i = 0; i < TALLY_BUCKETS; i++) {
			buckets[i] = sum.took[o].buckets[i] -
				     (first ? first->tally.took[o].buckets[i] : 0);
			l->count += buckets[i];
		}
		if (!l->count)
			continue;
		usec -= first ? first->tally.took[o].usec : 0;
		l->mean = usec / 1e6 / l->count;
		l->p50 = quantile(buckets, l->count, 0.5);
		l->p95 = quantile(buckets, l->count, 0.95);
		l->p99 = quantile(buckets, l->count, 0.99);
	}
}

static const char *known(const char *why, const char *otherwise)
{
	return *why ? why : otherwise;
}

/* Under the lock. */
static void explain_node(struct status_node *to, const struct lardd_node *from)
{
	if (from->suspended)
		snprintf(to->why, sizeof(to->why), "refused %u times in a row: left out for a second",
			 from->faults);
	else if (!from->up)
		snprintf(to->why, sizeof(to->why), "%s: %s",
			 from->in_kernel ? "its link is down" : "its health check fails",
			 known(from->why, "no reason known"));
	else if (to->admin == LARD_DRAIN)
		strcpy(to->why, "drains: gets no new requests");
	else if (to->admin == LARD_MAINTENANCE)
		strcpy(to->why, "in maintenance: gets nothing");
	else if (!to->weight)
		strcpy(to->why, "its weight is 0: gets nothing");
	else
		strcpy(to->why, from->in_kernel ? "its link is up" :
		       from->health ? "its health check succeeds" : "taken to be up: nobody checks");
}

/* Under the lock. */
static void get_nodes(struct status_now *now, struct lardd *lardd)
{
	struct lard_node_info info;
	int slot;

	for (slot = 0; slot < LARD_MAX_NODES; slot++) {
		const struct lardd_node *from = &lardd->nodes.at[slot];
		struct status_node *to = &now->nodes[slot];

		if (!lard_node_get(lardd->engine, slot, &info))
			continue;
		now->nodes_known++;
		to->used = true;
		strcpy(to->name, info.name);
		if (from->address.any.sa_family)
			address_text(&from->address, to->address, sizeof(to->address));
		to->up = info.state == LARD_UP;
		to->eligible = info.eligible;
		to->handoff = from->kernel_id;
		to->admin = info.admin;
		to->load = info.load;
		to->others = info.others;
		to->low = info.low;
		to->high = info.high;
		to->weight = info.weight;
		to->chosen = info.chosen;
		explain_node(to, from);
	}
}

static struct hot *collect_targets(struct lardd *lardd)
{
	struct hot *all = hot_new();
	unsigned int w;

	for (w = 0; all && w < lardd->workers; w++)
		if (lardd->worker[w]->hot)
			hot_add(all, lardd->worker[w]->hot);
	if (all)
		hot_sort(all);
	return all;
}

static bool remembers(enum lard_policy policy)
{
	return policy == LARD_BASIC || policy == LARD_REPLICATED;
}

/* Under the lock. */
static void get_targets(struct status_now *now, struct lardd *lardd, const struct hot *all)
{
	const struct lard_params *params = lard_get_params(lardd->engine);
	unsigned int i;

	for (i = 0; all && i < all->used && i < STATUS_TARGETS; i++) {
		strcpy(now->targets[i].text, all->texts[i]);
		now->targets[i].count = all->counts[i];
		if (remembers(params->policy))
			now->targets[i].nodes = lard_assigned(lardd->engine, all->keys[i]);
		now->target_count++;
	}
}

void status_now_get(struct status_now *now, const struct status_history *history,
		    struct lardd *lardd)
{
	const struct worker *w = lardd->worker[0];
	const struct lard_params *params;
	struct hot *all = collect_targets(lardd);
	unsigned int i;

	memset(now, 0, sizeof(*now));
	strcpy(now->mode, give_ready(&w->give) && w->config->mode == MODE_AUTO ? "handoff" : "proxy");
	now->mode_why = lardd_mode_why(lardd);
	now->uptime = (w->loop.now - lardd->started_us) / 1e6;
	now->workers = lardd->workers;
	get_counters(lardd, now->counters);
	for (i = 0; i < CONN_STATES; i++)
		now->connections[i] = workers_live(lardd, i);
	now->client_addresses = crowd_size(lardd->crowd);
	cache_get_info(lardd->cache, &now->cache);
	now->kernel_sites = kernel_cache_filled(lardd->kernel);
	get_latency(now, history, lardd);
	while (share_peer_get(lardd->share, now->front_end_count, &now->front_ends[now->front_end_count]))
		now->front_end_count++;
	pthread_mutex_lock(&lardd->lock);
	params = lard_get_params(lardd->engine);
	now->policy = lard_policy_name(params->policy);
	now->t_low = params->t_low;
	now->t_high = params->t_high;
	now->outstanding = lard_outstanding(lardd->engine);
	now->others = lard_outstanding_others(lardd->engine);
	now->limit = lard_limit(lardd->engine);
	now->waiting = lardd->waiters;
	now->nodes_eligible = lard_nodes(lardd->engine);
	for (i = 0; i < LARD_REASONS; i++)
		now->reasons[i] = lard_reason_count(lardd->engine, i);
	lard_table_get(lardd->engine, &now->table);
	get_nodes(now, lardd);
	get_targets(now, lardd, all);
	pthread_mutex_unlock(&lardd->lock);
	get_rates(now, history);
	get_card(now, history);
	get_graph(now, history);
	hot_free(all);
}
