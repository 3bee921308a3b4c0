// SPDX-License-Identifier: GPL-2.0
#include "tls.h"
#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "authority.h"
#include "settings.h"
#include "staple.h"
#include "ticket.h"
#include "tls_file.h"

/* Forward secrecy and AEAD only; of 1.3 all that OpenSSL has by default. What costs least is first. */
#define CIPHERS_12	"ECDHE+AESGCM+AES128:ECDHE+AESGCM:ECDHE+CHACHA20"
#define CIPHERS_13	"TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

/**
 * struct tls_site - see tls.h
 * @contexts: one for each certificate, in the order of the configuration; the first is the default
 * @ids:      of sessions, for each and each door
 * @staples:  the OCSP response of each; NULL: none is named
 * @tickets:  shared with others; NULL: keys are the process's own
 */
struct tls_site {
	_Atomic unsigned int users;
	unsigned int count;
	SSL_CTX *contexts[CONFIG_CERTIFICATES_MAX];
	unsigned char ids[CONFIG_CERTIFICATES_MAX][DOORS][SHA256_DIGEST_LENGTH];
	struct staple *staples[CONFIG_CERTIFICATES_MAX];
	struct authority authority;
	struct ticket_keys *tickets;
};

/* A key with a password is none for a daemon. */
static int no_password(char *buffer, int size, int writing, void *arg)
{
	(void)buffer;
	(void)size;
	(void)writing;
	(void)arg;
	return -1;
}

static int use_chain(const struct tls_file *f, void *ctx, BIO *from)
{
	X509 *x = PEM_read_bio_X509(from, NULL, no_password, NULL);
	int ok;

	if (!x)
		return tls_file_sorry_ssl(f, "no certificate is in it");
	ok = SSL_CTX_use_certificate(ctx, x);
	X509_free(x);
	if (!ok)
		return tls_file_sorry_ssl(f, "the certificate cannot be used");
	while ((x = PEM_read_bio_X509(from, NULL, no_password, NULL)))
		if (!SSL_CTX_add0_chain_cert(ctx, x)) {
			X509_free(x);
			return tls_file_sorry_ssl(f, "a certificate of the chain cannot be used");
		}
	if (ERR_GET_LIB(ERR_peek_last_error()) != ERR_LIB_PEM ||
	    ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
		return tls_file_sorry_ssl(f, "a certificate of the chain is malformed");
	ERR_clear_error();
	return 0;
}

static int use_key(const struct tls_file *f, void *ctx, BIO *from)
{
	EVP_PKEY *key = PEM_read_bio_PrivateKey(from, NULL, no_password, NULL);
	int ok;

	if (!key)
		return tls_file_sorry_ssl(f, "no private key without a password is in it");
	ok = SSL_CTX_use_PrivateKey(ctx, key) && SSL_CTX_check_private_key(ctx);
	EVP_PKEY_free(key);
	return ok ? 0 : tls_file_sorry_ssl(f, "the key does not fit its certificate");
}

/* --- agreeing --- */

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
			   const unsigned char *in, unsigned int in_len, void *arg)
{
	static const unsigned char both[] = "\x02h2\x08http/1.1";
	const struct tls_notes *notes = SSL_get_app_data(ssl);
	const unsigned char *ours = notes->http2 ? both : both + 3;
	unsigned int len = sizeof(both) - 1 - (ours - both);

	(void)arg;
	/* Who speaks none of what we do must hear so, not an answer in a language of ours. */
	return SSL_select_next_proto((unsigned char **)out, out_len, ours, len, in, in_len) == OPENSSL_NPN_NEGOTIATED ?
	       SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* -1: none is for it. */
static int find_certificate(const struct tls_site *site, const char *name, size_t len)
{
	unsigned int i;

	/* OpenSSL would take ".test" for any name that ends so. */
	for (i = 0; i < site->count && len && *name != '.'; i++)
		if (X509_check_host(SSL_CTX_get0_certificate(site->contexts[i]), name, len, 0, NULL) == 1)
			return i;
	return -1;
}

/*
 * What the client asks for, before OpenSSL looks at the ticket it brings: later would be too late to
 * say which sessions may be resumed. OpenSSL judges its form.
 */
static bool asked_name(SSL *ssl, const char **name, size_t *len)
{
	const unsigned char *list;
	size_t size;

	if (!SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &list, &size) || size < 5 ||
	    list[2] != TLSEXT_NAMETYPE_host_name)
		return false;
	*name = (const char *)list + 5;
	*len = list[3] << 8 | list[4];
	return *len && *len == size - 5 && *len <= TLSEXT_MAXLEN_host_name;
}

/* Is there a cipher for certificates of this kind, or one of 1.3, which has them for all? */
static bool has_cipher(SSL *ssl, int auth)
{
	STACK_OF(SSL_CIPHER) *ciphers = NULL;
	const unsigned char *list;
	bool found = false;
	size_t size;
	int i, kind;

	size = SSL_client_hello_get0_ciphers(ssl, &list);
	if (!SSL_bytes_to_cipher_list(ssl, list, size, SSL_client_hello_isv2(ssl), &ciphers, NULL))
		return true;
	for (i = 0; i < sk_SSL_CIPHER_num(ciphers) && !found; i++) {
		kind = SSL_CIPHER_get_auth_nid(sk_SSL_CIPHER_value(ciphers, i));
		found = kind == auth || kind == NID_auth_any;
	}
	sk_SSL_CIPHER_free(ciphers);
	return found;
}

