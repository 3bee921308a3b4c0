/* SPDX-License-Identifier: GPL-2.0 */
/* The keys of TLS session tickets: one set for all workers, kept over a reload, made anew in time. */
#ifndef LARD_TICKET_H
#define LARD_TICKET_H

#include <openssl/ssl.h>
#include <stdint.h>

/* Sessions of @ctx can be resumed by any worker, for @rotation_us at least and twice that at most. */
int ticket_use(SSL_CTX *ctx, uint64_t rotation_us);
/* The process ends. */
void ticket_forget(void);

#endif
