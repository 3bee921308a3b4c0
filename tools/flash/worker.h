/* SPDX-License-Identifier: GPL-2.0 */
/* One event loop with all that belongs to it; in mt a thread, otherwise a process. */
#ifndef FLASH_WORKER_H
#define FLASH_WORKER_H

#include "cache.h"
#include "config.h"
#include "helper.h"
#include "listener.h"
#include "loop.h"
#include "said.h"
#include "stats.h"

struct log;
struct fcgi_pool;
struct handback;
struct map_cache;
struct predict;

#define SCRATCH_SIZE 16384

struct worker {
	const struct conf *conf;
	struct loop loop;
	struct cache *cache;
	struct helpers *helpers;	/* NULL: everything is done on the loop */
	struct map_cache *maps;		/* transfer mmap */
	struct log *log;		/* NULL: off */
	struct fcgi_pool **fcgi;	/* by struct app.index, made on first use */
	struct list children;
	struct list cgi_waiting;	/* runs beyond cgi_processes */
	unsigned int nr_cgi;
	bool cgi_serving;		/* in next_waiting() of cgi.c */
	struct said said;		/* by programs, on standard error */
	struct stats *stats;		/* this worker's */
	const struct stats *all_stats;
	unsigned int nr_stats;
	unsigned int index;
	unsigned int residency;		/* enum residency, after the probe */
	struct predict *predict;	/* residency clock */
	struct handback *handback;	/* NULL: off */
	unsigned int predictions;
	long faults;			/* the loop's, when they were last looked at */
	uint64_t short_until;		/* ms: memory was seen to be short, see disk_may_lose() */
	char *copy;			/* disk_copy()'s, made on first use */
	bool may_wait;			/* sped, mp, mt: no test before disk accesses */
	bool blocking;			/* mp, mt: sockets block */
	bool draining;			/* finish what there is, then end */

	struct acceptor *acceptors;
	unsigned int nr_acceptors;
	bool accepting;
	struct timer accept_retry;
	struct timer drain_end;
	struct timer http2_drain;	/* its connections are told again */

	/*
	 * Without a request, with a part of a head, of a body, with an answer to take, or a file; the longest
	 * first. At a limit they go.
	 */
	struct list idle, slow, bodies, answers, sending;
	struct list shakes, turns;	/* in a handshake, the longest first; whose step is ours to take, of all */
	unsigned int nr_shakes;
	struct timer room;		/* whether others want what slow, bodies and answers hold */
	struct list conns;
	unsigned int nr_conns;
	struct list free_conns;		/* up to a few, for reuse */
	unsigned int nr_free_conns;

	char in[SCRATCH_SIZE];		/* what was just received */
	char out[SCRATCH_SIZE];		/* responses put together and sent at once */
};

/*
 * Runs worker @index in this process until it is told to end (mt: with all its threads). Drops
 * privileges first; writes a byte to @ready (unless -1) when it serves. Return: 0, or a negative errno when it could not start.
 */
int worker_run(const struct conf *conf, const struct listeners *ls, unsigned int index,
	       struct stats *all_stats, unsigned int nr_stats, int ready);

/* Becomes the user and group of @conf, as far as they are not ours. 0, or a negative errno. */
int worker_drop_privileges(const struct conf *conf);

#endif
