/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The status page, on an address of its own: "/" for people, "/status.json" the same numbers for programs, "/events"
 * the page's changing part once a second (Server-Sent Events). Worker 0.
 */
#ifndef LARD_STATUS_H
#define LARD_STATUS_H

#include <stddef.h>
#include "address.h"

struct lardd;
struct pages;
struct status;

/* NULL after a sentence in @error. A predecessor's socket is taken over. */
struct status *status_open(struct lardd *lardd, const union address *address, char *error,
			   size_t size);
/* NULL is fine, here and below. */
struct pages *status_pages(struct status *status);
/* Once a second. */
void status_tick(struct status *status);
void status_close(struct status *status);

#endif
