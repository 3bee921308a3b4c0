/* SPDX-License-Identifier: GPL-2.0 */
/* Files that the configuration of HTTPS names: certificates, keys and what belongs to them. */
#ifndef LARD_TLS_FILE_H
#define LARD_TLS_FILE_H

#include <openssl/bio.h>
#include <stdbool.h>
#include <stddef.h>

/**
 * struct tls_file - one that is read
 * @what:  it is, for sentences
 * @error: where these go, of @size bytes
 */
struct tls_file {
	const char *what;
	const char *path;
	char *error;
	size_t size;
};

/* -EINVAL after a sentence; the second with OpenSSL's word for it, if it has one. */
int tls_file_sorry(const struct tls_file *f, const char *why);
int tls_file_sorry_ssl(const struct tls_file *f, const char *what);
/*
 * @use takes what it needs from it, for @to. @secret: it must be root's, ours or that of lardd's user, and
 * nobody else may read it; its copy here is wiped out, and the process is not dumpable any more. A change of
 * user must not undo that.
 */
int tls_file_use(const struct tls_file *f, bool secret,
		 int (*use)(const struct tls_file *f, void *to, BIO *from), void *to);

#endif
