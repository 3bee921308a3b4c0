/* SPDX-License-Identifier: GPL-2.0 */
/* The last parameter of syn_recv_sock(), where this kernel has one. */
#ifndef FLT_COMPAT_SYN_RECV_H
#define FLT_COMPAT_SYN_RECV_H

#include <flt_compat_config.h>

#ifdef FLT_HAVE_SYN_RECV_SOCK_INIT
#define FLT_SYN_RECV_PARAM	, void (*child_init)(struct sock *newsk, const struct sock *sk)
#define FLT_SYN_RECV_ARG	, child_init
#else
#define FLT_SYN_RECV_PARAM
#define FLT_SYN_RECV_ARG
#endif

#endif
