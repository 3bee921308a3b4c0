// SPDX-License-Identifier: GPL-2.0
/*
 * libFuzzer target: the kernel's parser of memcached's gets, in pieces, and beside a second one.
 * "make fuzz FUZZ=fuzz_afpa_get".
 */
#include <stdint.h>
#include "judge_get.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	judge_get((const char *)bytes, len);
	return 0;
}
