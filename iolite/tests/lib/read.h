/* SPDX-License-Identifier: GPL-2.0 */
/* A read by reference whose bytes nobody looks at. */
#ifndef IOLITE_TEST_READ_H
#define IOLITE_TEST_READ_H

#include <iolite.h>

/* From the beginning of the file: how many bytes, or -errno. */
static inline int read_some(int fd, size_t size)
{
	IOL_Agg *agg;
	size_t n;
	int err;

	err = IOL_pread(fd, &agg, size, 0, &n);
	if (!err)
		IOL_destroy(agg);
	return err ? err : (int)n;
}

#endif
