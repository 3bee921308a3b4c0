// SPDX-License-Identifier: GPL-2.0
/* Metrics for Prometheus. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cache.h"
#include "metrics.h"
#include "takeover.h"
#include "visitor.h"
#include "worker.h"

#define REQUEST_MAX	4096
#define CLIENTS_MAX	32

struct metrics {
	struct service service;
	struct lardd *lardd;
	union address address;
};

/* "LardHandedOff" is lard_handed_off_total to Prometheus. */
static void put_counter_name(FILE *out, const char *name)
{
	const char *at;

	for (at = name; *at; at++) {
		if (*at >= 'A' && *at <= 'Z')
			fprintf(out, "%s%c", at == name ? "" : "_", *at | 0x20);
		else
			fputc(*at, out);
	}
	fputs("_total", out);
}

static void put_counters(FILE *out, struct lardd *lardd)
{
	unsigned int i, w;

	for (i = 0; i < COUNTERS; i++) {
		uint64_t sum = 0;

		for (w = 0; w < lardd->workers; w++)
			sum += atomic_load_explicit(&lardd->worker[w]->counters[i],
						    memory_order_relaxed);
		fputs("# HELP ", out);
		put_counter_name(out, counter_names[i]);
		fprintf(out, " %s\n# TYPE ", counter_helps[i]);
		put_counter_name(out, counter_names[i]);
		fputs(" counter\n", out);
		put_counter_name(out, counter_names[i]);
		fprintf(out, " %" PRIu64 "\n", sum);
	}
}

/* Under the lock. */
static void put_reasons(FILE *out, struct lardd *lardd)
{
	unsigned int i;

	fputs("# HELP lard_decisions_total decisions by the rule that made them\n"
	      "# TYPE lard_decisions_total counter\n", out);
	for (i = 0; i < LARD_REASONS; i++)
		fprintf(out, "lard_decisions_total{reason=\"%s\"} %" PRIu64 "\n",
			lard_reason_name(i), lard_reason_count(lardd->engine, i));
}

static void put_state(FILE *out, struct lardd *lardd)
{
	struct lard_table_info table;
	struct cache_info cache;

	cache_get_info(lardd->cache, &cache);
	fprintf(out, "# TYPE lard_cache_bytes gauge\nlard_cache_bytes %zu\n"
		"# TYPE lard_cache_limit_bytes gauge\nlard_cache_limit_bytes %zu\n"
		"# TYPE lard_cache_entries gauge\nlard_cache_entries %zu\n"
		"# TYPE lard_cache_evictions_total counter\nlard_cache_evictions_total %" PRIu64 "\n",
		cache.bytes, cache.limit, cache.entries, cache.evictions);
	lard_table_get(lardd->engine, &table);
	fprintf(out, "# TYPE lard_outstanding gauge\nlard_outstanding %u\n"
		"# TYPE lard_limit gauge\nlard_limit %u\n"
		"# TYPE lard_queued gauge\nlard_queued %u\n"
		"# TYPE lard_nodes gauge\nlard_nodes %u\n"
		"# TYPE lard_targets gauge\nlard_targets %u\n"
		"# TYPE lard_target_evictions_total counter\nlard_target_evictions_total %" PRIu64 "\n",
		lard_outstanding(lardd->engine), lard_limit(lardd->engine), lardd->waiters,
		lard_nodes(lardd->engine), table.used, table.evictions);
	fprintf(out, "# TYPE lard_policy gauge\nlard_policy{policy=\"%s\"} 1\n",
		lard_policy_name(lard_get_params(lardd->engine)->policy));
}

