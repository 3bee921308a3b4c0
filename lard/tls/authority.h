/* SPDX-License-Identifier: GPL-2.0 */
/* By whom clients' certificates must be issued, and which of these are revoked: one file in PEM. */
#ifndef LARD_AUTHORITY_H
#define LARD_AUTHORITY_H

#include <openssl/ssl.h>
#include "tls_file.h"

#define AUTHORITY_DIGEST 32

/**
 * struct authority - see above; all zero: there is none
 * @digest: of the file: what was verified by another does not hold
 */
struct authority {
	X509_STORE *store;
	STACK_OF(X509_NAME) *names;
	unsigned char digest[AUTHORITY_DIGEST];
};

/* 0, or -EINVAL after a sentence. */
int authority_read(struct authority *authority, const struct tls_file *f);
/*
 * Certificates of clients of @ctx are verified by it, and no session is resumed when what was
 * verified no longer holds. False: no memory. It must live as long as @ctx.
 */
bool authority_use(struct authority *authority, SSL_CTX *ctx);
void authority_forget(struct authority *authority);

#endif
