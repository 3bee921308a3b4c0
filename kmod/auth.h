/* SPDX-License-Identifier: GPL-2.0 */
/* Authenticated links: TLS 1.3 by the kernel, its handshake by the system's tlshd. */
#ifndef FLT_AUTH_H
#define FLT_AUTH_H

#include "chan.h"

/**
 * flt_auth_start - ask for the handshake
 * @chan: connected; its work calls flt_auth_done() when kicked
 *
 * Return: 0 under way; 1 nothing to do (FLT_AUTH_NONE); -ESRCH nobody to do it;
 * another errno.
 */
int flt_auth_start(struct flt_chan *chan);

/* 1: secured; 0: not yet; negative errno: it failed. */
int flt_auth_done(struct flt_chan *chan);

/* Before any use of a socket: give it the file that tlshd will see. On error it is released. */
int flt_auth_prepare(struct flt_chan *chan, struct socket *sock);

/* The handshake, if one was asked for, is over on return: answered or never to be answered. */
void flt_auth_cancel(struct flt_chan *chan);

/*
 * As sock_recvmsg() without waiting, but leaves @iter as it is. Of TLS records only data is given;
 * -ENOMSG: one came that no node sends, or too many without a byte.
 */
int flt_auth_recv(struct flt_chan *chan, struct iov_iter *iter);

/*
 * From a handshake that has succeeded until the channel lets go of its socket: a row of records
 * without a byte, which a call of sock_recvmsg() would take for as long as there are any, comes to
 * its end.
 */
void flt_auth_watch(struct flt_chan *chan);
void flt_auth_unwatch(struct flt_chan *chan);

#endif
