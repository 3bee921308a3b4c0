/* SPDX-License-Identifier: GPL-2.0 */
/* Bytes that something is wrong with, as a C string. */
#ifndef AFPA_TEST_SHOW_H
#define AFPA_TEST_SHOW_H

#include <stddef.h>
#include <stdio.h>

/* A line on stderr, behind a word that says what they are. */
static inline void show(const char *what, const char *text, size_t len)
{
	size_t i;

	fprintf(stderr, "%s \"", what);
	for (i = 0; i < len; i++)
		fprintf(stderr, text[i] >= ' ' && text[i] <= '~' ? "%c" : "\\x%02x",
			(unsigned char)text[i]);
	fprintf(stderr, "\"\n");
}

#endif
