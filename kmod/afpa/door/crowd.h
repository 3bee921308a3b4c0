/* SPDX-License-Identifier: GPL-2.0 */
/* Connections: how many there are, and how long each of them may take. */
#ifndef DOOR_CROWD_H
#define DOOR_CROWD_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "peer.h"
#include "target.h"

#define TARGET_MAX	4096

struct door;

/**
 * struct conn - a connection and the request that it is at
 * @door:      whose it is
 * @mhd:       the library's part of it
 * @fd:        its socket; open as long as the connection is in the list
 * @from:      the address of who is there
 * @until:     on the clock of crowd_now(): the request must be here by then, 0: it is
 * @known:     who is there has shown a token
 * @target:    as it came; @target_long: it was longer; @target_end: of it, as the library has it
 * @seen:      its header has been judged
 * @as_peer:   with a token of peers
 * @waited:    peers have been told, and the answer is in @answer and @status
 * @counted:   bytes of @body that count against the memory of all
 * @body:      malloc()
 * @answer:    made before it was known what peers say
 *
 * List and @until are under the lock of the crowd; all else is the thread's that answers.
 */
struct conn {
	struct conn *next, *prev;
	struct door *door;
	struct MHD_Connection *mhd;
	int fd;
	struct in6_addr from;
	uint64_t until;
	bool known;

	char target_text[TARGET_MAX];
	const char *target_end;
	bool has_target, target_long, seen, waited;
	bool as_peer;
	struct target target;
	struct fields fields;
	char *body;
	size_t len, room, counted;
	struct peer_wait wait;
	json_t *answer;
	unsigned int status;
};

/**
 * struct crowd - all connections
 * @nr:  of @max
 * @most: of one address
 */
struct crowd {
	pthread_mutex_t lock;
	struct conn *first;
	unsigned int nr, max, most;
	uint64_t request_ms;
	uint64_t late, thrown_out;
};

void crowd_init(struct crowd *crowd, unsigned int max, unsigned int most, unsigned int request_ms);

/* Monotonic milliseconds. */
uint64_t crowd_now(void);

/* For MHD_OPTION_NOTIFY_CONNECTION; @cls is the door. */
void crowd_notify(void *cls, struct MHD_Connection *mhd, void **context, enum MHD_ConnectionNotificationCode code);

/* The time of a request: begins, has grown by so many bytes, is here as a whole. */
void crowd_begin(struct crowd *crowd, struct conn *conn);
void crowd_grown(struct crowd *crowd, struct conn *conn, size_t bytes);
void crowd_here(struct crowd *crowd, struct conn *conn);

/* Ends those that are late. */
void crowd_sweep(struct crowd *crowd);

/* What a connection has of a request is given back. */
void conn_clear(struct conn *conn);

#endif
