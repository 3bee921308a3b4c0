// SPDX-License-Identifier: GPL-2.0
#include "authority.h"
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>

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

bool authority_use(const struct authority *authority, SSL_CTX *ctx)
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
	return SSL_CTX_set1_verify_cert_store(ctx, authority->store);
}

void authority_forget(struct authority *authority)
{
	X509_STORE_free(authority->store);
	sk_X509_NAME_pop_free(authority->names, X509_NAME_free);
}
