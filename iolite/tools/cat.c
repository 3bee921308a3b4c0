// SPDX-License-Identifier: GPL-2.0
/* iol-cat [FILE]...: cat that passes buffers on. */
#include "iolite/tools/program.h"

static void copy(const char *name)
{
	int fd = program_open(name);
	IOL_Agg *agg;
	size_t n;

	for (;;) {
		program_check(IOL_read(fd, &agg, PROGRAM_READ, &n), name ? name : "-");
		if (n)
			program_write(agg);
		IOL_destroy(agg);
		if (!n)
			break;
	}
	if (fd != STDIN_FILENO)
		close(fd);
}

int main(int argc, char **argv)
{
	int i;

	program_version(argc, argv, "iol-cat");
	if (argc < 2)
		copy(NULL);
	for (i = 1; i < argc; i++)
		copy(argv[i]);
	return 0;
}
