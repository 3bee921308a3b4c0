/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Synthetic traces with the published statistics of the Rice and IBM logs, which are not
 * available themselves: popularity p(i) ~ (i + shift)^-alpha by rank i from 1, sizes
 * ~ i^size_slope times a lognormal, scaled to the data set; the targets beyond rank
 * steady_ranks are asked for only within a window of the trace, which gives back the temporal
 * locality that independent draws lack. See README.md, "Traces".
 */
#ifndef LARDSIM_GEN_H
#define LARDSIM_GEN_H

#include "trace.h"

/**
 * struct gen_params - one synthetic trace
 * @targets, @requests: how many
 * @bytes:        of all targets together
 * @alpha, @shift: popularity
 * @size_slope:   growth of sizes with the rank
 * @sigma:        of the lognormal
 * @steady_ranks: ranks asked for all the time
 * @window:       share of the trace in which each other target's requests fall
 * @hot_targets:  artificial hot targets put before the others; 0: none
 * @hot_size:     bytes of each
 * @hot_share:    share of all requests that they take, 0 to below 1
 * @seed:         any number
 */
struct gen_params {
	uint32_t targets;
	uint64_t requests;
	uint64_t bytes;
	double alpha, shift, size_slope, sigma;
	uint32_t steady_ranks;
	double window;
	uint32_t hot_targets;
	uint32_t hot_size;
	double hot_share;
	uint64_t seed;
};

/* "rice", "ibm", "chess"; NULL: unknown. */
const struct gen_params *gen_preset(const char *name);

/* 0, or -1 with a sentence in @why. */
int gen_trace(struct trace *t, const struct gen_params *p, const char **why);

#endif
