/* SPDX-License-Identifier: GPL-2.0 */
/* Client connections, from accept to the end of what was done with them. */
#ifndef LARD_CONN_H
#define LARD_CONN_H

#include "address.h"
#include "config.h"
#include "loop.h"
#include "policy.h"

struct client_stream;
struct client_tls;
struct crowd_address;
struct entry;
struct exchange;
struct fetch;
struct http2;
struct listener;
struct worker;

/**
 * enum conn_state - where a connection is
 * @CONN_SHAKE:  its TLS handshake goes on
 * @CONN_READ:   its next request is incomplete or has not begun
 * @CONN_WAIT:   beyond the admission limit, on lardd->waiting
 * @CONN_PARK:   another one asks for the same, on its worker's parked
 * @CONN_GIVEN:  submitted for handoff; its descriptor must not be touched
 * @CONN_REMOTE: a node owns it; here it is a load unit without a descriptor
 * @CONN_IDLE:   as REMOTE, between requests: no load unit
 * @CONN_PROXY:  proxied
 * @CONN_HTTP2:  its requests are streams, each a connection to us
 * @CONN_LINGER: refused; what the client still sends is thrown away
 */
enum conn_state {
	CONN_FREE,
	CONN_SHAKE,
	CONN_READ,
	CONN_WAIT,
	CONN_PARK,
	CONN_GIVEN,
	CONN_REMOTE,
	CONN_IDLE,
	CONN_PROXY,
	CONN_HTTP2,
	CONN_LINGER,
	CONN_STATES,
};

extern const char *const conn_state_names[CONN_STATES];

/**
 * struct conn - a client connection; its worker's, except where said
 * @link:     on lardd->waiting or its worker's mail, under lardd->lock; while CONN_SHAKE on worker->shaking
 * @node:     slot it is charged to, -1: none; under lardd->lock while CONN_WAIT
 * @node_id:  the kernel's number of @node, 0: it takes no handoffs
 * @why:      enum lard_reason of the last decision
 * @tried:    nodes that refused this request
 * @key:      of the request
 * @asked_us: when its header was whole; 0: it is not
 * @relaxed:  its events need not come at once
 * @polled:   its descriptor is in the loop
 * @shut:     nothing more is sent to the client, who has been told
 * @searched: how much of an incomplete header has been searched for its end
 * @header_max: bytes that its header may have: what a reload changes holds from the next request on
 * @served:   requests before this one
 * @port:     that the client came to
 * @site:     that the kernel answers at, KERNEL_SITE_NONE: none
 * @door:     enum config_door that it came through, and @miss enum config_miss of its listener
 * @tls:      NULL: it came in clear text; of a stream its connection's, as long as that is there
 * @stream:   not NULL: it is a stream of HTTP/2, without a descriptor and for one request
 * @http2:    while CONN_HTTP2: the session
 * @offers_http2: in its handshake
 * @prelude:  it speaks HTTP/2, of which only its first request was looked at: it may be handed off as it is.
 *	      Else, in all its states until then, http2_stay()
 * @denied:   why the next request is answered 503: this one, of a stream, or the first stream, of a connection
 * @fetch:    of what it asks for (@asks), or waits for while CONN_PARK
 * @entry:    of the cache, that will do if nobody answers; @found: it is what is sent
 * @refreshes: it is a request of our own for what is stale, see refresh.h
 * @checks:   it asks whether @entry has changed
 * @patient_until: when it has waited long enough; 0: it has not waited
 * @address:  where the connections of its client are counted; NULL: it is not
 */
