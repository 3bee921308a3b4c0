// SPDX-License-Identifier: GPL-2.0
/* libFuzzer target: what a client of HTTP/2 says first. "make fuzz FUZZ=fuzz_lard_prelude" */
#include "lard/tests/lib/fuzz_prelude.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_one(data, size, size / 64 + 1);
	return 0;
}
