/* SPDX-License-Identifier: GPL-2.0 */
/* Counters of one worker, in memory that all workers share: anybody may read the sum. */
#ifndef FLASH_STATS_H
#define FLASH_STATS_H

#include <stdint.h>

#include "loop.h"

#define STATS(X) \
	X(accepted)		/* connections accepted */ \
	X(closed)		/* connections closed */ \
	X(requests)		/* request heads parsed */ \
	X(bad_requests)		/* heads refused with a 4xx or 5xx */ \
	X(responses_2xx) X(responses_3xx) X(responses_4xx) X(responses_5xx) \
	X(bytes_sent) \
	X(path_hits) X(path_misses) X(path_evictions) \
	X(lookups_inline)	/* names found without waiting for a disk */ \
	X(lookups_helper)	/* names a helper looked up */ \
	X(lookups_cold)		/* names the loop waited for, a helper process could not help */ \
	X(helpers_lost)		/* helper processes that died at work; their jobs went to others */ \
	X(residency_tests) X(residency_misses) \
	X(reads_helper)		/* chunks a helper read */ \
	X(reads_again)		/* of what was evicted before it could be sent */ \
	X(sends_cold)		/* sent although it was evicted eight times */ \
	X(sends_copied)		/* by a read that may not wait, because memory is short */ \
	X(locked_bytes)		/* residency mlock: locked now */ \
	X(lock_failures)	/* chunks that could not be locked */ \
	X(predict_budget)	/* residency clock: memory the kernel is thought to give */ \
	X(predict_faults)	/* faults of the loop on what was thought to be there */ \
	X(predict_needless)	/* helpers' reads that found all in memory */ \
	X(map_hits) X(map_misses) X(map_evictions) \
	X(truncated)		/* responses cut because the file became shorter */ \
	X(read_errors) \
	X(timeouts_handshake) X(timeouts_header) X(timeouts_body) X(timeouts_send) X(timeouts_idle) X(timeouts_app) \
	X(tls_handshakes)	/* completed */ \
	X(tls_resumed)		/* of these, that resumed a session */ \
	X(tls_failed)		/* that failed, timed out or made room for others */ \
	X(tls_kernel)		/* connections whose records the kernel makes */ \
	X(tls_sendfile)		/* bytes of files that it sent so, from its memory */ \
	X(tls_name_missed)	/* handshakes for a name that no certificate is for */ \
	X(tls_ticket_unknown)	/* with a ticket whose key is not known, or no more */ \
	X(tls_stapled)		/* with an OCSP response */ \
	X(tls_unstapled)	/* without the one asked for, as the file has no good one */ \
	X(http2_connections) X(http2_streams) \
	X(http2_refused)	/* streams beyond a limit */ \
	X(http2_flooded)	/* connections ended for asking for much and nothing */ \
	X(redirected)		/* requests that were sent to HTTPS */ \
	X(handed_back)		/* connections given away with their next request */ \
	X(handback_refused)	/* kept, because they could not be */ \
	X(recycled)		/* idle connections closed to make room */ \
	X(log_lost)		/* lines of the access log that could not be written */ \
	X(accept_paused)	/* out of descriptors or at max_connections */ \
	X(cgi_started) X(fastcgi_requests) X(fastcgi_connects) X(app_errors) \
	X(held_bytes)		/* of requests and answers that wait for their clients: now */ \
	X(held_dropped)		/* heads, bodies and answers that stood still and made room for others */ \
	X(held_refused)		/* for which there was no room: 503 */ \
	X(said_lines)		/* lines that programs wrote to standard error, passed on */ \
	X(said_lost)		/* and left out: too many, or not taken */

struct stats {
#define X(name) uint64_t name;
	STATS(X)
#undef X
	uint64_t stalls[LOOP_STALL_BUCKETS];
	uint64_t stall_max;
	uint64_t held_wanted;		/* ms, when there was last no room for somebody */
};

/* Writers are one thread each, except in mt. */
#define stats_add(stats, name, n) \
	__atomic_store_n(&(stats)->name, (stats)->name + (n), __ATOMIC_RELAXED)

/* The sum over @n workers as a JSON object; returns its length (at most @size - 1). */
int stats_json(const struct stats *all, unsigned int n, char *buf, int size);

#endif
