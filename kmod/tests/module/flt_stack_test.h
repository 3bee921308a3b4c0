/* SPDX-License-Identifier: GPL-2.0 */
/* /dev/flt_stack_test: layers that count, put on and off by a test program. */
#ifndef FLT_STACK_TEST_H
#define FLT_STACK_TEST_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* The layers: three that hear callbacks, one that hears only the end, two with operations. */
enum {
	FLT_TEST_A,
	FLT_TEST_B,
	FLT_TEST_C,
	FLT_TEST_END,
	FLT_TEST_OPS1,
	FLT_TEST_OPS2,
	FLT_TEST_LAYERS
};

enum {
	FLT_TEST_DATA_READY,
	FLT_TEST_WRITE_SPACE,
	FLT_TEST_STATE_CHANGE,
	FLT_TEST_ERROR_REPORT,
	FLT_TEST_DESTRUCT,
	FLT_TEST_FREE,
	FLT_TEST_INIT_CHILD,
	FLT_TEST_ACCEPTED,
	FLT_TEST_RECVMSG,
	FLT_TEST_SENDMSG,
	FLT_TEST_POLL,
	FLT_TEST_SHUTDOWN,
	FLT_TEST_RELEASE,
	FLT_TEST_RETURNED,
	FLT_TEST_ANSWERED,
	FLT_TEST_RECEIVED,
	FLT_TEST_SENT,
	FLT_TEST_ADDED,
	FLT_TEST_AFTER_END,	/* events that came to a layer after its end: must stay 0 */
	FLT_TEST_COUNTS
};

#define FLT_TEST_PLAIN_POLL	1
#define FLT_TEST_PLAIN_DATA	2	/* what is received and sent */
#define FLT_TEST_ATOMIC		1	/* @arg of ADD: GFP_ATOMIC, under the socket's lock */

/**
 * struct flt_test_arg - of every request
 * @fd:    the socket
 * @layer: FLT_TEST_A..
 * @arg:   SWALLOW: bits of the events 0 to 3 to swallow; HAMMER: rounds;
 *	   PLAIN: to which the layer has nothing to say, FLT_TEST_PLAIN_*; SAY: what it says to a
 *	   receive: 0, FLT_ANSWER (it then passes), a negative errno; others: flags
 * @seed:  HAMMER: of the order of things
 * @out:   READ: counters; ORDER: layers of the last data_ready events, newest in the low
 *	   4 bits, each plus one; POINTERS: bits of what differs from an untouched socket
 *	   (callbacks 0 to 3, 4 destructor, 5 operations, 6 listener's hook)
 */
struct flt_test_arg {
	__s32 fd;
	__u32 layer;
	__u32 arg;
	__u32 seed;
	__u64 out[FLT_TEST_COUNTS];
};

#define FLT_TEST_IOC_ADD	_IOWR('F', 1, struct flt_test_arg)
#define FLT_TEST_IOC_REMOVE	_IOWR('F', 2, struct flt_test_arg)
#define FLT_TEST_IOC_DETACH	_IOWR('F', 3, struct flt_test_arg)
#define FLT_TEST_IOC_FIND	_IOWR('F', 4, struct flt_test_arg)
#define FLT_TEST_IOC_READ	_IOWR('F', 5, struct flt_test_arg)
#define FLT_TEST_IOC_RESET	_IOWR('F', 6, struct flt_test_arg)
#define FLT_TEST_IOC_SWALLOW	_IOWR('F', 7, struct flt_test_arg)
#define FLT_TEST_IOC_ORDER	_IOWR('F', 8, struct flt_test_arg)
#define FLT_TEST_IOC_POINTERS	_IOWR('F', 9, struct flt_test_arg)
#define FLT_TEST_IOC_HAMMER	_IOWR('F', 10, struct flt_test_arg)
#define FLT_TEST_IOC_PLAIN	_IOWR('F', 11, struct flt_test_arg)
#define FLT_TEST_IOC_SAY	_IOWR('F', 12, struct flt_test_arg)

#endif
