/* SPDX-License-Identifier: GPL-2.0 */
/* What a file of the kernel's side needs to be part of a test program. */
#ifndef LARD_TEST_AS_KERNEL_H
#define LARD_TEST_AS_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#define READ_ONCE(x)		__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define smp_load_acquire(p)	__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define smp_rmb()		__atomic_thread_fence(__ATOMIC_ACQUIRE)

#endif
