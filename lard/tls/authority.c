// SPDX-License-Identifier: GPL-2.0
#include "authority.h"
#include <endian.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define CHAIN_MAX	16384	/* bytes of what a client sends; a stranger's are in memory until they are judged */
#define DEPTH_MAX	4

/* NULL: it is taken; else why not. */
static const char *take(struct authority *a, const X509_INFO *info)
{
	X509_NAME *name;

	if (info->crl && !(X509_STORE_add_crl(a->store, info->crl) &&
			   X509_STORE_set_flags(a->store, X509_V_FLAG_CRL_CHECK)))
		return "a revocation list cannot be used";
	if (!info->x509)
		return NULL;
	if (!X509_check_ca(info->x509))
		return "a certificate in it is no authority's";
	name = X509_NAME_dup(X509_get_subject_name(info->x509));
	if (!name || !sk_X509_NAME_push(a->names, name)) {
		X509_NAME_free(name);
		return "no memory";
	}
	return X509_STORE_add_cert(a->store, info->x509) ? NULL : "a certificate in it cannot be used";
}

static int take_all(const struct tls_file *f, void *to, BIO *from)
{
	struct authority *a = to;
	STACK_OF(X509_INFO) *all;
	const char *why = NULL;
	char *text;
	long len = BIO_get_mem_data(from, &text);
	int i;

	if (!EVP_Digest(text, len, a->digest, NULL, EVP_sha256(), NULL))
		return tls_file_sorry(f, "no memory");
	all = PEM_X509_INFO_read_bio(from, NULL, NULL, NULL);
	if (!all)
		return tls_file_sorry_ssl(f, "it is malformed");
	for (i = 0; i < sk_X509_INFO_num(all) && !why; i++)
		why = take(a, sk_X509_INFO_value(all, i));
	sk_X509_INFO_pop_free(all, X509_INFO_free);
	if (!why && !sk_X509_NAME_num(a->names))
		why = "no certificate is in it";
	return why ? tls_file_sorry_ssl(f, why) : 0;
}

int authority_read(struct authority *authority, const struct tls_file *f)
{
	authority->store = X509_STORE_new();
	authority->names = sk_X509_NAME_new_null();
	if (!authority->store || !authority->names)
		return tls_file_sorry(f, "no memory");
	return tls_file_use(f, false, take_all, authority);
}

/* --- how long a session holds: it has the client's certificate alone, verified once --- */

static int64_t seconds_of(const ASN1_TIME *when)
{
	struct tm tm;

	return ASN1_TIME_to_tm(when, &tm) ? timegm(&tm) : 0;
}

/* The list of those that @x's issuer has revoked; of several, that which holds for longest. */
static int64_t list_until(const struct authority *a, const X509 *x)
{
	STACK_OF(X509_OBJECT) *all = X509_STORE_get0_objects(a->store);
	int64_t until = 0;
	bool there = false;
	int i;

	for (i = 0; i < sk_X509_OBJECT_num(all); i++) {
		X509_CRL *crl = X509_OBJECT_get0_X509_CRL(sk_X509_OBJECT_value(all, i));
		const ASN1_TIME *next;
		int64_t end;

		if (!crl || X509_NAME_cmp(X509_CRL_get_issuer(crl), X509_get_issuer_name(x)))
			continue;
		next = X509_CRL_get0_nextUpdate(crl);
		end = next ? seconds_of(next) : INT64_MAX;
		until = end > until ? end : until;
		there = true;
	}
	return there ? until : INT64_MAX;
}

static int64_t chain_until(const struct authority *a, const SSL *ssl)
{
	STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
	int64_t until = list_until(a, sk_X509_value(chain, 0));
	int i;

	for (i = 0; i < sk_X509_num(chain); i++) {
		int64_t end = seconds_of(X509_get0_notAfter(sk_X509_value(chain, i)));

		until = end < until ? end : until;
	}
	return until;
}

/*
 * A ticket is made: it says until when. One that is made of another says what that said, so a client
 * shows its certificate again once a ticket's life has passed, however often it comes.
 */
static int note_until(SSL *ssl, void *arg)
{
	int64_t end = time(NULL) + SSL_CTX_get_timeout(SSL_get_SSL_CTX(ssl)), chain;
	uint64_t until;

	if (SSL_session_reused(ssl) || !sk_X509_num(SSL_get0_verified_chain(ssl)))
		return 1;
	chain = chain_until(arg, ssl);
	until = htobe64(chain < end ? chain : end);
	return SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), &until, sizeof(until));
}

static bool still_holds(SSL_SESSION *session)
{
	uint64_t until;
	void *noted;
	size_t len;

	if (!SSL_SESSION_get0_peer(session))
		return true;
	if (!SSL_SESSION_get0_ticket_appdata(session, &noted, &len) || len != sizeof(until))
		return false;
	memcpy(&until, noted, len);
	return (int64_t)be64toh(until) > time(NULL);
}

/* A ticket has come: if it holds no longer, a whole handshake follows, with the certificate. */
static SSL_TICKET_RETURN judge_ticket(SSL *ssl, SSL_SESSION *session, const unsigned char *name,
				      size_t len, SSL_TICKET_STATUS status, void *arg)
{
	bool good = status == SSL_TICKET_SUCCESS || status == SSL_TICKET_SUCCESS_RENEW;

	(void)ssl;
	(void)name;
	(void)len;
	(void)arg;
	if (!good || !still_holds(session))
		return SSL_TICKET_RETURN_IGNORE_RENEW;
	return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

bool authority_use(struct authority *authority, SSL_CTX *ctx)
{
	STACK_OF(X509_NAME) *names;

	if (!authority->store)
		return true;
	names = SSL_dup_CA_list(authority->names);
	if (!names)
		return false;
	SSL_CTX_set_client_CA_list(ctx, names);
	SSL_CTX_set_verify_depth(ctx, DEPTH_MAX);
	SSL_CTX_set_max_cert_list(ctx, CHAIN_MAX);
	return SSL_CTX_set1_verify_cert_store(ctx, authority->store) &&
	       SSL_CTX_set_session_ticket_cb(ctx, note_until, judge_ticket, authority);
}

void authority_forget(struct authority *authority)
{
	X509_STORE_free(authority->store);
	sk_X509_NAME_pop_free(authority->names, X509_NAME_free);
}
