// SPDX-License-Identifier: GPL-2.0
/* Synthetic traces. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "gen.h"

#define MB	(1024.0 * 1024.0)
#define SIZE_FLOOR	100

static const struct {
	const char *name;
	struct gen_params params;
} presets[] = {
	{ "rice", { .targets = 37703, .requests = 2290000, .bytes = 1418 * MB, .alpha = 1.30,
		    .shift = 15.5, .size_slope = 0.20, .sigma = 1, .steady_ranks = 5000,
		    .window = 0.15, .seed = 1 } },
	{ "ibm", { .targets = 38527, .requests = 5000000, .bytes = 1029 * MB, .alpha = 1.54,
		   .shift = 9.6, .size_slope = 0.30, .sigma = 1, .steady_ranks = 5000,
		   .window = 0.30, .seed = 1 } },
	/* A few hot pages that fit every node's memory: the best case for load alone. */
	{ "chess", { .targets = 500, .requests = 1000000, .bytes = 15 * MB, .alpha = 1.2,
		     .shift = 5, .size_slope = 0.1, .sigma = 1, .steady_ranks = 500,
		     .window = 1, .seed = 1 } },
};

const struct gen_params *gen_preset(const char *name)
{
	for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++)
		if (!strcmp(presets[i].name, name))
			return &presets[i].params;
	return NULL;
}

/* xoshiro256**: the same trace from the same seed on every machine. */
struct random {
	uint64_t s[4];
};

static uint64_t rotl(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

static uint64_t random_next(struct random *r)
{
	uint64_t *s = r->s, result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

/* splitmix64 fills the state, as its authors advise. */
static void random_seed(struct random *r, uint64_t seed)
{
	for (int i = 0; i < 4; i++) {
		uint64_t z = seed += 0x9e3779b97f4a7c15ULL;

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
		r->s[i] = z ^ (z >> 31);
	}
}

static double random_unit(struct random *r)
{
	return (random_next(r) >> 11) * 0x1p-53;
}

static double random_normal(struct random *r)
{
	double u = 1 - random_unit(r), v = random_unit(r);

	return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

static void make_sizes(uint32_t *size, const struct gen_params *p, struct random *r, double *weight)
{
	double sum = 0, scale;

	for (uint32_t i = 0; i < p->targets; i++) {
		weight[i] = pow(i + 1, p->size_slope) * exp(p->sigma * random_normal(r));
		sum += weight[i];
	}
	scale = p->bytes / sum;
	for (uint32_t i = 0; i < p->targets; i++)
		size[i] = fmin(fmax(weight[i] * scale, SIZE_FLOOR), UINT32_MAX);
}

/* Cumulative popularity; cdf[targets - 1] is 1. */
static void make_popularity(double *cdf, const struct gen_params *p)
{
	double sum = 0;

	for (uint32_t i = 0; i < p->targets; i++) {
		sum += pow(i + 1 + p->shift, -p->alpha);
		cdf[i] = sum;
	}
	for (uint32_t i = 0; i < p->targets; i++)
		cdf[i] /= sum;
}

static uint32_t draw(const double *cdf, uint32_t n, double u)
{
	uint32_t low = 0, high = n - 1;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (cdf[mid] > u)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

struct stamped {
	double when;
	uint32_t target;
};

static int by_time(const void *a, const void *b)
{
	const struct stamped *x = a, *y = b;

	if (x->when != y->when)
		return x->when < y->when ? -1 : 1;
	return x->target < y->target ? -1 : x->target > y->target;
}

/*
 * Popularity decides each request; a target that nobody drew then takes the place of a random
 * request for one that has more, so that all of the data set counts.
 */
static void choose(struct stamped *request, const struct gen_params *p, struct random *r,
		   const double *cdf, uint32_t *count)
{
	for (uint64_t n = 0; n < p->requests; n++) {
		uint32_t i = draw(cdf, p->targets, random_unit(r));

		request[n].target = i;
		count[i]++;
	}
	for (uint32_t i = 0; i < p->targets; i++) {
		uint64_t n;

		if (count[i])
			continue;
		do {
			n = random_next(r) % p->requests;
		} while (count[request[n].target] < 2);
		count[request[n].target]--;
		request[n].target = i;
		count[i] = 1;
	}
}

static void fill(struct stamped *request, const struct gen_params *p, struct random *r,
		 double *start)
{
	for (uint32_t i = 0; i < p->targets; i++)
		start[i] = random_unit(r);
	for (uint64_t n = 0; n < p->requests; n++) {
		uint32_t i = request[n].target;

		request[n].when = i < p->steady_ranks ? random_unit(r) :
				  fmod(start[i] + random_unit(r) * p->window, 1.0);
		if (p->hot_targets && random_unit(r) < p->hot_share) {
			request[n].target = p->targets + random_next(r) % p->hot_targets;
			request[n].when = random_unit(r);
		}
	}
	qsort(request, p->requests, sizeof(*request), by_time);
}

static const char *complaint(const struct gen_params *p)
{
	if (!p->targets || p->requests < p->targets || p->requests > UINT32_MAX)
		return "it needs at least one target, and as many requests as targets";
	if (!(p->window > 0 && p->window <= 1))
		return "the window must be more than 0 and at most 1";
	if (p->hot_targets && (!(p->hot_share > 0 && p->hot_share < 1) || !p->hot_size))
		return "hot targets need a size, and a share between 0 and 1";
	if (p->hot_targets > UINT32_MAX - p->targets)
		return "there are too many targets";
	return NULL;
}

int gen_trace(struct trace *t, const struct gen_params *p, const char **why)
{
	struct stamped *request;
	struct random r;
	double *cdf, *scratch;
	uint32_t *count;
	int err = -1;

	*why = complaint(p);
	if (*why)
		return -1;
	*why = "there is not enough memory";
	request = malloc(p->requests * sizeof(*request));
	cdf = malloc(p->targets * sizeof(*cdf));
	scratch = malloc(p->targets * sizeof(*scratch));
	count = calloc(p->targets, sizeof(*count));
	if (!request || !cdf || !scratch || !count ||
	    trace_alloc(t, p->targets + p->hot_targets, p->requests))
		goto out;
	random_seed(&r, p->seed);
	make_sizes(t->size, p, &r, scratch);
	for (uint32_t i = 0; i < p->hot_targets; i++)
		t->size[p->targets + i] = p->hot_size;
	make_popularity(cdf, p);
	choose(request, p, &r, cdf, count);
	fill(request, p, &r, scratch);
	for (uint64_t n = 0; n < p->requests; n++)
		t->token[n] = request[n].target;
	err = p->hot_targets ? trace_rank(t) : 0;
	t->flags |= TRACE_RANKED;
out:
	free(request);
	free(cdf);
	free(scratch);
	free(count);
	return err;
}
