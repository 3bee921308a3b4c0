// SPDX-License-Identifier: GPL-2.0
/*
 * libFuzzer target: the kernel's request parser, in pieces, and beside llhttp.
 *
 *	clang -std=gnu11 -D_GNU_SOURCE -g -O1 -I. -fsanitize=fuzzer,address,undefined \
 *		-o build/afpa-fuzz kmod/afpa/tests/lib/{fuzz_request,judge}.c kmod/afpa/request.c \
 *		lard/{request,header,message,url}.c lard/llhttp/{api,http,llhttp}.c
 *	kmod/afpa/tests/lib/corpus unpack build/afpa-corpus
 *	build/afpa-fuzz -max_len=300 -dict=kmod/afpa/tests/lib/words.dict build/afpa-corpus
 *
 * What it has found beyond that is kept by "corpus pack" after "-merge=1".
 */
#include <stdint.h>
#include "judge.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	judge((const char *)bytes, len);
	return 0;
}
