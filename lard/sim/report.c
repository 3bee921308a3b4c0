// SPDX-License-Identifier: GPL-2.0
/* Results for people and for programs. */
#include <jansson.h>
#include "report.h"

static int print_json(FILE *out, json_t *j)
{
	int err = !j || json_dumpf(j, out, JSON_INDENT(2) | JSON_REAL_PRECISION(6));

	json_decref(j);
	return err || fputc('\n', out) == EOF || fflush(out);
}

static json_t *node_json(const struct sim_node *n)
{
	return json_pack("{sI sI sI sI sI sf sf sf}", "requests", (json_int_t)n->requests,
			 "hits", (json_int_t)n->hits, "misses", (json_int_t)n->misses,
			 "joined", (json_int_t)n->joined, "disk_reads", (json_int_t)n->disk_reads,
			 "idle", n->idle, "cpu_busy", n->cpu_busy, "disk_busy", n->disk_busy);
}

static json_t *result_json(const char *policy, const struct sim_params *p,
			   const struct sim_result *r)
{
	json_t *nodes = json_array(), *why = json_object(), *j;

	for (unsigned int n = 0; n < p->nodes; n++)
		json_array_append_new(nodes, node_json(&r->node[n]));
	for (int i = 0; i < LARD_REASONS; i++)
		if (r->why[i])
			json_object_set_new(why, lard_reason_name(i), json_integer(r->why[i]));
	j = json_pack("{ss si sf ss si sf si si}", "policy", policy, "nodes", (int)p->nodes,
		      "memory_mb", p->cache_bytes / 1048576.0, "cache",
		      p->cache == CACHE_LRU ? "lru" : "gds", "disks", (int)p->disks,
		      "cpu_speed", p->cpu_speed, "t_low", (int)p->policy.t_low,
		      "t_high", (int)p->policy.t_high);
	json_object_update_new(j, json_pack("{sI sf sf sf sf sf}",
					    "requests", (json_int_t)r->requests,
					    "seconds", r->seconds, "throughput", r->throughput,
					    "miss_ratio", r->miss_ratio, "idle", r->idle,
					    "delay_ms", r->delay * 1e3));
	json_object_update_new(j, json_pack("{sI sI sI sI sI so so}",
					    "hits", (json_int_t)r->hits,
					    "remote", (json_int_t)r->remote,
					    "misses", (json_int_t)r->misses,
					    "joined", (json_int_t)r->joined,
					    "disk_reads", (json_int_t)r->disk_reads,
					    "decisions", why, "node", nodes));
	return j;
}

int report_result(FILE *out, const char *policy, const struct sim_params *p,
		  const struct sim_result *r, bool json)
{
	if (json)
		return print_json(out, result_json(policy, p, r));
	fprintf(out, "%s, %u nodes of %g MB %s, %u disks, CPU %gx\n", policy, p->nodes,
		p->cache_bytes / 1048576.0, p->cache == CACHE_LRU ? "LRU" : "GDS", p->disks,
		p->cpu_speed);
	fprintf(out, "  throughput  %.0f requests/s (%llu in %.1f s)\n", r->throughput,
		(unsigned long long)r->requests, r->seconds);
	fprintf(out, "  misses      %.2f %% (%llu of them joined a read)\n", 100 * r->miss_ratio,
		(unsigned long long)r->joined);
	fprintf(out, "  idle time   %.2f %%\n", 100 * r->idle);
	fprintf(out, "  delay       %.1f ms\n", 1e3 * r->delay);
	for (unsigned int n = 0; n < p->nodes; n++)
		fprintf(out, "  node %-2u  %9llu requests  CPU %3.0f %%  disk %3.0f %%\n", n + 1,
			(unsigned long long)r->node[n].requests, 100 * r->node[n].cpu_busy,
			100 * r->node[n].disk_busy);
	return fflush(out) != 0;
}

static json_t *loads_json(const struct training *t)
{
	json_t *loads = json_array();

	for (uint32_t load = 1; load < TRAIN_LOADS; load++) {
		double cpu = train_busy(t, load, true), disk = train_busy(t, load, false);

		if (cpu >= 0)
			json_array_append_new(loads, json_pack("{si sf sf}", "load", (int)load,
							       "cpu_busy", cpu, "disk_busy", disk));
	}
	return loads;
}

int report_training(FILE *out, const struct training *t, double busy, bool json)
{
	bool cpu;
	uint32_t proposed = train_propose(t, busy, &cpu);

	if (json)
		return print_json(out, json_pack("{si ss sf so}", "t_low", (int)proposed, "busiest",
						 cpu ? "cpu" : "disk", "busy", busy, "loads",
						 loads_json(t)));
	fprintf(out, "load  CPU busy  disk busy\n");
	for (uint32_t load = 1; load < TRAIN_LOADS; load += 1 + load / 4)
		if (train_busy(t, load, true) >= 0)
			fprintf(out, "%4u  %6.1f %%  %7.1f %%\n", load,
				100 * train_busy(t, load, true), 100 * train_busy(t, load, false));
	if (proposed)
		fprintf(out, "from %u connections on the %s of a node is busy %g %% of the time: "
			"t_low %u\n", proposed, cpu ? "CPU" : "disk", 100 * busy, proposed);
	else
		fprintf(out, "no load kept a node's %s busy %g %% of the time\n",
			cpu ? "CPU" : "disk", 100 * busy);
	return fflush(out) != 0;
}

int report_facts(FILE *out, const struct trace *t, const struct trace_facts *f, bool json)
{
	if (json)
		return print_json(out, json_pack("{sI sI sI sf sf sf s[III]}",
						 "targets", (json_int_t)t->targets,
						 "requests", (json_int_t)t->requests,
						 "bytes", (json_int_t)f->bytes,
						 "mean_bytes", f->mean, "top_share", f->top,
						 "first_share", f->compulsory, "coverage_97_98_99",
						 (json_int_t)f->coverage[0],
						 (json_int_t)f->coverage[1],
						 (json_int_t)f->coverage[2]));
	fprintf(out, "%u targets, %.0f MB, %llu requests of %.1f KB on average\n", t->targets,
		f->bytes / 1048576.0, (unsigned long long)t->requests, f->mean / 1024);
	fprintf(out, "97/98/99 %% of the requests are for %.0f/%.0f/%.0f MB\n",
		f->coverage[0] / 1048576.0, f->coverage[1] / 1048576.0, f->coverage[2] / 1048576.0);
	fprintf(out, "the hottest target takes %.1f %%, first requests %.1f %%\n", 100 * f->top,
		100 * f->compulsory);
	return fflush(out) != 0;
}
