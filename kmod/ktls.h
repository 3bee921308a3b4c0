/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TLS of an adopted child: its server speaks clear text, the kernel encrypts. Private to the
 * endpoint files. See doc/tls.md.
 */
#ifndef FLT_KTLS_H
#define FLT_KTLS_H

#include <net/request_sock.h>
#include "endpoint.h"

struct flt_ktls;

/* What is to be listed for a service may need it: have the kernel's TLS loaded. May sleep. */
void flt_ktls_load(void);

/**
 * flt_ktls_prepare - before a child is made
 * @wire: of flt_streams.tls
 * @out:  the keys; ends with flt_ktls_free() or flt_ktls_await()
 * @port: of the listener; left alone if that is the connection's own
 *
 * Context: process, may sleep.
 * Return: FLT_REFUSE_NONE; _KTLS, _MALFORMED, _NOMEM.
 */
enum flt_refusal flt_ktls_prepare(const void *wire, struct flt_ktls **out, __be16 *port);
/* The same of what was here already: a copy. NULL: no memory. */
struct flt_ktls *flt_ktls_keep(const struct flt_tls *tls);
/* NULL is fine. */
void flt_ktls_free(struct flt_ktls *ktls);

/**
 * flt_ktls_await - when @child is accepted it gets its keys
 * @ktls:  lives on by itself
 * @req:   of @child, not in a queue yet
 * @child: the child
 *
 * In the context of accept() and before its program can reach it. What then fails ends the
 * connection: nobody is to read, or write, as if it were clear text.
 */
void flt_ktls_await(struct flt_ktls *ktls, struct request_sock *req, struct sock *child);
/* @req did not get into a queue. */
void flt_ktls_forget(struct flt_ktls *ktls, struct request_sock *req);

#endif
