/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A training phase (Pai 1999, section 3.1.4): the nodes say how busy they are, which the policies
 * never ask, while the admission limit goes through a ladder of loads. The smallest load at which
 * a node's busiest resource has no idle time left is the T_low to take.
 */
#ifndef LARDSIM_TRAIN_H
#define LARDSIM_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#define TRAIN_LOADS	256	/* loads told apart; more count as the last */

/**
 * struct training - what the nodes said, by load
 * @time:      nanoseconds spent at a load, over all nodes
 * @cpu, @disk: of them, with that resource busy
 * @step:      of the ladder that is now in force; -1: warming up
 */
struct training {
	uint64_t time[TRAIN_LOADS], cpu[TRAIN_LOADS], disk[TRAIN_LOADS];
	int step;
};

/**
 * train_limit() - the admission limit in force
 * @done, @all: requests of the trace that went out, and all; the first half warms the caches
 * @nodes:      how many
 * @step:       its place on the ladder, -1: warming up
 *
 * Return: most requests in the cluster; 0: the automatic limit.
 */
uint32_t train_limit(uint64_t done, uint64_t all, unsigned int nodes, int *step);

/**
 * train_propose() - the T_low that the training shows
 * @busy: share of time that counts as "no idle time left", e.g. 0.95
 * @cpu:  whether that resource is the busiest, otherwise the disk
 *
 * Return: a load, or 0 when no load kept the nodes as busy as that.
 */
uint32_t train_propose(const struct training *t, double busy, bool *cpu);

/* Share of time at @load, and at neighbouring ones, that the resource was busy; -1: hardly seen. */
double train_busy(const struct training *t, uint32_t load, bool cpu);

#endif
