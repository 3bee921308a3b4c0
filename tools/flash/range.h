/* SPDX-License-Identifier: GPL-2.0 */
#ifndef FLASH_RANGE_H
#define FLASH_RANGE_H

#include <stdint.h>

#include "request.h"

#define RANGE_MAX 16	/* more than this in one request is ignored: the answer is 200 */

struct range {
	uint64_t start, end;	/* inclusive */
};

/**
 * range_parse() - "bytes=0-99,200-,-5" against a representation of @size bytes
 *
 * Overlapping and touching ranges are merged when they come in order.
 * Return: number of ranges, 0 to ignore the header (bad syntax, other unit, too many), or -416.
 */
int range_parse(const struct slice *v, uint64_t size, struct range *out);

/* Preconditions of RFC 9110 13.2.2: 0 to go on, 304 or 412. */
int cond_evaluate(const struct request *req, const struct slice *etag, int64_t mtime);

/* May the Range header be honoured, as far as If-Range is concerned? */
bool cond_if_range(const struct request *req, const struct slice *etag, int64_t mtime);

#endif
