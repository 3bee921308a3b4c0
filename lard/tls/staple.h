/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The OCSP response that goes out with a certificate (RFC 6066, 8): an administrator's program fetches
 * it into a file, a reload reads that.
 */
#ifndef LARD_STAPLE_H
#define LARD_STAPLE_H

#include <openssl/ssl.h>

struct staple;

/*
 * For the certificate of @ctx, whose chain has its issuer. What is no good, or no longer, is not shown
 * to anybody: the log says why, once. NULL: no memory. It must live as long as @ctx.
 */
struct staple *staple_new(SSL_CTX *ctx, const char *path);
/* NULL is fine. */
void staple_free(struct staple *staple);

#endif
