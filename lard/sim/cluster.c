// SPDX-License-Identifier: GPL-2.0
/* The model of a cluster; after Pai 1999, section 3.2. */
#include <stdlib.h>
#include <string.h>
#include "cluster.h"
#include "events.h"

#define NONE	UINT32_MAX

enum stage {
	STAGE_SETUP,	/* connection set-up done: look into the cache */
	STAGE_PEER,	/* a peer has sent the file */
	STAGE_READ,	/* one extent is in memory */
	STAGE_SENT,	/* that extent is on its way to the client */
	STAGE_DONE,	/* connection torn down */
};

struct request {
	uint64_t start;
	uint32_t target, offset;
	uint32_t next;		/* next one waiting for the same read, or next free */
	uint8_t node, stage;
};

/**
 * struct node - one back-end
 * @cpu_free, @disk_free: when the queue will have served all that is in it now
 * @reader:   for each target, the request that reads it from disk, plus one
 * @waiters:  by request, the first of those that joined its read
 * @seen, @level: training: until when it was observed, and its load since then
 */
struct node {
	struct cache cache;
	uint64_t cpu_free, disk_free[SIM_MAX_DISKS];
	uint64_t cpu_busy, disk_busy, idle, idle_since;
	uint64_t seen;
	uint32_t level;
	uint32_t *reader;
	bool idling;
	struct sim_node stat;
};

struct sim {
	const struct trace *trace;
	struct sim_params p;
	struct lard *lard;
	struct events events;
	struct node node[SIM_MAX_NODES];
	struct request *request;
	uint32_t *waiters;
	uint32_t slots, free;
	uint64_t now, next, limit, ended, counted_from;
	uint64_t delay, remote, why[LARD_REASONS];
	uint32_t idle_below;
	double inflation;
	uint64_t clock;
};

