/* SPDX-License-Identifier: GPL-2.0 */
/* Leaving the rest of an answer's body to sksplice.ko, where it is loaded. */
#ifndef LARD_SPLICE_H
#define LARD_SPLICE_H

#include <stdbool.h>

struct exchange;

/* A descriptor of the device, or -1. */
int splice_open(void);
void splice_close(int device);

/*
 * All that was read of the answer is sent: the kernel passes on the rest, or has done so
 * (ex->complete). False: it does not; go on as before.
 */
bool splice_begin(struct exchange *ex);

/* While ex->spliced: false: it goes on; true: it is over, well if ex->complete. */
bool splice_over(struct exchange *ex);

/* The kernel is to do it no longer; what it has passed on is accounted for. */
void splice_leave(struct exchange *ex);

/* Bytes were passed on since the last time somebody asked. */
bool splice_moves(struct exchange *ex);

#endif
