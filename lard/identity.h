/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who a client is by its certificate, as back-ends are told:
 *
 *	Client-Cert: :BASE64:		its certificate (RFC 9440)
 *	X-Client-Verify: success|none
 *	X-Client-Subject: CN=...	as in RFC 2253
 *	X-Client-Fingerprint: ...	SHA-256 of the certificate, in hexadecimal
 */
#ifndef LARD_IDENTITY_H
#define LARD_IDENTITY_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include "message.h"

#define IDENTITY_MAX	8192	/* of all its lines */
#define IDENTITY_NONE	"X-Client-Verify: none\r\n"

/*
 * After the handshake: header lines, to be freed, into @lines; NULL: the client has shown none. NULL, or
 * why a client with such a certificate is not served.
 */
const char *identity_of(const SSL *ssl, char **lines);
/* Is it a field that only lardd may say? However a server may spell it for a program. */
bool identity_owns(const struct field *field);

#endif
