/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The model of a cluster: nodes with one first-come-first-served CPU queue, one such queue for
 * each disk, and a cache of whole files; a front-end that costs nothing and keeps the admission
 * limit. The policy is the dispatcher's own engine (lard/policy.h), the same object code.
 */
#ifndef LARDSIM_CLUSTER_H
#define LARDSIM_CLUSTER_H

#include "cache.h"
#include "lard/policy.h"
#include "trace.h"
#include "train.h"

#define SIM_MAX_NODES	LARD_MAX_NODES
#define SIM_MAX_DISKS	16

/**
 * enum sim_model - who chooses the node, and what a miss may do
 * @SIM_ENGINE: the policy engine chooses; a miss goes to the disk
 * @SIM_LB_GC:  the front-end knows every cache: the node that has the target, else the one with
 *		the globally least valuable victim
 * @SIM_WRR_GMS: weighted round-robin; a local miss may be served from a peer's memory
 */
enum sim_model { SIM_ENGINE, SIM_LB_GC, SIM_WRR_GMS };

/**
 * struct sim_costs - service times of Pai 1999, section 3.2.1, in nanoseconds of a 1x CPU
 * @connection:  set-up, and again tear-down
 * @transmit:    for each 512 bytes
 * @seek:        first access to a file
 * @reseek:      for each further @extent bytes of it
 * @transfer:    for each 4096 bytes
 * @extent:      bytes read between seeks
 */
struct sim_costs {
	uint64_t connection, transmit, seek, reseek, transfer;
	uint32_t extent;
};

#define SIM_COSTS_DEFAULT {		\
	.connection = 145000,		\
	.transmit = 40000,		\
	.seek = 28000000,		\
	.reseek = 14000000,		\
	.transfer = 410000,		\
	.extent = 44 * 1024,		\
}

struct sim_params {
	enum sim_model model;
	struct lard_params policy;
	unsigned int nodes, disks;
	uint64_t cache_bytes;
	enum cache_kind cache;
	double cpu_speed;
	struct sim_costs costs;
	uint32_t table;			/* mappings the engine remembers; 0: all targets */
	uint64_t requests;		/* of the trace, from its start; 0: all */
	uint64_t warm;			/* answers that throughput and delay leave out */
	uint64_t seed;
	struct training *training;	/* filled by a training phase; NULL: none */
};

struct sim_node {
	uint64_t requests, hits, misses, joined, disk_reads;
	double idle, cpu_busy, disk_busy;	/* shares of the simulated time */
};

/**
 * struct sim_result - what came out
 * @seconds:  simulated time, all of it
 * @throughput, @delay: after the first @warm answers; @delay in seconds from dispatch to the last byte
 * @hits:     served from the memory of the node asked
 * @remote:   served from a peer's memory (SIM_WRR_GMS)
 * @misses:   all others; @joined of them waited for a read already under way
 * @idle:     mean share of time in which a node's load was below 0.4 T_low
 * @why:      decisions by enum lard_reason
 */
struct sim_result {
	uint64_t requests, hits, remote, misses, joined, disk_reads;
	double seconds, throughput, miss_ratio, idle, delay;
	uint64_t why[LARD_REASONS];
	struct sim_node node[SIM_MAX_NODES];
};

/* 0, or -1 with a sentence in @why. */
int sim_run(const struct trace *t, const struct sim_params *p, struct sim_result *result,
	    const char **why);

#endif
