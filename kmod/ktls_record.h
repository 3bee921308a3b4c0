/* SPDX-License-Identifier: GPL-2.0 */
/* Records of kTLS that nobody has read. */
#ifndef FLT_KTLS_RECORD_H
#define FLT_KTLS_RECORD_H

#include <net/sock.h>
#include <flotilla/flotilla.h>

/**
 * struct flt_ktls_pos - which of the unread records is next
 * @at: bytes before it; 0: none
 * @nr: records before it
 */
struct flt_ktls_pos {
	u32 at;
	u32 nr;
};

/**
 * flt_ktls_record() - the text of a record that stays unread
 * @sk:  with kTLS; the caller has its lock
 * @pos: which; then the next one. Begins with zeros
 * @buf: gets as much as there is room for
 * @len: of @buf
 * @got: all that the record has
 *
 * Context: process, may sleep.
 * Return: false: it is not of data, not whole or not true, or part of what is before it has been
 * read; or there is no memory.
 */
bool flt_ktls_record(struct sock *sk, struct flt_ktls_pos *pos, void *buf, u32 len, u32 *got);

/* One side has said its last word, or kTLS reads no further. With kTLS, and the socket's lock. */
bool flt_ktls_may_end(const struct sock *sk);

#endif
