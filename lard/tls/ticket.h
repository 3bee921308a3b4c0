/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The keys of TLS session tickets. Of a file, for several front-ends: what it says, no more. Else one set
 * for all workers, kept over a reload, made anew in time.
 */
#ifndef LARD_TICKET_H
#define LARD_TICKET_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include "tls_file.h"

struct ticket_keys;

/*
 * A key a line, of 160 hexadecimal digits; tickets are made by the first, and those of the others are
 * known. 0, or -EINVAL after a sentence.
 */
int ticket_keys_read(struct ticket_keys **keys, const struct tls_file *f);
/* NULL is fine. */
void ticket_keys_free(struct ticket_keys *keys);

/*
 * Sessions of @ctx can be resumed by whoever has these keys, which live as long as it, for twice
 * @rotation_us at most. NULL: by any worker of ours, and for @rotation_us at least.
 */
int ticket_use(SSL_CTX *ctx, uint64_t rotation_us, struct ticket_keys *keys);
/* Or: of @ctx none is resumed, and no client gets a ticket. */
bool ticket_refuse(SSL_CTX *ctx);
/* Before the workers are made, where these are processes: they have one set. 0 or -errno. */
int ticket_share(void);
/* The process ends, or gives no more tickets: nobody finds the keys in its memory. */
void ticket_forget(void);

#endif
