// SPDX-License-Identifier: GPL-2.0
#include "identity.h"
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CERTIFICATE_MAX	4096	/* in DER */
#define SUBJECT_MAX	1024

static bool put_certificate(BIO *out, X509 *x)
{
	unsigned char *der = NULL, text[(CERTIFICATE_MAX + 2) / 3 * 4 + 1];
	int len = i2d_X509(x, &der);
	bool fits = len > 0 && len <= CERTIFICATE_MAX;

	if (fits) {
		EVP_EncodeBlock(text, der, len);
		BIO_printf(out, "Client-Cert: :%s:\r\n", text);
	}
	OPENSSL_free(der);
	return fits;
}

/* Whole or not at all: the end of one that is cut could be another's. */
static bool put_subject(BIO *out, X509 *x)
{
	size_t before = BIO_ctrl_pending(out);

	/* This form has no byte that is not printable ASCII. */
	return BIO_puts(out, "X-Client-Subject: ") > 0 &&
	       X509_NAME_print_ex(out, X509_get_subject_name(x), 0, XN_FLAG_RFC2253) >= 0 &&
	       BIO_ctrl_pending(out) - before <= SUBJECT_MAX && BIO_puts(out, "\r\n") > 0;
}

static bool put_fingerprint(BIO *out, X509 *x)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int len, i;

	if (!X509_digest(x, EVP_sha256(), digest, &len))
		return false;
	BIO_puts(out, "X-Client-Fingerprint: ");
	for (i = 0; i < len; i++)
		BIO_printf(out, "%02x", digest[i]);
	return BIO_puts(out, "\r\n") > 0;
}

const char *identity_of(const SSL *ssl, char **lines)
{
	X509 *x = SSL_get0_peer_certificate(ssl);
	const char *why;
	char *text;
	BIO *out;
	long len;

	*lines = NULL;
	if (!x)
		return NULL;
	/* How long a session says so that is resumed: authority.c. */
	if (SSL_get_verify_result(ssl) != X509_V_OK)
		return "the client's certificate is not verified";
	out = BIO_new(BIO_s_mem());
	if (!out)
		return "no memory";
	BIO_puts(out, "X-Client-Verify: success\r\n");
	if (put_certificate(out, x) && put_subject(out, x) && put_fingerprint(out, x)) {
		len = BIO_get_mem_data(out, &text);
		*lines = strndup(text, len);
		why = *lines ? NULL : "no memory";
	} else {
		why = "the client's certificate, or its subject, is too long to be passed on";
	}
	BIO_free(out);
	return why;
}

bool identity_owns(const struct field *field)
{
	static const char *const names[] = {
		"client-cert", "client-cert-chain", "x-client-verify", "x-client-subject",
		"x-client-fingerprint",
	};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (span_passes_for(field->name, names[i]))
			return true;
	return false;
}
