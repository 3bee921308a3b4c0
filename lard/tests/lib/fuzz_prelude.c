// SPDX-License-Identifier: GPL-2.0
/*
 * libFuzzer target: what a client of HTTP/2 says first.
 *
 *	clang -std=gnu11 -D_GNU_SOURCE -g -O1 -I. -fsanitize=fuzzer,address,undefined -o build/fuzz_prelude \
 *		lard/tests/lib/fuzz_prelude.c lard/http2/{prelude,head}.c lard/message.c -lnghttp2
 *	mkdir -p build/fuzz_prelude-corpus && build/tests/lard_prelude build/fuzz_prelude-corpus
 *	build/fuzz_prelude build/fuzz_prelude-corpus
 */
#include "lard/tests/lib/fuzz_prelude.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_one(data, size, size / 64 + 1);
	return 0;
}
