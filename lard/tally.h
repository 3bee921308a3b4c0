/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What became of requests, and how long they took. Each worker has its own tally, which it alone
 * writes and worker 0 reads: no locks.
 */
#ifndef LARD_TALLY_H
#define LARD_TALLY_H

#include <stdatomic.h>
#include <stdint.h>

/**
 * enum outcome - how a request ended
 * @OUTCOME_HANDOFF: another node owns its connection; how long that node takes is not known here
 * @OUTCOME_PROXY:   a back-end's answer went to the client
 * @OUTCOME_CACHE:   so did one of the cache
 * @OUTCOME_REFUSED: so did an error of ours
 */
enum outcome { OUTCOME_HANDOFF, OUTCOME_PROXY, OUTCOME_CACHE, OUTCOME_REFUSED, OUTCOMES };

#define TALLY_CODES	5	/* 1xx to 5xx */
#define TALLY_BUCKETS	17	/* the last one: any longer time */

/**
 * struct tally - what became of requests
 * @codes:   answers by the first digit of their status
 * @took:    requests by the time from the end of their header to the end of their answer, or to the
 *	     handoff: @buckets by upper bound, each for itself; the sum in @usec
 */
struct tally {
	_Atomic uint64_t codes[TALLY_CODES];
	struct {
		_Atomic uint64_t buckets[TALLY_BUCKETS];
		_Atomic uint64_t usec;
	} took[OUTCOMES];
};

/* The same of all workers, as it was at one time. */
struct tally_sum {
	uint64_t codes[TALLY_CODES];
	struct {
		uint64_t buckets[TALLY_BUCKETS];
		uint64_t usec;
	} took[OUTCOMES];
};

struct conn;
struct lardd;

extern const char *const outcome_names[OUTCOMES];
/* Upper bounds in microseconds; the last one is UINT64_MAX. */
extern const uint64_t tally_bounds[TALLY_BUCKETS];

/* A status went out whose answer did not end as it should, or whose time says nothing. */
void tally_code(const struct conn *conn, unsigned int status);
/* The request is over. @status 0: it is not known. */
void tally_request(const struct conn *conn, enum outcome outcome, unsigned int status);
/* Worker 0. */
void tally_read(const struct lardd *lardd, struct tally_sum *sum);
uint64_t tally_count(const struct tally_sum *sum, enum outcome outcome);

#endif
