/* SPDX-License-Identifier: GPL-2.0 */
/* What a configuration says of TLS, lardd's or flash's. */
#ifndef LARD_TLS_SETTINGS_H
#define LARD_TLS_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONFIG_CERTIFICATES_MAX	64

/**
 * enum config_door - what becomes of who comes to an address
 * @DOOR_PLAIN:    served in clear text
 * @DOOR_REDIRECT: sent to HTTPS
 * @DOOR_TLS:      served after a handshake; those behind it are of this kind too
 * @DOOR_OPTIONAL: and asked for a certificate
 * @DOOR_REQUIRED: which he must have
 */
enum config_door { DOOR_PLAIN, DOOR_REDIRECT, DOOR_TLS, DOOR_OPTIONAL, DOOR_REQUIRED, DOORS };

struct config_certificate {
	char chain[256];		/* the host's own first */
	char key[256];
	char ocsp[256];			/* of a response to staple; empty: none */
};

struct tls_settings {
	struct config_certificate certificates[CONFIG_CERTIFICATES_MAX];
	unsigned int certificate_count;
	char client_ca[256];		/* empty: nobody is asked for a certificate */
	bool tickets;			/* sessions can be resumed, by tickets alone */
	uint64_t ticket_rotation_us;
	char ticket_keys[256];		/* a file; empty: keys of our own */
	uint16_t tls_port;		/* by whose listener a connection is taken; 0: by none, it is proxied */
	uint16_t tls_port_http2;	/* likewise, one of HTTP/2 */
};

/*
 * One more certificate, with paths that begin with /; @ocsp may be empty. Or that of a directory as certbot makes
 * them: fullchain.pem, privkey.pem, perhaps ocsp.der. Or of each such directory in @path, in the order of their
 * names. 0; -1 with a sentence in @why.
 */
int tls_settings_add(struct tls_settings *s, const char *chain, const char *key, const char *ocsp,
		     char *why, size_t size);
int tls_settings_add_directory(struct tls_settings *s, const char *path, char *why, size_t size);
int tls_settings_add_all(struct tls_settings *s, const char *path, char *why, size_t size);

#endif
