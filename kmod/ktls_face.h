/* SPDX-License-Identifier: GPL-2.0 */
/* What the program of an adopted child with kTLS sees of it. */
#ifndef FLT_KTLS_FACE_H
#define FLT_KTLS_FACE_H

#include <net/sock.h>

/**
 * flt_ktls_face_get() - operations for a socket that has kTLS
 * @sk:  with TLS_TX and TLS_RX set; nobody else can reach it
 * @ops: what kTLS has given its struct socket
 *
 * Whoever gives them to a socket takes a reference of this module for it, which its close() drops.
 *
 * Context: process context, may sleep.
 * Return: for sk_prot; or ERR_PTR(-ENOMEM).
 */
struct proto *flt_ktls_face_get(const struct sock *sk, const struct proto_ops *ops);

/**
 * flt_ktls_is_ours() - does a socket have our face over kTLS
 * @sk: any socket
 *
 * Context: any. While the caller has its lock, or its sk_callback_lock, kTLS has its state.
 */
bool flt_ktls_is_ours(const struct sock *sk);

/**
 * flt_ktls_has_below() - is kTLS the one who calls that when a record is there
 * @sk:         flt_ktls_is_ours(); sk_callback_lock held
 * @data_ready: what the socket had before kTLS, perhaps
 */
bool flt_ktls_has_below(const struct sock *sk, void (*data_ready)(struct sock *sk));

/* No socket has any. */
void flt_ktls_face_exit(void);

#endif
