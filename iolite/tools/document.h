/* SPDX-License-Identifier: GPL-2.0 */
/* Documents that iol-fcgi makes once and keeps, as a caching program does. */
#ifndef IOLITE_DOCUMENT_H
#define IOLITE_DOCUMENT_H

#include <iolite.h>

/**
 * struct document - answer of one size
 * @size:   bytes of its body: lines of 16 bytes with their number
 * @plain:  header and body, for CGI
 * @framed: the same in records, for FastCGI
 * @fill:   where the body was filled; storing there now is an error
 */
struct document {
	struct document *next;
	size_t size;
	IOL_Agg *plain;
	IOL_Agg *framed;
	char *fill;
};

/* The kept one, or a new one. Ends the program when memory is short. */
struct document *document_get(size_t size);

#endif
