/* SPDX-License-Identifier: GPL-2.0 */
/* Flash-Lite: files from the cache of iolite to the socket, as one aggregate with their header. */
#ifndef FLASH_LITE_H
#define FLASH_LITE_H

#include "send.h"

/* What lite_send() could not send for want of this part in memory. */
struct lite_want {
	uint64_t off;
	uint32_t len;
};

/*
 * Sends from the present piece on. Bytes, or -1 with errno; with @want->len set a helper must bring
 * that part first. @wait: part of a file may be waited for. @more: as MSG_MORE.
 */
ssize_t lite_send(struct conn *c, struct response *r, bool wait, bool more, struct lite_want *want);

/* Brings a part of a file into the cache. A negative errno, or 0. For helpers. */
int lite_load(int fd, uint64_t off, uint32_t len);

/* Says, once, when the module is not there: then everything is copied. */
void lite_check(void);

#endif
