/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A connection that is being given away stands still until it is known whose it is: between
 * flt_endpoint_checkpoint() and flt_endpoint_release(), while nobody has its lock.
 *
 *	lock_sock()			lock_sock()
 *	flt_endpoint_checkpoint()	flt_freeze_lift()
 *	flt_endpoint_freeze()		flt_endpoint_unchanged()
 *	release_sock()			flt_endpoint_release()
 *	... the taker answers ...	release_sock()
 *					flt_freeze_thaw()	in any case
 *
 * Meanwhile:
 *	Its TCP sends nothing but the RST of a socket that somebody kills: no acknowledgment,
 *	retransmission, probe or byte that waits.
 *	A segment that comes all the same is as good as lost.
 *	Who writes finds its buffer full, and who reads finds nothing: they wait, or get EAGAIN. Who
 *	reads what kTLS has deciphered is served: then the connection is changed.
 *	Nobody's lock is held: whoever looks at it (ss -i) or kills it does not wait.
 */
#ifndef FLT_FREEZE_H
#define FLT_FREEZE_H

#include <net/sock.h>
#include <flotilla/flotilla.h>

struct flt_freeze;

/**
 * flt_endpoint_freeze - let a connection stand still
 * @sk:  flt_endpoint_checkpoint() has just succeeded; the caller has had its lock since
 * @out: ends with flt_freeze_thaw()
 *
 * The module is not unloaded meanwhile.
 *
 * Context: process, may sleep.
 * Return: FLT_REFUSE_NONE; _NOMEM; _FOREIGN: somebody else sends what TCP gives him.
 */
enum flt_refusal flt_endpoint_freeze(struct sock *sk, struct flt_freeze **out);

/* Does it stand still? The caller has its lock. */
bool flt_endpoint_is_frozen(const struct sock *sk);

/**
 * flt_freeze_lift - everything is as it was, but that nobody has been told and no timer runs
 * @f: the caller has the socket's lock; may be lifted already
 */
void flt_freeze_lift(struct flt_freeze *f);

/**
 * flt_freeze_thaw - the connection goes on, if it is still there
 * @f: consumed; NULL: nothing to do
 *
 * What waits is sent, timers run, and who waits to read or write is woken. Of a socket that was
 * closed meanwhile the client hears what it would have heard then. A program that keeps its socket
 * locked is not waited for: the connection goes on when it lets go.
 *
 * Context: process, may sleep; the caller does not have the socket's lock.
 */
void flt_freeze_thaw(struct flt_freeze *f);

/*
 * Its TCP sends nothing but a RST, and takes that for want of memory. False: somebody else sends
 * for it. The caller has its lock.
 */
bool flt_silence_begin(struct sock *sk);
void flt_silence_end(struct sock *sk);

int flt_freeze_init(void);
void flt_freeze_exit(void);

#endif
