/* SPDX-License-Identifier: GPL-2.0 */
/* The part of a response header that differs from answer to answer. */
#ifndef AFPA_TEXT_H
#define AFPA_TEXT_H

#include <linux/types.h>

/**
 * enum afpa_text_kind - what the connection will be after the answer
 * @AFPA_TEXT_KEPT:     kept, as is usual with HTTP/1.1
 * @AFPA_TEXT_KEPT_OLD: kept, which a client of HTTP/1.0 has to be told
 * @AFPA_TEXT_CLOSED:   closed
 */
enum afpa_text_kind {
	AFPA_TEXT_KEPT,
	AFPA_TEXT_KEPT_OLD,
	AFPA_TEXT_CLOSED,
	AFPA_TEXT_KINDS
};

/**
 * afpa_text_get() - the status line, Date and Connection, for now
 * @kind: enum afpa_text_kind
 * @len:  its length
 *
 * Return: the text, in a page that may be sent by reference; it stays for as long as bottom halves
 * are off and the function is not called again, or whoever wants it longer takes a reference on
 * its page. NULL: no memory.
 */
void *afpa_text_get(enum afpa_text_kind kind, unsigned int *len);

/**
 * afpa_text_aged() - the same with Age, for one answer
 * @kind: enum afpa_text_kind
 * @age:  in seconds
 * @len:  its length
 *
 * Return: the text, with a reference on its page, the caller's; NULL: no memory.
 */
void *afpa_text_aged(enum afpa_text_kind kind, u32 age, unsigned int *len);

void afpa_text_exit(void);

#endif
