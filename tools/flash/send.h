/* SPDX-License-Identifier: GPL-2.0 */
/* A response as a list of pieces, memory and parts of a file, sent as the socket takes them. */
#ifndef FLASH_SEND_H
#define FLASH_SEND_H

#include "conn.h"

struct piece {
	const char *mem;	/* NULL: part of the file */
	uint64_t off, len;
};

/**
 * struct response
 * @file:   whose parts are sent; a reference is held
 * @mapping: chunk being sent from, in use
 * @text:   memory that pieces point into, freed with the response
 * @held:   bytes of @text that are counted, see hold.h
 * @tested: the file is known to be in memory up to here; for one turn of the loop
 * @by_chunks: no more than a chunk at once
 * @reads:  how often a helper has read the part at the current position; it may have been evicted
 *	    again before its turn came
 * @body:   bytes sent that are not header
 */
struct response {
	struct file *file;
	struct mapping *mapping;
	char *text;
	size_t held;
	uint64_t tested;
	bool by_chunks;
	unsigned int reads;
	uint64_t sent, head;
	unsigned int nr, cur;
	struct piece pieces[];
};

struct response *response_new(unsigned int pieces);
void response_free(struct worker *w, struct response *r);
/* Makes @text of @size bytes. False: there is no memory for it. */
bool response_text(struct conn *c, struct response *r, size_t size);
void response_add_mem(struct response *r, const char *mem, uint64_t len);
void response_add_file(struct response *r, uint64_t off, uint64_t len);

/* Sends what can be sent now. BLOCKED (socket or disk), SERVED, or CLOSE when it cannot go on. */
enum verdict response_send(struct conn *c, bool more);

#endif
