/* SPDX-License-Identifier: GPL-2.0 */
/* A proxied request and the cache: served from it, or filling it. */
#ifndef LARD_CACHING_H
#define LARD_CACHING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "cacheable.h"

struct cache_target;
struct conn;
struct exchange;
struct lardd;
struct request;
struct response;
struct worker;

/* The connection's request, or what it changes, is of a class that is kept: it is not to be handed off. */
bool caching_wants(const struct conn *conn);
enum caching { CACHING_GOES_ON, CACHING_FOUND, CACHING_WAITS };

/*
 * Before a node is chosen: FOUND: the answer is there (conn->found); WAITS: somebody asks for it, and the connection is
 * CONN_PARK. Otherwise it may be who others wait for.
 */
enum caching caching_first(struct conn *conn);
/* Nobody can be asked: what is there will do, though it is stale. */
bool caching_will_do(struct conn *conn);
/* What caching_first() has kept is given up, and who waits for it told. */
void caching_leave(struct conn *conn);
/* Once a batch: who need not wait any more. */
void caching_batch_end(struct worker *w);
/* A back-end that answers so may do so for this request alone: behind it, ask as nobody in particular. */
void caching_doubt(struct exchange *ex);
/*
 * 304 to a question of ours (conn->checks): what was stale is good again, and answers the request; as it was if it
 * cannot be kept. False: it is of another page.
 */
bool caching_unchanged(struct exchange *ex, const struct response *r);
/* A stale answer may take the place of an error; if so, it does. */
bool caching_may_rescue(const struct exchange *ex);
void caching_rescue(struct exchange *ex);
/* True: ex->hit answers the request, its header is in @ex; no back-end is needed. */
bool caching_request(struct exchange *ex, const struct request *r);
/* The answer's header has come: its body may be worth keeping (ex->fill). */
void caching_answer(struct exchange *ex, const struct response *r);
/* The body is there as a whole. */
bool caching_is_full(const struct exchange *ex);
/* It will not be kept, as it is @large, or there is no room for it: who waits for it is told. */
void caching_spoil(struct exchange *ex, bool large);
/* It begins anew, with another back-end. */
void caching_unfill(struct exchange *ex);
/* Nothing more comes for ex->fill: it is stored if it is whole, and who waits for it is told. */
void caching_filled(struct exchange *ex);
/* The exchange ends. */
void caching_end(struct exchange *ex);

/**
 * struct cache_said - what is known of a target
 * @is_there:  an answer for clients that can decode nothing in particular
 * @in_kernel: it was put there
 * @is_noted:  the last one was not kept, for @why; @why is a hint, as others may take its place
 */
struct cache_said {
	bool is_there, is_fresh, in_kernel, is_noted;
	uint64_t age_us, fresh_us;
	enum cache_not why;
};

/* Asking changes nothing. */
void caching_explain(struct lardd *lardd, const struct cache_target *of, uint64_t now_us, struct cache_said *said);

#endif
