/* SPDX-License-Identifier: GPL-2.0 */
/* Requests that lie unread in a socket. The caller has its lock, or its spin lock and no owner. */
#ifndef HOF_REQUEST_H
#define HOF_REQUEST_H

#include <linux/gfp_types.h>
#include <net/sock.h>

/* Copies up to @len unread bytes from the @offset-th on; how many. */
u32 hof_unread(const struct sock *sk, u32 offset, void *buf, u32 len);

/**
 * enum hof_request - what begins with the first unread byte
 * @HOF_REQUEST_NONE:    no request of HTTP/1, or there is no memory to look at it
 * @HOF_REQUEST_PART:    one whose header has not come whole
 * @HOF_REQUEST_WHOLE:   one whose header is there and says where it ends
 * @HOF_REQUEST_UNCLEAR: one whose end is not in its header, which is too long, or which two servers
 *			 could read differently: a tunnel may begin behind it, or a body
 */
enum hof_request {
	HOF_REQUEST_NONE,
	HOF_REQUEST_PART,
	HOF_REQUEST_WHOLE,
	HOF_REQUEST_UNCLEAR,
};

/* @length: of one that is HOF_REQUEST_WHOLE, with its body; else 0. */
enum hof_request hof_request_look(const struct sock *sk, gfp_t gfp, u32 *length);

/* Longer ones are never HOF_REQUEST_WHOLE, in one segment. */
bool hof_request_may_be_whole(unsigned int len);

/**
 * hof_request_next - the same with its end as a sequence number, and of what is encrypted
 * @sk:   the caller has its lock
 * @next: of one that is HOF_REQUEST_WHOLE: what follows it
 *
 * Of a connection with kTLS it is looked into records; one whose body has not come whole, or is
 * long, is HOF_REQUEST_UNCLEAR. Several that share a record are one.
 *
 * Context: process, may sleep.
 */
enum hof_request hof_request_next(struct sock *sk, u32 *next);

/* Are these bytes one request that is HOF_REQUEST_WHOLE, with its body, and no more? */
bool hof_request_is_whole(const char *text, unsigned int len);

/* Its process has neither read nor written: it knows nothing that another one does not. */
bool hof_sock_is_new(const struct sock *sk);

/*
 * Its program hears of what lies unread, as TCP would say it. Process context, with its lock if
 * possible.
 */
void hof_sock_tell(struct sock *sk, bool locked);
/* In a layer's data_ready(): the socket's lock is another's, its queues are not to be looked at. */
bool hof_sock_told_unlocked(void);

#endif
