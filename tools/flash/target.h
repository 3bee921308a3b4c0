/* SPDX-License-Identifier: GPL-2.0 */
/* From the path of a request to a name below the document root. */
#ifndef FLASH_TARGET_H
#define FLASH_TARGET_H

#include <stdbool.h>
#include <stddef.h>

/**
 * target_decode() - percent-decode and normalise a request path
 * @path:  as sent, begins with '/'
 * @len:   its length
 * @out:   at least @len + 1 bytes; gets an absolute, NUL-terminated path without ".", ".." or
 *	   empty segments; a final '/' stays
 *
 * Return: 0, -400 (bad escape, NUL), or -403 (climbs above the root).
 */
int target_decode(const char *path, size_t len, char *out);

/* Percent-encodes @in for use in a Location header or a link; @out needs 3 * strlen + 1. */
void target_encode(const char *in, char *out);

#endif
