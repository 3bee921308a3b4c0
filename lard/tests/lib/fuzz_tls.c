// SPDX-License-Identifier: GPL-2.0
/* libFuzzer target: records and hellos. "make fuzz FUZZ=fuzz_lard_tls" */
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
