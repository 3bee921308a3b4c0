/* SPDX-License-Identifier: MIT */
/* What the machine has done. */
#ifndef BUSY_H
#define BUSY_H

/*
 * Nanoseconds that CPU 0 was not idle so far, from the kernel's exact clocks. Where the guest's
 * clock is QEMU's instruction counter, these are the instructions of everything that happened.
 */
unsigned long long busy_ns(void);

#endif
