/* SPDX-License-Identifier: GPL-2.0 */
/* Names of the system calls that servers use. */
#ifndef FLT_COUNT_CALLS_H
#define FLT_COUNT_CALLS_H

#include <stdint.h>

/* The name, or "call NUMBER" written to @number. */
const char *count_call_name(uint32_t nr, char number[24]);

#endif
