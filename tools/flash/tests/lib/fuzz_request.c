// SPDX-License-Identifier: GPL-2.0
/*
 * libFuzzer target:
 *
 *	clang -std=gnu11 -D_GNU_SOURCE -g -O1 -I. -fsanitize=fuzzer,address,undefined \
 *		tools/flash/tests/lib/fuzz_request.c \
 *		tools/flash/{request,target,range,httpdate,body}.c -o /tmp/fuzz_request
 *	/tmp/fuzz_request -max_len=4096 tools/flash/tests/lib/corpus
 */
#include "tools/flash/tests/lib/fuzz_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_one(data, size);
	return 0;
}