/* Can the client verify what the key of @ctx signs? Of other kinds than these nobody has two. */
static bool is_for_client(SSL *ssl, const SSL_CTX *ctx)
{
	int kind = EVP_PKEY_get_base_id(X509_get0_pubkey(SSL_CTX_get0_certificate(ctx)));
	const unsigned char *list;
	size_t size, i;

	if (kind != EVP_PKEY_RSA && kind != EVP_PKEY_EC)
		return true;
	if (!has_cipher(ssl, kind == EVP_PKEY_RSA ? NID_auth_rsa : NID_auth_ecdsa))
		return false;
	if (!SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_signature_algorithms, &list, &size))
		return true;
	/* RFC 8446, 4.2.3: 0x0804 to 0x0806 are RSA-PSS; else the second byte is the kind of key. */
	for (i = 2; i + 1 < size; i += 2)
		if (kind == EVP_PKEY_EC ? list[i] < 7 && list[i + 1] == 3 :
		    (list[i] < 7 && list[i + 1] == 1) ||
		    (list[i] == 8 && list[i + 1] >= 4 && list[i + 1] <= 6))
			return true;
	return false;
}

/* Of those for a name, whose first is @first, the first that the client can verify; or else the first. */
static int find_for_client(const struct tls_site *site, SSL *ssl, int first, const char *name, size_t len)
{
	unsigned int i;

	for (i = first; first >= 0 && i < site->count; i++)
		if (is_for_client(ssl, site->contexts[i]) &&
		    X509_check_host(SSL_CTX_get0_certificate(site->contexts[i]), name, len, 0, NULL) == 1)
			return i;
	return first;
}

static int choose_certificate(SSL *ssl, int *alert, void *arg)
{
	struct tls_notes *notes = SSL_get_app_data(ssl);
	const struct tls_site *site = arg;
	const char *name;
	int which = 0;
	size_t len;

	(void)alert;
	notes->missed = false;
	if (asked_name(ssl, &name, &len)) {
		which = find_for_client(site, ssl, find_certificate(site, name, len), name, len);
		notes->missed = which < 0;
	}
	if (which > 0)
		SSL_set_SSL_CTX(ssl, site->contexts[which]);
	return SSL_set_session_id_context(ssl, site->ids[which > 0 ? which : 0][notes->door],
					  SHA256_DIGEST_LENGTH) ? SSL_CLIENT_HELLO_SUCCESS :
	       SSL_CLIENT_HELLO_ERROR;
}

static int confirm_name(SSL *ssl, int *alert, void *arg)
{
	const struct tls_notes *notes = SSL_get_app_data(ssl);

	(void)alert;
	(void)arg;
	return notes->missed || !SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name) ?
	       SSL_TLSEXT_ERR_NOACK : SSL_TLSEXT_ERR_OK;
}

/*
 * Sessions are of a certificate and of what was asked of the client, and by whose word: its certificate is not
 * looked at again when one is resumed.
 */
static int make_ids(struct tls_site *site, unsigned int which)
{
	unsigned char text[2 * SHA256_DIGEST_LENGTH + 1] = { 0 };
	unsigned int door;

	if (!X509_digest(SSL_CTX_get0_certificate(site->contexts[which]), EVP_sha256(), text, NULL))
		return -EINVAL;
	for (door = DOOR_TLS; door < DOORS; door++) {
		text[sizeof(text) - 1] = door;
		if (door > DOOR_TLS)
			memcpy(text + SHA256_DIGEST_LENGTH, site->authority.digest, AUTHORITY_DIGEST);
		if (!EVP_Digest(text, sizeof(text), site->ids[which][door], NULL, EVP_sha256(), NULL))
			return -EINVAL;
	}
	return 0;
}

static void note_secret(const SSL *ssl, const char *line)
{
	struct tls_notes *notes = SSL_get_app_data(ssl);

	seal_secret(&notes->seal, line);
}

static int set_up(SSL_CTX *ctx, struct tls_site *site, const struct tls_settings *config)
{
	/* HTTP says itself where its messages end: an end without close_notify is one all the same. */
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
			    SSL_OP_IGNORE_UNEXPECTED_EOF);
	/* Our order, but for who names ChaCha20 first: he computes AES without instructions for it. */
	SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
	SSL_CTX_set_client_hello_cb(ctx, choose_certificate, site);
	SSL_CTX_set_tlsext_servername_callback(ctx, confirm_name);
	if (config->tls_port || config->tls_port_http2)
		SSL_CTX_set_keylog_callback(ctx, note_secret);
	return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) &&
	       SSL_CTX_set_cipher_list(ctx, CIPHERS_12) && SSL_CTX_set_ciphersuites(ctx, CIPHERS_13) &&
	       (config->tickets ? !ticket_use(ctx, config->ticket_rotation_us, site->tickets) :
				  ticket_refuse(ctx)) &&
	       authority_use(&site->authority, ctx) ? 0 : -EINVAL;
}

