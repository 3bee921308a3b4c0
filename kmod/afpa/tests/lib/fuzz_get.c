// SPDX-License-Identifier: GPL-2.0
/*
 * libFuzzer target: the kernel's parser of memcached's gets, in pieces, and beside a second one.
 *
 *	clang -std=gnu11 -D_GNU_SOURCE -g -O1 -I. -fsanitize=fuzzer,address,undefined \
 *		-o build/afpa-fuzz-get kmod/afpa/tests/lib/{fuzz_get,judge_get}.c kmod/afpa/get.c
 *	build/afpa-fuzz-get -max_len=600
 */
#include <stdint.h>
#include "judge_get.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	judge_get((const char *)bytes, len);
	return 0;
}
