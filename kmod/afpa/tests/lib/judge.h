/* SPDX-License-Identifier: GPL-2.0 */
/* What must hold for any bytes that are taken for a request: for the tests and for the fuzzer. */
#ifndef AFPA_JUDGE_H
#define AFPA_JUDGE_H

#include <stdbool.h>
#include <stddef.h>

/* Aborts, after a sentence and the bytes, when it does not. True: it is a request for the cache. */
bool judge(const char *bytes, size_t len);

/* Room for @len bytes, at most 16 KB, right before a page that must not be touched. */
char *at_the_brink(size_t len);

#endif
