/* SPDX-License-Identifier: GPL-2.0 */
/* What must hold for any bytes that are taken for a get: for the tests and for the fuzzer. */
#ifndef AFPA_JUDGE_GET_H
#define AFPA_JUDGE_GET_H

#include <stdbool.h>
#include <stddef.h>

/* Aborts, after a sentence and the bytes, when it does not. True: it is a get for the cache. */
bool judge_get(const char *bytes, size_t len);

#endif
