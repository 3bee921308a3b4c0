/* SPDX-License-Identifier: GPL-2.0 */
/* What this directory needs of the program that it is part of, which has these functions. */
#ifndef LARD_TLS_HOST_H
#define LARD_TLS_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Microseconds that only grow. */
uint64_t tls_host_clock(void);
/* One line for who looks after the program; @text is no secret, and a stranger's perhaps. */
void tls_host_warn(const char *event, const char *text);
/* Is it whom the program becomes, or has become, when it is started as root? */
bool tls_host_is_user(uid_t uid);
/* Its name, where files are read again as that user; else NULL. */
const char *tls_host_user(void);
/* As open(2); a file that root may not open with the rights that it has, as that user. */
int tls_host_open(const char *path, int flags);

#endif
