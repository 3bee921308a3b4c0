/* SPDX-License-Identifier: GPL-2.0 */
/* What a 304 makes of a page that is kept (RFC 9111, 3.2). */
#ifndef LARD_RENEW_H
#define LARD_RENEW_H

#include <stdbool.h>
#include <stddef.h>

struct entry;
struct response;

/*
 * As if the back-end had sent all of @entry again, with what @r says: @whole, whose fields are in @text. False: they
 * have no room, or are not sound.
 */
bool renew_answer(const struct response *r, const struct entry *entry, char *text, size_t size, struct response *whole);

#endif
