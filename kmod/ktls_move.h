/* SPDX-License-Identifier: GPL-2.0 */
/* A connection that has kTLS moves again: its keys, and what its client says next. */
#ifndef FLT_KTLS_MOVE_H
#define FLT_KTLS_MOVE_H

#include <net/sock.h>
#include <flotilla/flotilla.h>
#include "ktls_record.h"

/**
 * flt_ktls_checkpoint() - keys and numbers of a connection with our face
 * @sk:  flt_ktls_is_ours(); the caller has its lock
 * @tls: filled, without a port; to be zeroed after use. NULL: only asked
 *
 * Where nothing is half done: what is unread and unsent is in TCP's queues, as records.
 *
 * Context: process.
 * Return: FLT_REFUSE_NONE; _BUSY: part of a record is read, or not yet given to TCP; _STATE: one
 * side has said its last word; _ULP: a network card encrypts.
 */
enum flt_refusal flt_ktls_checkpoint(struct sock *sk, struct flt_tls *tls);

/**
 * flt_ktls_leave() - the connection is another socket's
 * @sk: flt_ktls_is_ours(), ended in TCP already; the caller has its lock
 *
 * Nothing is encrypted any more: a number must not be used twice. Its program reads end of file,
 * and EPIPE is what who comes late with a write() gets.
 */
void flt_ktls_leave(struct sock *sk);

/**
 * flt_ktls_look() - the text of a record that stays unread
 * @sk:  any socket; the caller has its lock
 * @pos: which; then the next one. Begins with zeros
 * @buf: gets as much as there is room for
 * @len: of @buf
 * @got: all that the record has
 *
 * Context: process, may sleep.
 * Return: false: it is not of data, not whole or not true, or part of what is before it has been
 * read; or there is no memory.
 */
bool flt_ktls_look(struct sock *sk, struct flt_ktls_pos *pos, void *buf, u32 len, u32 *got);

#endif