/* One number for one target: what the dispatcher's hash of the URL is. */
static uint64_t target_key(uint32_t target)
{
	uint64_t z = target + 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static uint64_t units(uint64_t bytes, uint32_t unit)
{
	return (bytes + unit - 1) / unit;
}

static uint64_t overlap(uint64_t from, uint64_t to, uint64_t busy_until)
{
	uint64_t end = busy_until < to ? busy_until : to;

	return end > from ? end - from : 0;
}

/* Before anything of the node changes: what it did since it last changed. */
static void observe(struct sim *s, unsigned int n)
{
	struct training *t = s->p.training;
	struct node *node = &s->node[n];
	uint64_t disk = 0;

	if (!t)
		return;
	if (t->step >= 0) {
		for (unsigned int d = 0; d < s->p.disks; d++)
			disk += overlap(node->seen, s->now, node->disk_free[d]);
		t->time[node->level] += s->now - node->seen;
		t->cpu[node->level] += overlap(node->seen, s->now, node->cpu_free);
		t->disk[node->level] += disk / s->p.disks;
	}
	node->seen = s->now;
	node->level = lard_load(s->lard, n);
	if (node->level >= TRAIN_LOADS)
		node->level = TRAIN_LOADS - 1;
}

static void note_load(struct sim *s, unsigned int n)
{
	struct node *node = &s->node[n];
	bool idle = lard_load(s->lard, n) < s->idle_below;

	observe(s, n);
	if (idle == node->idling)
		return;
	if (idle)
		node->idle_since = s->now;
	else
		node->idle += s->now - node->idle_since;
	node->idling = idle;
}

static void run_cpu(struct sim *s, uint32_t r, unsigned int n, uint64_t cost, enum stage then)
{
	struct node *node = &s->node[n];

	observe(s, n);
	cost /= s->p.cpu_speed;
	if (node->cpu_free < s->now)
		node->cpu_free = s->now;
	node->cpu_free += cost;
	node->cpu_busy += cost;
	s->request[r].stage = then;
	events_push(&s->events, node->cpu_free, r);
}

static uint64_t send_cost(const struct sim *s, uint64_t bytes)
{
	return units(bytes, 512) * s->p.costs.transmit;
}

static void send_all(struct sim *s, uint32_t r)
{
	struct request *q = &s->request[r];

	run_cpu(s, r, q->node, send_cost(s, s->trace->size[q->target]) + s->p.costs.connection,
		STAGE_DONE);
}

static uint32_t extent_at(const struct sim *s, const struct request *q)
{
	uint32_t left = s->trace->size[q->target] - q->offset;

	return left < s->p.costs.extent ? left : s->p.costs.extent;
}

static void read_extent(struct sim *s, uint32_t r)
{
	struct request *q = &s->request[r];
	struct node *node = &s->node[q->node];
	uint64_t *disk = &node->disk_free[q->target % s->p.disks];
	uint64_t cost = (q->offset ? s->p.costs.reseek : s->p.costs.seek) +
			units(extent_at(s, q), 4096) * s->p.costs.transfer;

	observe(s, q->node);
	if (*disk < s->now)
		*disk = s->now;
	*disk += cost;
	node->disk_busy += cost;
	q->stage = STAGE_READ;
	events_push(&s->events, *disk, r);
}

static int peer_with(const struct sim *s, unsigned int self, uint32_t target)
{
	for (unsigned int n = 0; n < s->p.nodes; n++)
		if (n != self && cache_has(&s->node[n].cache, target))
			return n;
	return -1;
}

static bool has_copy_elsewhere(const struct sim *s, unsigned int self, uint32_t target)
{
	return peer_with(s, self, target) >= 0;
}

/*
 * Global replacement at no cost: room is made by dropping a copy of what a peer has too; the
 * only copy of a more valuable file takes the place of the least valuable one in the cluster.
 */
static void global_insert(struct sim *s, unsigned int n, uint32_t target)
{
	struct cache *c = &s->node[n].cache;

	while (cache_keeps(c, target) && c->count &&
	       c->used + s->trace->size[target] > c->capacity) {
		uint32_t victim = cache_victim(c);
		double priority = c->priority[victim];
		struct cache *least = NULL;

		if (c->kind == CACHE_GDS && priority > *c->inflation)
			*c->inflation = priority;
		cache_remove(c, victim);
		c->evictions++;
		if (has_copy_elsewhere(s, n, victim))
			continue;
		for (unsigned int i = 0; i < s->p.nodes; i++) {
			struct cache *peer = &s->node[i].cache;

			if (i == n || !peer->count)
				continue;
			if (!least || peer->priority[cache_victim(peer)] <
				      least->priority[cache_victim(least)])
				least = peer;
		}
		if (least && least->priority[cache_victim(least)] < priority)
			cache_insert(least, victim);
	}
	cache_insert(c, target);
}

static void file_read(struct sim *s, uint32_t r)
{
	struct request *q = &s->request[r];
	struct node *node = &s->node[q->node];
	uint32_t w = s->waiters[r];

	node->reader[q->target] = 0;
	if (s->p.model == SIM_WRR_GMS)
		global_insert(s, q->node, q->target);
	else
		cache_insert(&node->cache, q->target);
	s->waiters[r] = NONE;
	while (w != NONE) {
		uint32_t next = s->request[w].next;

		send_all(s, w);
		w = next;
	}
}

static void look_up(struct sim *s, uint32_t r)
{
	struct request *q = &s->request[r];
	struct node *node = &s->node[q->node];
	uint32_t reader = node->reader[q->target];
	int peer;

	if (cache_touch(&node->cache, q->target)) {
		node->stat.hits++;
		send_all(s, r);
		return;
	}
	if (s->p.model == SIM_WRR_GMS) {
		peer = peer_with(s, q->node, q->target);
		if (peer >= 0) {
			s->remote++;
			cache_touch(&s->node[peer].cache, q->target);
			run_cpu(s, r, peer, send_cost(s, s->trace->size[q->target]), STAGE_PEER);
			return;
		}
	}
	node->stat.misses++;
	if (reader) {
		node->stat.joined++;
		q->next = s->waiters[reader - 1];
		s->waiters[reader - 1] = r;
		return;
	}
	node->stat.disk_reads++;
	node->reader[q->target] = r + 1;
	read_extent(s, r);
}

static void finish(struct sim *s, uint32_t r)
{
	struct request *q = &s->request[r];

	if (s->ended++ >= s->p.warm)
		s->delay += s->now - q->start;
	else
		s->counted_from = s->now;
	lard_release(s->lard, q->node);
	note_load(s, q->node);
	q->next = s->free;
	s->free = r;
}

static void step(struct sim *s, uint32_t r)
{
	struct request *q = &s->request[r];
	uint32_t bytes;

	switch (q->stage) {
	case STAGE_SETUP:
		look_up(s, r);
		break;
	case STAGE_PEER:
		global_insert(s, q->node, q->target);
		send_all(s, r);
		break;
	case STAGE_READ:
		bytes = extent_at(s, q);
		q->offset += bytes;
		if (q->offset < s->trace->size[q->target]) {
			run_cpu(s, r, q->node, send_cost(s, bytes), STAGE_SENT);
			break;
		}
		file_read(s, r);
		run_cpu(s, r, q->node, send_cost(s, bytes) + s->p.costs.connection, STAGE_DONE);
		break;
	case STAGE_SENT:
		read_extent(s, r);
		break;
	case STAGE_DONE:
		finish(s, r);
		break;
	}
}

/* Where the target is or is on its way to, else where the least valuable victim is. */
static int choose_cached(struct sim *s, uint32_t target)
{
	int best = 0;
	double least = 0;

	for (unsigned int n = 0; n < s->p.nodes; n++)
		if (cache_has(&s->node[n].cache, target) || s->node[n].reader[target])
			return n;
	for (unsigned int n = 0; n < s->p.nodes; n++) {
		struct cache *c = &s->node[n].cache;
		double priority = -1;

		if (c->used + s->trace->size[target] > c->capacity && c->count)
			priority = c->priority[cache_victim(c)];
		else
			priority = -1.0 / (1 + c->used);	/* room: the emptiest first */
		if (!n || priority < least) {
			least = priority;
			best = n;
		}
	}
	return best;
}

static bool slot_grow(struct sim *s)
{
	uint32_t n = s->slots ? 2 * s->slots : 1024;
	struct request *request = realloc(s->request, n * sizeof(*request));
	uint32_t *waiters;

	if (!request)
		return false;
	s->request = request;
	waiters = realloc(s->waiters, n * sizeof(*waiters));
	if (!waiters)
		return false;
	s->waiters = waiters;
	for (uint32_t i = s->slots; i < n; i++) {
		s->waiters[i] = NONE;
		s->request[i].next = i + 1 < n ? i + 1 : NONE;
	}
	s->free = s->slots;
	s->slots = n;
	return events_reserve(&s->events, n);
}

/* The next step of a training phase. */
static void train(struct sim *s)
{
	struct lard_params p = *lard_get_params(s->lard);
	int before = s->p.training->step;

	p.max_outstanding = train_limit(s->next, s->limit, s->p.nodes, &s->p.training->step);
	if (s->p.training->step != before)
		lard_set_params(s->lard, &p, s->now / 1000);
}

/* Late binding: the next request of the trace goes out as soon as the limit permits. */
static bool admit(struct sim *s)
{
	while (s->next < s->limit && lard_has_room(s->lard)) {
		uint32_t target = s->trace->token[s->next], r;
		struct lard_decision d;
		int node;

		if (s->p.training)
			train(s);
		if (s->free == NONE && !slot_grow(s))
			return false;
		if (s->p.model == SIM_LB_GC) {
			node = choose_cached(s, target);
			lard_charge(s->lard, node);
		} else {
			node = lard_dispatch(s->lard, target_key(target), s->now / 1000, &d);
			if (node < 0)
				return true;
			s->why[d.why]++;
		}
		s->next++;
		r = s->free;
		s->free = s->request[r].next;
		s->request[r] = (struct request){
			.start = s->now, .target = target, .node = node, .next = NONE,
		};
		s->node[node].stat.requests++;
		note_load(s, node);
		run_cpu(s, r, node, s->p.costs.connection, STAGE_SETUP);
	}
	return true;
}

static int cluster_build(struct sim *s)
{
	char name[LARD_NAME_MAX];

	s->free = NONE;
	s->limit = s->p.requests && s->p.requests < s->trace->requests ? s->p.requests :
		   s->trace->requests;
	s->idle_below = s->p.policy.t_low * 4 / 10;
	s->lard = lard_new(&s->p.policy, s->p.table ? s->p.table : s->trace->targets, s->p.seed);
	if (!s->lard)
		return -1;
	for (unsigned int n = 0; n < s->p.nodes; n++) {
		struct node *node = &s->node[n];

		snprintf(name, sizeof(name), "be%u", n + 1);
		if (lard_node_add(s->lard, name, 100, 0) != (int)n)
			return -1;
		lard_node_state(s->lard, n, LARD_UP, 0);
		node->reader = calloc(s->trace->targets, sizeof(*node->reader));
		if (!node->reader || cache_init(&node->cache, s->p.cache, s->p.cache_bytes,
						s->trace->size, s->trace->targets))
			return -1;
		node->idling = true;
		if (s->p.model != SIM_ENGINE) {
			node->cache.inflation = &s->inflation;
			node->cache.clock = &s->clock;
		}
	}
	return 0;
}

static void cluster_free(struct sim *s)
{
	for (unsigned int n = 0; n < s->p.nodes; n++) {
		free(s->node[n].reader);
		cache_free(&s->node[n].cache);
	}
	events_free(&s->events);
	free(s->request);
	free(s->waiters);
	if (s->lard)
		lard_free(s->lard);
	free(s);
}

static void summarize(struct sim *s, struct sim_result *out)
{
	double end = s->now ? s->now : 1, counted = s->now - s->counted_from;

	memset(out, 0, sizeof(*out));
	for (unsigned int n = 0; n < s->p.nodes; n++) {
		struct node *node = &s->node[n];
		struct sim_node *stat = &out->node[n];

		if (node->idling)
			node->idle += s->now - node->idle_since;
		*stat = node->stat;
		stat->idle = node->idle / end;
		stat->cpu_busy = node->cpu_busy / end;
		stat->disk_busy = node->disk_busy / end / s->p.disks;
		out->requests += stat->requests;
		out->hits += stat->hits;
		out->misses += stat->misses;
		out->joined += stat->joined;
		out->disk_reads += stat->disk_reads;
		out->idle += stat->idle / s->p.nodes;
	}
	memcpy(out->why, s->why, sizeof(out->why));
	out->remote = s->remote;
	out->seconds = s->now / 1e9;
	if (out->requests)
		out->miss_ratio = (double)out->misses / out->requests;
	if (s->ended > s->p.warm) {
		out->throughput = (s->ended - s->p.warm) / (counted > 0 ? counted / 1e9 : 1e-9);
		out->delay = s->delay / 1e9 / (s->ended - s->p.warm);
	}
}

static const char *complaint(const struct trace *t, const struct sim_params *p)
{
	const char *why = NULL;

	if (!t->targets || !t->requests)
		return "the trace is empty";
	if (!p->nodes || p->nodes > SIM_MAX_NODES)
		return "there must be 1 to 64 nodes";
	if (!p->disks || p->disks > SIM_MAX_DISKS)
		return "there must be 1 to 16 disks a node";
	if (!(p->cpu_speed > 0) || !p->costs.extent)
		return "the CPU speed and the extent must be more than 0";
	if (p->warm >= (p->requests && p->requests < t->requests ? p->requests : t->requests))
		return "nothing is left to count after the warm-up";
	lard_check_params(&p->policy, &why);
	return why;
}

int sim_run(const struct trace *t, const struct sim_params *p, struct sim_result *result,
	    const char **why)
{
	struct sim *s;
	int err = -1;
	uint32_t r;

	*why = complaint(t, p);
	if (*why)
		return -1;
	*why = "there is not enough memory";
	s = calloc(1, sizeof(*s));
	if (!s)
		return -1;
	s->trace = t;
	s->p = *p;
	if (p->model == SIM_WRR_GMS)
		s->p.policy.policy = LARD_WRR;
	if (cluster_build(s) || !admit(s))
		goto out;
	while (events_pop(&s->events, &s->now, &r)) {
		step(s, r);
		if (!admit(s))
			goto out;
	}
	summarize(s, result);
	err = 0;
out:
	cluster_free(s);
	return err;
}
