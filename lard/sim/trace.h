/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Traces: which target is asked for, in which order, and how large each target is.
 *
 * Compact format, little endian, made by `lardsim gen` and `lardsim convert`:
 *
 *	8 bytes		"FLTTRC1\n"
 *	u32		number of targets, T
 *	u32		flags: bit 0, target numbers are popularity ranks
 *	u64		number of requests, R
 *	u32[T]		size of each target in bytes
 *	u32[R]		target of each request, 0 to T - 1
 */
#ifndef LARDSIM_TRACE_H
#define LARDSIM_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TRACE_RANKED	(1U << 0)

/**
 * struct trace - a trace in memory
 * @targets:  number of targets
 * @requests: number of requests
 * @flags:    TRACE_RANKED
 * @size:     bytes of each target, at least 1
 * @token:    target of each request
 */
struct trace {
	uint32_t targets;
	uint64_t requests;
	uint32_t flags;
	uint32_t *size;
	uint32_t *token;
};

/* 0, or -1 with a sentence in @why. A failed call leaves nothing allocated. */
int trace_alloc(struct trace *t, uint32_t targets, uint64_t requests);
int trace_load(struct trace *t, const char *path, const char **why);
int trace_save(const struct trace *t, const char *path, const char **why);
void trace_free(struct trace *t);

/**
 * struct clf_stats - what became of a log's lines
 * @used:      requests taken
 * @malformed: lines that are not Common or Combined Log Format
 * @skipped:   well-formed but not a GET with status 200 or 304 and a size
 */
struct clf_stats {
	uint64_t used, malformed, skipped;
};

/*
 * Common or Combined Log Format. A target is the request's URL with its query; its size is the
 * largest one logged for it with status 200. Targets never seen with a size are left out.
 */
int clf_read(struct trace *t, FILE *log, struct clf_stats *stats, const char **why);

/* Renumber targets by popularity, the most requested first (a disk layout needs ranks). */
int trace_rank(struct trace *t);

/**
 * struct trace_facts - what describes a trace
 * @bytes:     sum of target sizes
 * @mean:      mean bytes of a request
 * @top:       share of the most requested target
 * @coverage:  bytes of the most requested targets that get 97, 98 and 99 percent of the requests
 * @compulsory: share of requests that are the first for their target
 */
struct trace_facts {
	uint64_t bytes;
	double mean, top, compulsory;
	uint64_t coverage[3];
};

int trace_describe(const struct trace *t, struct trace_facts *facts);

#endif
