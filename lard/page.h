/* SPDX-License-Identifier: GPL-2.0 */
/* A small HTTP service on an address of its own: the metrics, the status page. Worker 0. */
#ifndef LARD_PAGE_H
#define LARD_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include "address.h"
#include "request.h"
#include "visitor.h"

struct lardd;

/**
 * struct page_visitor - who asked for a page
 * @stream: the answer has no end: what the visitor still sends is thrown away, and the connection stays
 * @said:   bytes that he sent meanwhile; he must go when it is more than a request
 * @missed: pieces of a stream that came while he had not taken the one before
 */
struct page_visitor {
	struct visitor visitor;
	bool stream;
	unsigned int said;
	unsigned int missed;
};

/**
 * struct pages - such a service
 * @what:   "metrics"
 * @of_ours: it shows what clients ask for: who names another host than this machine gets 421
 * @answer: gives @v something to write with page_answer(); without, the visitor is hung up on
 */
struct pages {
	struct service service;
	struct lardd *lardd;
	union address address;
	const char *what;
	bool of_ours;
	void (*answer)(struct pages *pages, struct page_visitor *v, const struct request *r);
};

/*
 * Listens on @address, or takes a predecessor's socket over; @pages->what and ->answer are given.
 * 0, or a negative errno after a sentence in @error.
 */
int pages_open(struct pages *pages, struct lardd *lardd, const union address *address, char *error,
	       size_t size);
/* Its listening socket, for a successor; -1: none. NULL is fine, as below. */
int pages_socket(const struct pages *pages, union address *address);
/* A successor answers from now on. */
void pages_deafen(struct pages *pages);
void pages_close(struct pages *pages);

/* The path of a request is @path, with or without a query. */
bool page_is(const struct request *r, const char *path);
/*
 * @body, which may be NULL, is copied; a HEAD gets the header only. @fields: further header lines,
 * each with its CRLF.
 */
void page_answer(struct page_visitor *v, const struct request *r, const char *status,
		 const char *type, const char *fields, const char *body, size_t len);

#endif