struct conn {
	struct source source;
	struct timer timer;
	struct list link;
	struct worker *worker;
	struct exchange *exchange;
	struct client_tls *tls;
	struct client_stream *stream;
	struct http2 *http2;
	struct crowd_address *address;
	struct fetch *fetch;
	struct entry *entry;
	uint64_t patient_until;
	uint64_t key;
	uint64_t tried;
	uint64_t began_us;
	uint64_t asked_us;
	uint32_t index;
	uint32_t generation;
	uint32_t node_id;
	uint32_t served;
	uint32_t header_max;
	size_t searched;
	int16_t node;
	uint16_t port;
	uint8_t state;
	uint8_t attempts;
	uint8_t why;
	uint8_t door;
	uint8_t miss;
	uint8_t site;
	bool polled;
	bool shut;
	bool fallback;
	bool relaxed;
	bool offers_http2;
	bool prelude;
	bool asks;
	bool found;
	bool refreshes;
	bool checks;
	union address peer;
	const char *denied;
	char *line;		/* access log: method and target, while it is needed */
};

#define CONN_CHUNK 256

/* Connections by number; memory is kept and reused. */
struct conn_pool {
	struct conn **chunks;
	uint32_t chunk_count;
	struct list free;
	uint32_t used;
};

void conn_pool_exit(struct conn_pool *pool);
/* NULL: no memory. */
struct conn *conn_pool_take(struct conn_pool *pool);
/* For loop_bury(). */
void conn_pool_put(struct source *source);
/* The cookie of a handoff names a connection; NULL: it is gone. */
struct conn *conn_find(struct conn_pool *pool, uint64_t cookie);
uint64_t conn_cookie(const struct conn *conn);

/*
 * A new connection that came to @l; reads its request if it is there, where the listener's door
 * demands it after a TLS handshake. Closes @fd on failure, and if @peer has as many as he may.
 */
void conn_accept(const struct listener *l, int fd, const union address *peer);
/* A request of @parent's, whole; its turn is to come. NULL: there is no place for it. */
struct conn *conn_stream(struct conn *parent, struct client_stream *stream);
/* Its handshake is over: requests come. */
void conn_begin(struct conn *conn);
/* State and counters that go with it. */
void conn_enter(struct conn *conn, enum conn_state state);
/* Put the descriptor into the loop, if it is not yet. False: it cannot be, and is closed. */
bool conn_poll(struct conn *conn);
/*
 * Bytes that are there, into worker->peek without taking them; -EAGAIN: none yet, or with CLIENT_MORE no more
 * than the last time; 0: the client has closed.
 */
ssize_t conn_peek(struct conn *conn, int more);
/* Look at the request again into worker->peek and ->request. False: it is gone; closed. */
bool conn_peek_again(struct conn *conn);
/* After this answer it may be kept. */
bool conn_may_stay(const struct conn *conn);
/* After a proxied request: wait for the next. */
void conn_next(struct conn *conn);
/* After an answer that ends the connection. @unread: the client may still be sending. */
void conn_end(struct conn *conn, bool unread);
/* CONN_LINGER: what still comes is thrown away. */
void conn_linger(struct conn *conn);
/* Answer with an error of ours, then close. */
void conn_refuse(struct conn *conn, unsigned int status, const char *why);
/* The connection is over; what it is charged for must have been released. */
void conn_close(struct conn *conn);
/* lardd stops: who has sent nothing goes; what is there is answered, with Connection: close. */
void conn_close_idle(struct conn *conn);
/*
 * Closes the one that was refused, or ended, and lingers for longest, or else the kept one that is
 * idle for the longest, or that has taken longest over its header. False: there is none.
 */
bool conn_recycle(struct worker *w);
/* Likewise who has been at the handshake for longest, of those who are waited for. */
bool conn_recycle_handshake(struct worker *w);
/* Every connection of a worker. */
void conn_each(struct worker *w, void (*fn)(struct conn *conn));
/* The process ends: close it whatever it is doing. */
void conn_abandon(struct conn *conn);
/* For timer queues. */
void conn_park_expired(struct timer *t);
void conn_header_expired(struct timer *t);
void conn_prelude_expired(struct timer *t);
void conn_queue_expired(struct timer *t);
void conn_linger_expired(struct timer *t);

#endif
