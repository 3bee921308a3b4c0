/* SPDX-License-Identifier: GPL-2.0 */
/* What a program asks for: start, end, how it goes. */
#ifndef SSP_CALL_H
#define SSP_CALL_H

#include <net/sock.h>
#include <flotilla/splice.h>

/*
 * All of these: TCP sockets whose files the caller holds, arguments that are checked for
 * themselves, results written into them; 0 or a negative errno of the uapi header.
 */
int ssp_call_splice(struct sock *sk0, struct sock *sk1, struct ssp_splice *args);
int ssp_call_unsplice(struct sock *sk0, struct sock *sk1, struct ssp_result *args);
int ssp_call_result(struct sock *sk, struct ssp_result *args);

#endif
