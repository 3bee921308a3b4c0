/* SPDX-License-Identifier: GPL-2.0 */
/* What listeners with TLS show of themselves: certificates, chosen by name, and what is agreed on. */
#ifndef LARD_TLS_H
#define LARD_TLS_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include "seal.h"
#include "settings.h"

struct tls_site;

/*
 * OpenSSL leaves the secrets of a connection where it had them when that ends: what it frees is wiped
 * from now on. Before anything else of its: 0 or -EBUSY.
 */
int tls_wipe_freed(void);

/*
 * Reads certificates and keys. NULL after a sentence in @error. Of one user to begin with; as the
 * settings it does not change.
 */
struct tls_site *tls_site_new(const struct tls_settings *config, char *error, size_t size);
struct tls_site *tls_site_get(struct tls_site *site);
/* NULL is fine. */
void tls_site_put(struct tls_site *site);

/* Is a certificate for this host, which is a name or an address? */
bool tls_site_is_for(const struct tls_site *site, const char *host, size_t len);

/**
 * struct tls_notes - what a handshake was like
 * @door:      the connection's
 * @http2:     it is offered HTTP/2; which is agreed on if it names that
 * @missed:    the client names a host that no certificate is for
 * @unknown_ticket: it has brought a ticket of a key that is none of ours
 * @stapled:   it asked for an OCSP response and has got one
 * @unstapled: it asked, and the file that is named has none that is good
 * @seal:      its keys, where connections of TLS are handed off
 */
struct tls_notes {
	enum config_door door;
	bool http2;
	bool missed;
	bool unknown_ticket;
	bool stapled;
	bool unstapled;
	struct seal seal;
};

/* For one connection, whose notes are @notes. */
SSL *tls_site_connection(struct tls_site *site, int fd, enum config_door door,
			 struct tls_notes *notes);

#endif
