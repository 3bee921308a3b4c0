// SPDX-License-Identifier: GPL-2.0
#include "staple.h"
#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "host.h"
#include "tls.h"
#include "tls_file.h"

#define SKEW_SECONDS	300	/* between our clock and the responder's */
#define RESPONSE_MAX	16000	/* clients take 16 KiB; TLS 1.3 has room for 64 KiB */

/**
 * struct staple - see staple.h
 * @bytes: as it goes out, of @len; NULL: there is none
 * @until: it is good
 */
struct staple {
	unsigned char *bytes;
	int len;
	struct tm until;
};

/* Who has issued the certificate, of its chain. */
static X509 *find_issuer(SSL_CTX *ctx)
{
	X509 *own = SSL_CTX_get0_certificate(ctx);
	STACK_OF(X509) *chain = NULL;
	int i;

	SSL_CTX_get0_chain_certs(ctx, &chain);
	for (i = 0; i < sk_X509_num(chain); i++)
		if (X509_check_issued(sk_X509_value(chain, i), own) == X509_V_OK)
			return sk_X509_value(chain, i);
	return NULL;
}

/* By the issuer, or by whom the issuer has made his responder. */
static bool is_signed(OCSP_BASICRESP *basic, X509 *issuer)
{
	STACK_OF(X509) *others = sk_X509_new_null();
	X509_STORE *store = X509_STORE_new();
	bool ok = others && store && sk_X509_push(others, issuer) && X509_STORE_add_cert(store, issuer) &&
		  X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN) &&
		  OCSP_basic_verify(basic, others, store, 0) == 1;

	X509_STORE_free(store);
	sk_X509_free(others);
	return ok;
}

/* The answer about @own; it may name the issuer by any digest. NULL: there is none. */
static OCSP_SINGLERESP *find_answer(OCSP_BASICRESP *basic, X509 *own, X509 *issuer)
{
	int i;

	for (i = 0; i < OCSP_resp_count(basic); i++) {
		OCSP_SINGLERESP *single = OCSP_resp_get0(basic, i);
		OCSP_CERTID *theirs = (OCSP_CERTID *)OCSP_SINGLERESP_get0_id(single), *ours;
		ASN1_OBJECT *digest;
		bool same;

		OCSP_id_get0_info(NULL, &digest, NULL, NULL, theirs);
		ours = OCSP_cert_to_id(EVP_get_digestbyobj(digest), own, issuer);
		same = ours && !OCSP_id_cmp(ours, theirs);
		OCSP_CERTID_free(ours);
		if (same)
			return single;
	}
	return NULL;
}

/* NULL: it is good; else why not. */
static const char *judge(struct staple *staple, OCSP_BASICRESP *basic, SSL_CTX *ctx)
{
	X509 *own = SSL_CTX_get0_certificate(ctx), *issuer = find_issuer(ctx);
	ASN1_GENERALIZEDTIME *this_update, *next_update;
	OCSP_SINGLERESP *single;
	int status;

	if (!issuer)
		return "the chain has no issuer of the certificate to verify it by";
	if (!is_signed(basic, issuer))
		return "it is not signed by the certificate's issuer";
	single = find_answer(basic, own, issuer);
	if (!single)
		return "it is about another certificate";
	status = OCSP_single_get0_status(single, NULL, NULL, &this_update, &next_update);
	if (status != V_OCSP_CERTSTATUS_GOOD)
		return status == V_OCSP_CERTSTATUS_REVOKED ? "the certificate is revoked" :
		       "the responder does not know the certificate";
	if (!next_update || !ASN1_TIME_to_tm(next_update, &staple->until))
		return "it does not say for how long it is good";
	if (OCSP_check_validity(this_update, next_update, SKEW_SECONDS, -1) != 1)
		return "it is not good at this time";
	return NULL;
}

static int read_response(const struct tls_file *f, void *to, BIO *from)
{
	OCSP_RESPONSE *response = d2i_OCSP_RESPONSE_bio(from, NULL);
	OCSP_BASICRESP *basic = NULL;
	struct staple *staple;
	SSL_CTX *ctx = to;
	const char *why;

	SSL_CTX_get_tlsext_status_arg(ctx, &staple);
	if (!response)
		return tls_file_sorry(f, "it is no OCSP response in DER");
	if (OCSP_response_status(response) == OCSP_RESPONSE_STATUS_SUCCESSFUL)
		basic = OCSP_response_get1_basic(response);
	why = basic ? judge(staple, basic, ctx) : "the responder has refused to answer";
	if (!why) {
		staple->len = i2d_OCSP_RESPONSE(response, &staple->bytes);
		if (staple->len <= 0)
			why = "no memory";
		else if (staple->len > RESPONSE_MAX)
			why = "it is longer than 16000 bytes, which clients do not take";
		if (why)
			staple->len = 0;
	}
	OCSP_BASICRESP_free(basic);
	OCSP_RESPONSE_free(response);
	return why ? tls_file_sorry(f, why) : 0;
}

static bool is_good_now(const struct staple *staple)
{
	time_t now = time(NULL);
	struct tm tm;
	int days, seconds;

	return staple->len > 0 && gmtime_r(&now, &tm) &&
	       OPENSSL_gmtime_diff(&days, &seconds, &tm, &staple->until) && (days > 0 || seconds > 0);
}

static int show(SSL *ssl, void *arg)
{
	const struct staple *staple = arg;
	struct tls_notes *notes = SSL_get_app_data(ssl);
	unsigned char *copy = NULL;

	/* It was good when it was read: nobody may have come with a newer one. */
	notes->stapled = false;
	if (is_good_now(staple))
		copy = OPENSSL_memdup(staple->bytes, staple->len);
	if (copy)
		notes->stapled = SSL_set_tlsext_status_ocsp_resp(ssl, copy, staple->len);
	notes->unstapled = !notes->stapled;
	return notes->stapled ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

struct staple *staple_new(SSL_CTX *ctx, const char *path)
{
	struct staple *staple = calloc(1, sizeof(*staple));
	char error[512];
	struct tls_file f = { .what = "ocsp", .path = path, .error = error, .size = sizeof(error) };

	if (!staple)
		return NULL;
	SSL_CTX_set_tlsext_status_cb(ctx, show);
	SSL_CTX_set_tlsext_status_arg(ctx, staple);
	if (tls_file_use(&f, false, read_response, ctx))
		tls_host_warn("ocsp", error);
	ERR_clear_error();
	return staple;
}

void staple_free(struct staple *staple)
{
	if (!staple)
		return;
	OPENSSL_free(staple->bytes);
	free(staple);
}
