/* SPDX-License-Identifier: GPL-2.0 */
#ifndef FLASH_HTTPDATE_H
#define FLASH_HTTPDATE_H

#include <stddef.h>
#include <time.h>

#define HTTPDATE_LEN 29		/* "Sun, 06 Nov 1994 08:49:37 GMT" */

/* Writes exactly HTTPDATE_LEN bytes, no NUL. */
void httpdate_format(time_t t, char *out);

/* All three forms of RFC 9110 5.6.7; -1 when it is none of them. */
time_t httpdate_parse(const char *p, size_t len);

#endif