struct tls_site *tls_site_new(const struct tls_settings *config, char *error, size_t size)
{
	struct tls_file f = { .what = "certificate", .error = error, .size = size };
	struct tls_file ca = { "client-ca", config->client_ca, error, size };
	struct tls_file tickets = { "ticket-keys", config->ticket_keys, error, size };
	struct tls_site *site = calloc(1, sizeof(*site));
	unsigned int i;

	snprintf(error, size, "TLS: no memory");
	if (!site)
		return NULL;
	site->users = 1;
	if ((*config->client_ca && authority_read(&site->authority, &ca)) ||
	    (*config->ticket_keys && ticket_keys_read(&site->tickets, &tickets)))
		goto fail;
	for (i = 0; i < config->certificate_count; i++) {
		const struct config_certificate *c = &config->certificates[i];
		SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

		if (!ctx)
			goto fail;
		site->contexts[site->count++] = ctx;
		if (set_up(ctx, site, config)) {
			snprintf(error, size, "TLS: OpenSSL refuses its settings: %s",
				 ERR_reason_error_string(ERR_peek_last_error()));
			goto fail;
		}
		f.path = c->chain;
		if (tls_file_use(&f, false, use_chain, ctx))
			goto fail;
		f.path = c->key;
		if (tls_file_use(&f, true, use_key, ctx) || make_ids(site, i))
			goto fail;
		if (*c->ocsp) {
			site->staples[i] = staple_new(ctx, c->ocsp);
			if (!site->staples[i])
				goto fail;
		}
	}
	return site;

fail:
	tls_site_put(site);
	return NULL;
}

struct tls_site *tls_site_get(struct tls_site *site)
{
	site->users++;
	return site;
}

void tls_site_put(struct tls_site *site)
{
	unsigned int i;

	if (!site || --site->users)
		return;
	for (i = 0; i < site->count; i++) {
		SSL_CTX_free(site->contexts[i]);
		staple_free(site->staples[i]);
	}
	authority_forget(&site->authority);
	ticket_keys_free(site->tickets);
	free(site);
}

/*
 * The bytes of an address as a URL has it; 0: it is none. OpenSSL would take "0127.0.0.1", which
 * browsers go to as 87.0.0.1.
 */
static size_t address_bytes(const char *host, size_t len, unsigned char *bytes)
{
	bool v6 = len >= 2 && *host == '[' && host[len - 1] == ']';
	char text[INET6_ADDRSTRLEN];

	if (v6) {
		host++;
		len -= 2;
	}
	if (len >= sizeof(text))
		return 0;
	memcpy(text, host, len);
	text[len] = '\0';
	if (inet_pton(v6 ? AF_INET6 : AF_INET, text, bytes) != 1)
		return 0;
	return v6 ? sizeof(struct in6_addr) : sizeof(struct in_addr);
}

bool tls_site_is_for(const struct tls_site *site, const char *host, size_t len)
{
	unsigned char bytes[sizeof(struct in6_addr)];
	size_t size = address_bytes(host, len, bytes);
	unsigned int i;

	if (!size)
		return find_certificate(site, host, len) >= 0;
	for (i = 0; i < site->count; i++)
		if (X509_check_ip(SSL_CTX_get0_certificate(site->contexts[i]), bytes, size, 0) == 1)
			return true;
	return false;
}

SSL *tls_site_connection(struct tls_site *site, int fd, enum config_door door,
			 struct tls_notes *notes)
{
	static const int verify[DOORS] = {
		[DOOR_OPTIONAL] = SSL_VERIFY_PEER,
		[DOOR_REQUIRED] = SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
	};
	SSL *ssl = SSL_new(site->contexts[0]);

	if (!ssl)
		return NULL;
	if (!SSL_set_fd(ssl, fd)) {
		SSL_free(ssl);
		return NULL;
	}
	notes->door = door;
	SSL_set_app_data(ssl, notes);
	SSL_set_verify(ssl, verify[door], NULL);
	SSL_set_accept_state(ssl);
	return ssl;
}

static void *take(size_t size, const char *file, int line)
{
	(void)file;
	(void)line;
	return malloc(size);
}

static void give_back(void *p, const char *file, int line)
{
	(void)file;
	(void)line;
	/* Not OPENSSL_cleanse(), which takes 8 bytes at a time: a handshake frees 400 KB. */
	if (p)
		explicit_bzero(p, malloc_usable_size(p));
	free(p);
}

static void *change(void *p, size_t size, const char *file, int line)
{
	size_t was = p ? malloc_usable_size(p) : 0;
	void *now = size ? malloc(size) : NULL;

	if (!now && size)
		return NULL;
	if (now && p)
		memcpy(now, p, was < size ? was : size);
	give_back(p, file, line);
	return now;
}

int tls_wipe_freed(void)
{
	return CRYPTO_set_mem_functions(take, change, give_back) ? 0 : -EBUSY;
}
