/* SPDX-License-Identifier: GPL-2.0 */
/* Programs that answer requests: what CGI and FastCGI have in common. */
#ifndef FLASH_APP_H
#define FLASH_APP_H

#include "conn.h"

/* Begins a request to the program of @p. BODY when its body has to be collected first. */
enum verdict app_begin(struct conn *c, const struct request *req, const struct path *p, bool more);

/* Bytes of a request body. BODY: more is needed; otherwise what became of the request. */
enum verdict app_body(struct conn *c, char *buf, size_t len);

/* The client's socket has room, or has closed its side. */
void app_client_ready(struct conn *c, uint32_t events);
/* Nothing came from the program for too long. */
void app_expired(struct conn *c);
/* The client is gone. */
void app_abort(struct conn *c);

#endif
