/* SPDX-License-Identifier: GPL-2.0 */
/* A proxied request and the cache: served from it, or filling it. */
#ifndef LARD_CACHING_H
#define LARD_CACHING_H

#include <stdbool.h>
#include <stddef.h>

struct exchange;
struct request;
struct response;

/* True: ex->hit answers the request, its header is in @ex; no back-end is needed. */
bool caching_request(struct exchange *ex, const struct request *r);
/* The answer's header has come: its body may be worth keeping (ex->fill). */
void caching_answer(struct exchange *ex, const struct response *r);
/* Bytes of its body have. */
void caching_take(struct exchange *ex, const char *at, size_t len);
/* The body is there as a whole. */
bool caching_is_full(const struct exchange *ex);
/* The exchange ends. */
void caching_end(struct exchange *ex);

#endif
