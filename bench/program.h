/* SPDX-License-Identifier: GPL-2.0 */
/* What the loads and servers of several benches share. */
#ifndef BENCH_PROGRAM_H
#define BENCH_PROGRAM_H

#include <stdint.h>

#define SECOND		1000000000ULL

/* Says it with the program's name in front, and exits. */
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* CLOCK_MONOTONIC, in nanoseconds. */
uint64_t now(void);

#endif
