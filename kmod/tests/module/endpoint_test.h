/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /dev/flt_endpoint_test: the calls of kmod/endpoint.h from user space, for
 * tests only. An open file holds at most one adoption, and one frozen socket; closing it aborts the
 * one and thaws the other.
 * Sockets are named by descriptor, the network namespace is the caller's. The
 * checkpoint passes through user space, so that a test can spoil it.
 */
#ifndef FLT_ENDPOINT_TEST_H
#define FLT_ENDPOINT_TEST_H

#include <linux/ioctl.h>
#include <linux/types.h>

/**
 * struct flt_test_call - one call
 * @fd:      socket (CHECKPOINT, UNCHANGED, RELEASE)
 * @refusal: out: enum flt_refusal; for UNCHANGED 0 or FLT_REFUSE_CHANGED
 * @buf:     the checkpoint; for RELEASE, with a @len: only if it is unchanged
 * @len:     size of @buf; CHECKPOINT sets it to what the checkpoint has
 * @send:    CHECKPOINT: unacknowledged bytes that may be in it; 0: for a taker that knows neither
 *	     of these nor of FLT_CHECKPOINT_END and _OOO; ADOPT: the giver, and
 *	     FLT_TEST_TRUST for FLT_ADOPT_CWND; RELEASE: out, flt_endpoint_tsval(); COMMIT: the same, or 0; else zero
 */
struct flt_test_call {
	__s32 fd;
	__u32 refusal;
	__u64 buf;
	__u32 len;
	__u32 send;
};

#define FLT_TEST_TRUST		(1U << 31)

#define FLT_TEST_CHECKPOINT	_IOWR('E', 1, struct flt_test_call)
#define FLT_TEST_UNCHANGED	_IOWR('E', 2, struct flt_test_call)
#define FLT_TEST_RELEASE	_IOWR('E', 3, struct flt_test_call)
#define FLT_TEST_ADOPT		_IOWR('E', 4, struct flt_test_call)
#define FLT_TEST_COMMIT		_IOWR('E', 5, struct flt_test_call)
#define FLT_TEST_ABORT		_IOWR('E', 6, struct flt_test_call)
/* As CHECKPOINT, and frozen from there on: until THAW, or RELEASE that succeeds. */
#define FLT_TEST_FREEZE		_IOWR('E', 7, struct flt_test_call)
#define FLT_TEST_THAW		_IOWR('E', 8, struct flt_test_call)

#endif
