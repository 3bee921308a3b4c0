/* SPDX-License-Identifier: GPL-2.0 */
/* Records of FastCGI. */
#ifndef FLASH_FCGI_RECORD_H
#define FLASH_FCGI_RECORD_H

#include <stddef.h>

enum { BEGIN = 1, ABORT = 2, END = 3, PARAMS = 4, STDIN = 5, STDOUT = 6, STDERR = 7 };

#define HEADER 8
#define RECORD_MAX 65528	/* a multiple of 8 below 64 KB */

/* A header at @o; behind it. */
char *put_record(char *o, int type, size_t len);

/* "NAME=VALUE" strings, each with its NUL, as pairs at @out; how many bytes. */
size_t put_params(char *out, const char *env, size_t len);

#endif
