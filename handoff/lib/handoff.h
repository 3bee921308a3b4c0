/* SPDX-License-Identifier: MIT */
/* libhandoff: /dev/handoff for programs. Errors are negative errno values. */
#ifndef HANDOFF_H
#define HANDOFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <flotilla/early_table.h>
#include <flotilla/flotilla.h>
#include <flotilla/handoff.h>

struct handoff;

/* Opens the device for the calling thread's network namespace; non-blocking. */
int handoff_open(struct handoff **out);
void handoff_close(struct handoff *h);

/* Descriptor to poll for POLLIN: events are waiting. */
int handoff_fd(const struct handoff *h);

int handoff_info(struct handoff *h, struct hof_info *info);

/* Returns 0 or a negative errno; *refusal (may be NULL) then says more. */
int handoff_submit(struct handoff *h, int fd, uint32_t node, uint64_t cookie,
		   uint32_t flags, uint32_t timeout_ms, enum flt_refusal *refusal);

/*
 * The same with the keys of a TLS connection, where HOF_FEATURE_TLS is, or with nothing but a port, where the
 * kernel has them (HOF_FEATURE_TLS_PORT); NULL: in clear text.
 */
int handoff_submit_tls(struct handoff *h, int fd, uint32_t node, uint64_t cookie, uint32_t flags,
		       uint32_t timeout_ms, const struct flt_tls *tls, enum flt_refusal *refusal);

/*
 * Connections that had events to read when handoff_submit() last succeeded, or handoff_events()
 * filled its array: who asked for HOF_TELL_LATER and reads them then is not woken up for them.
 */
unsigned int handoff_waiting(const struct handoff *h);

/* Reads up to max events without blocking; their number, 0 when there are none. */
int handoff_events(struct handoff *h, struct hof_event *events, size_t max);

/*
 * Connections of an IPv4 service that are opened before there is a socket, by a table of ours (see
 * flotilla/early_table.h). The page is unmapped with the handle. @nodes: by slot; none: no more of the service.
 * Negative errno; handoff_early() else for how many nodes there is no way now, handoff_early_set() for how many
 * targets there is no room.
 */
int handoff_early_create(struct handoff *h, uint32_t targets, struct hof_early_page **page);
int handoff_early(struct handoff *h, const uint8_t address[4], uint16_t port, const uint32_t *nodes,
		  uint32_t nr_nodes);
int handoff_early_set(struct handoff *h, const struct hof_early_target *targets, uint32_t nr);
int handoff_early_clear(struct handoff *h);

/* "sendqueue", "nolistener", ... as in the counters; never NULL. */
const char *handoff_refusal_name(enum flt_refusal why);

#endif
