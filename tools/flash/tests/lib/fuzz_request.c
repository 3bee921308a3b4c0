// SPDX-License-Identifier: GPL-2.0
/* libFuzzer target: "make fuzz FUZZ=fuzz_flash_request" */
#include "tools/flash/tests/lib/fuzz_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_one(data, size);
	return 0;
}
