// SPDX-License-Identifier: GPL-2.0
/*
 * libFuzzer target: records and hellos.
 *
 *	clang -std=gnu11 -D_GNU_SOURCE -g -O1 -I. -Ikmod/uapi -Ikmod/lib -fsanitize=fuzzer,address,undefined \
 *		-o build/fuzz_tls lard/tests/lib/fuzz_tls.c lard/tls/{authority,seal,session,staple,ticket,tls,tls_file}.c \
 *		-lssl -lcrypto
 *	mkdir -p build/fuzz_tls-corpus && build/tests/lard_tls_fuzz build/fuzz_tls-corpus
 *	build/fuzz_tls -max_len=64 build/fuzz_tls-corpus
 */
#include "lard/tests/lib/fuzz_tls.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	fuzz_begin();
	atexit(fuzz_end);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_one(data, size);
	return 0;
}