static void put_nodes(FILE *out, struct lardd *lardd)
{
	struct lard_node_info info;
	int slot;

	fputs("# TYPE lard_node_up gauge\n# TYPE lard_node_load gauge\n"
	      "# TYPE lard_node_weight gauge\n# TYPE lard_node_requests_total counter\n", out);
	for (slot = 0; slot < LARD_MAX_NODES; slot++) {
		if (!lard_node_get(lardd->engine, slot, &info))
			continue;
		fprintf(out, "lard_node_up{node=\"%s\"} %d\nlard_node_load{node=\"%s\"} %u\n"
			"lard_node_weight{node=\"%s\"} %u\n"
			"lard_node_requests_total{node=\"%s\"} %" PRIu64 "\n",
			info.name, info.state == LARD_UP, info.name, info.load, info.name,
			info.weight, info.name, info.chosen);
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

static void prepare(struct visitor *visitor, const struct request *r)
{
	struct metrics *metrics = container_of(visitor->service, struct metrics, service);
	static const char path[] = "/metrics";
	struct span query = { NULL, 0 };
	bool found = r->target.len >= 8 && !memcmp(r->target.at, path, 8) &&
		     (r->target.len == 8 || r->target.at[8] == '?');
	size_t len = 0;
	char *body = NULL;
	int n;

	if (r->target.len > 15 && !memcmp(r->target.at + 8, "?scope=", 7))
		query = (struct span){ r->target.at + 15, r->target.len - 15 };
	if (found)
		body = page(metrics->lardd, query, &len);
	n = asprintf(&visitor->out, "HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4\r\n"
		     "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
		     found ? "200 OK" : "404 Not Found", len, r->head || !body ? "" : body);
	free(body);
	if (n < 0)
		visitor->out = NULL;
	else
		visitor->out_len = n;
}

static void read_request(struct visitor *visitor)
{
	static struct request r;	/* worker 0 only; spans are used before it returns */
	char text[REQUEST_MAX];
	ssize_t n = recv(visitor->source.fd, text, sizeof(text), MSG_PEEK);
	int verdict = n > 0 ? request_parse(&r, text, n, NULL) : 0;

	if (n < 0 && errno == EAGAIN)
		return;
	visitor_heard(visitor);
	if (verdict > 0) {
		recv(visitor->source.fd, NULL, r.length, MSG_TRUNC);
		prepare(visitor, &r);
	}
	if (n <= 0 || verdict < 0 || n == sizeof(text) || (verdict > 0 && !visitor->out))
		visitor_close(visitor);
}

static void client_ready(struct source *s, uint32_t events)
{
	struct visitor *visitor = container_of(s, struct visitor, source);

	(void)events;
	if (!visitor->out)
		read_request(visitor);
	if (visitor->out && visitor_write(visitor) > 0)
		visitor_close(visitor);
}

struct metrics *metrics_open(struct lardd *lardd, const union address *address, char *error,
			     size_t size)
{
	struct metrics *metrics = calloc(1, sizeof(*metrics));
	char text[ADDRESS_TEXT];
	int fd, on = 1, err = 0;

	if (!metrics) {
		snprintf(error, size, "no memory");
		return NULL;
	}
	metrics->lardd = lardd;
	metrics->service.max = CLIENTS_MAX;
	metrics->service.size = sizeof(struct visitor);
	metrics->service.ready = client_ready;
	metrics->address = *address;
	fd = takeover_take(lardd->takeover, address);
	if (fd < 0) {
		fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (fd >= 0)
			setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		err = fd < 0 || bind(fd, &address->any, address_len(address)) ? -errno : 0;
	}
	if (!err)
		err = service_open(&metrics->service, lardd->worker[0], fd);
	if (!err)
		return metrics;
	snprintf(error, size, "cannot listen on %s for metrics: %s",
		 address_text(address, text, sizeof(text)), strerror(-err));
	if (fd >= 0)
		close(fd);
	free(metrics);
	return NULL;
}

int metrics_socket(const struct metrics *metrics, union address *address)
{
	if (!metrics)
		return -1;
	*address = metrics->address;
	return metrics->service.source.fd;
}

void metrics_deafen(struct metrics *metrics)
{
	if (metrics)
		service_deafen(&metrics->service);
}

void metrics_close(struct metrics *metrics)
{
	if (!metrics)
		return;
	service_close(&metrics->service);
	free(metrics);
}
