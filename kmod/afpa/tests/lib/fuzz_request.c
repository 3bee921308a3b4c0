// SPDX-License-Identifier: GPL-2.0
/*
 * libFuzzer target: the kernel's request parser, in pieces, and beside llhttp.
 *
 *	make fuzz FUZZ=fuzz_afpa_request RUNS=10000000 SEED=1
 *
 * What it has found beyond corpus.txt is kept by "corpus pack" after "-merge=1".
 */
#include <stdint.h>
#include "judge.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	judge((const char *)bytes, len);
	return 0;
}
