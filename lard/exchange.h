/* SPDX-License-Identifier: GPL-2.0 */
/* One proxied request with its response. */
#ifndef LARD_EXCHANGE_H
#define LARD_EXCHANGE_H

#include "cache.h"
#include "cacheable.h"
#include "config.h"
#include "identity.h"
#include "kernel_cache.h"
#include "message.h"
#include "loop.h"

struct backend;
struct conn;
struct entry;
struct request;
struct response;
struct worker;

#define UP_PREFIX	64	/* room for the PROXY protocol's header before the request */
#define UP_SIZE		(UP_PREFIX + REQUEST_HEADER_MAX + IDENTITY_MAX + 1024)
#define DOWN_SIZE	65536
#define HEADER_SIZE	(REQUEST_HEADER_MAX + 1024)

/**
 * struct exchange - see above
 * @charged:     on worker->charged, while it has a node's place
 * @up:          to the back-end: @up_start to @up_end are not sent yet
 * @up_header:   end of what was made of the request's header, from UP_PREFIX on; it can be sent
 *		 again while no byte of the body was taken
 * @body:        how much of the request's body is still to be taken from the client
 * @header:      to the client: the response's header as rewritten
 * @down:        to the client, after @header; while @in_header, the response's header as it came
 * @answer:      how the response's body is framed, @answer_left with FRAMING_LENGTH
 * @interim:     answers of 1xx so far
 * @safe:        the request may be sent twice
 * @*_readable:  the last read did not say EAGAIN; likewise writable
 * @error:       errno of the last try to connect; 0: none, or not known
 * @tunnel:      both sides speak as they like; a node's load no more, but one of lardd->tunnels
 * @began:       bytes of the response went to the client: too late for an error of ours
 * @touched_us:  when the timer was last restarted
 * @waited_us:   of the time until then, how long the client was waited for
 * @bytes_body:  of the request's body that came
 * @looked_us:   when somebody who waits last looked at what the client had @taken of the answer; 0: not
 * @spliced:     the kernel passes the rest of the answer on, since @spliced_us; it has passed @splice_moved
 * @use, @key, @personal, @classes, @encodings: see cacheable.h; @key is our own, with room for VARIANT_SIZE
 * @kernel:      the same for the kernel's cache
 * @since:       for the cache, when it began
 * @hit:         the answer is this one's: there is no back-end, @down_start to @down_end are of
 *		 its body
 * @fill:        the answer goes in here, and from here to the client: @down_start to @down_end are of its body,
 *		 but while @spliced, when it gets a copy that the kernel makes
 * @filled:      it is kept, or will not be
 * @ended:       and nothing more comes
 * @chunk_open:  the client is sent chunks, and has been sent one whose end he has not
 * @released:    back-end and node have been let go of, though the client has not got all yet
 * @client_lost: it has gone in the midst of that; filling goes on
 */
struct exchange {
	struct conn *conn;
	struct backend *backend;
	struct exchange *next_spare;
	struct entry *hit;
	struct entry *fill;
	struct span key;
	struct kernel_name kernel;
	struct timer timer;
	struct list charged;
	uint64_t touched_us;
	uint64_t bytes_down, bytes_body;
	uint64_t waited_us;
	uint64_t looked_us;
	int64_t taken;
	uint64_t body_left;
	uint64_t answer_left;
	uint64_t splice_moved, spliced_us;
	struct cache_since since;
	struct chunks body_chunks;
	struct chunks answer_chunks;
	size_t up_start, up_end, up_header;
	size_t header_start, header_end;
	size_t down_start, down_end;
	enum framing body;
	enum framing answer;
	enum cache_use use;
	unsigned int status;
	unsigned int minor;
	unsigned int interim;
	unsigned int classes, encodings;
	int error;
	bool head;
	bool safe;
	bool upgrade;
	bool tunnel;
	bool in_header;
	bool complete;
	bool began;
	bool body_taken;
	bool client_keep;
	bool backend_keep;
	bool client_eof;
	bool client_shut;
	bool proxy_protocol;
	bool client_readable, client_writable;
	bool backend_readable, backend_writable;
	bool spliced;
	bool splice_refused;
	bool personal;
	bool client_lost;
	bool filled, ended;
	bool chunk_open;
	bool released;
	char up[UP_SIZE];
	char header[HEADER_SIZE];
	char down[DOWN_SIZE];
};

/* What a step of an exchange came to; OVER: it is freed, and its connection may be. */
enum step { STEP_IDLE, STEP_MOVED, STEP_OVER };

/* Its client knows chunks. */
bool exchange_chunks(const struct exchange *ex);

/* Of @conn, all zero but for the buffers; NULL: no memory. */
struct exchange *exchange_new(struct conn *conn);
/* Nothing was begun with it. */
void exchange_free(struct exchange *ex);
/* The worker ends: its spare ones. */
void exchange_exit(struct worker *w);

/* Get a back-end's connection, kept or @fresh, and begin to send. False: there is none, see @error. */
bool exchange_start(struct exchange *ex, bool fresh);
/*
 * The back-end is no good: the next one, or, if the client has seen nothing, @status. What is short
 * here is the fault of none.
 */
enum step exchange_retry(struct exchange *ex, unsigned int status, const char *why);

/* All of the answer is here: the back-end and its node have nothing more to do with it. */
void exchange_release(struct exchange *ex);
/* It ends, its node is released; the connection is the caller's. */
void exchange_finish(struct exchange *ex, bool backend_reusable);
/* Nothing of the answer was sent: one of ours instead, or (STEP_MOVED) a stale one of the cache. */
enum step exchange_fail(struct exchange *ex, unsigned int status, const char *why);
enum step exchange_abort(struct exchange *ex);
/* All of the answer was sent. */
enum step exchange_complete(struct exchange *ex);

/* rewrite.c: headers as they go on. 0 or -ENOSPC. */
int rewrite_request(struct exchange *ex, const struct config *config, const struct request *r);
int rewrite_response(struct exchange *ex, const struct response *r);
/* Header lines of an answer to be kept. Their length, or -ENOSPC; values of two, if present. */
ssize_t rewrite_fields(const struct config *config, const struct response *r, char *into,
		       size_t size, struct span *etag, struct span *modified);
/* The header of a kept one; @unchanged: 304. */
int rewrite_hit(struct exchange *ex, const struct entry *entry, bool unchanged, uint64_t age);
/* The PROXY protocol's header (version 2) in front of the request; returns its length. */
size_t rewrite_prefix(struct exchange *ex);

#endif
