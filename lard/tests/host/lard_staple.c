// SPDX-License-Identifier: GPL-2.0
/* Which OCSP responses go out: made here, as a responder would, and asked for by a client. */
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "lard/loop.h"
#include "lard/tls/staple.h"
#include "lard/tls/tls.h"

#define DAY 86400L

struct identity {
	EVP_PKEY *key;
	X509 *x;
};

static struct identity root, ca, site, other_site, other_ca, responder, impostor;
static char path[] = "/tmp/lard_staple.XXXXXX";

uint64_t loop_clock(void)
{
	return 0;
}

static void extend(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *extension;

	X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	assert_non_null(extension);
	X509_add_ext(x, extension, -1);
	X509_EXTENSION_free(extension);
}

static void make(struct identity *who, const char *name, const struct identity *issuer, const char *usage)
{
	static long serial;

	who->key = EVP_EC_gen("P-256");
	who->x = X509_new();
	X509_set_version(who->x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(who->x), ++serial);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(who->x), "CN", MBSTRING_ASC,
				   (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(who->x, X509_get_subject_name(issuer->x));
	X509_gmtime_adj(X509_getm_notBefore(who->x), -DAY);
	X509_gmtime_adj(X509_getm_notAfter(who->x), 9 * DAY);
	X509_set_pubkey(who->x, who->key);
	extend(who->x, issuer->x, NID_basic_constraints, usage ? "CA:FALSE" : "critical,CA:TRUE");
	if (usage)
		extend(who->x, issuer->x, NID_ext_key_usage, usage);
	assert_true(X509_sign(who->x, issuer->key, EVP_sha256()) > 0);
}

static int make_all(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	make(&root, "root", &root, NULL);
	make(&ca, "CA", &root, NULL);
	make(&other_ca, "CA", &other_ca, NULL);		/* by the same name */
	make(&site, "site", &ca, "serverAuth");
	make(&other_site, "other", &ca, "serverAuth");
	make(&responder, "responder", &ca, "OCSPSigning");
	make(&impostor, "impostor", &ca, "serverAuth");
	return fd < 0 ? -1 : close(fd);
}

static int drop_all(void **state)
{
	struct identity *all[] = { &root, &ca, &site, &other_site, &other_ca, &responder, &impostor };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		EVP_PKEY_free(all[i]->key);
		X509_free(all[i]->x);
	}
	return unlink(path);
}

/**
 * struct answer - a response as it is to be
 * @from, @to: seconds from now; @to 0: it does not say
 * @more: certificates that it brings along
 */
struct answer {
	const struct identity *about, *by, *issuer;
	int status;
	long from, to;
	const EVP_MD *digest;
	int more;
};

static struct answer good(void)
{
	return (struct answer){ &site, &ca, &ca, V_OCSP_CERTSTATUS_GOOD, -60, DAY, NULL, 0 };
}

static void write_file(const struct answer *a)
{
	ASN1_TIME *from = X509_gmtime_adj(NULL, a->from), *to = a->to ? X509_gmtime_adj(NULL, a->to) : NULL;
	ASN1_TIME *when = a->status == V_OCSP_CERTSTATUS_REVOKED ? from : NULL;
	OCSP_BASICRESP *basic = OCSP_BASICRESP_new();
	STACK_OF(X509) *more = sk_X509_new_null();
	OCSP_RESPONSE *response;
	FILE *file = fopen(path, "w");
	BIO *bio = BIO_new_fp(file, BIO_CLOSE);
	int i;

	/* Others come first: a response may be about several. */
	OCSP_basic_add1_status(basic, OCSP_cert_to_id(NULL, other_ca.x, a->issuer->x), V_OCSP_CERTSTATUS_GOOD, 0,
			       NULL, from, to);
	OCSP_basic_add1_status(basic, OCSP_cert_to_id(a->digest, a->about->x, a->issuer->x), a->status,
			       OCSP_REVOKED_STATUS_NOSTATUS, when, from, to);
	for (i = 0; i < a->more; i++)
		sk_X509_push(more, other_site.x);
	assert_true(OCSP_basic_sign(basic, a->by->x, a->by->key, EVP_sha256(), more, 0));
	sk_X509_free(more);
	response = OCSP_response_create(OCSP_RESPONSE_STATUS_SUCCESSFUL, basic);
	i2d_OCSP_RESPONSE_bio(bio, response);
	BIO_free(bio);
	OCSP_RESPONSE_free(response);
	OCSP_BASICRESP_free(basic);
	ASN1_TIME_free(from);
	ASN1_TIME_free(to);
}

static SSL_CTX *make_server(bool with_chain)
{
	SSL_CTX *server = SSL_CTX_new(TLS_server_method());

	SSL_CTX_use_certificate(server, site.x);
	SSL_CTX_use_PrivateKey(server, site.key);
	if (with_chain)
		SSL_CTX_add1_chain_cert(server, ca.x);
	return server;
}

/* Length of what a client gets; -1: nothing. */
static long ask(SSL_CTX *server, int version, struct tls_notes *notes)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *client = SSL_new(ctx), *ssl = SSL_new(server);
	const unsigned char *response;
	BIO *a, *b;
	long got;
	int i;

	memset(notes, 0, sizeof(*notes));
	SSL_set_max_proto_version(client, version);
	SSL_set_tlsext_status_type(client, TLSEXT_STATUSTYPE_ocsp);
	SSL_set_app_data(ssl, notes);
	assert_int_equal(BIO_new_bio_pair(&a, 0, &b, 0), 1);
	SSL_set_bio(client, a, a);
	SSL_set_bio(ssl, b, b);
	for (i = 0; i < 10; i++) {
		SSL_connect(client);
		SSL_accept(ssl);
	}
	assert_true(SSL_is_init_finished(client) && SSL_is_init_finished(ssl));
	got = SSL_get_tlsext_status_ocsp_resp(client, &response);
	SSL_free(client);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	return got;
}

/* Does the answer go out, in both versions? */
static bool goes_out(const struct answer *a)
{
	SSL_CTX *server = make_server(true);
	struct staple *staple;
	struct tls_notes notes;
	bool out;

	write_file(a);
	staple = staple_new(server, path);
	assert_non_null(staple);
	out = ask(server, TLS1_2_VERSION, &notes) > 0;
	assert_int_equal(notes.stapled, out);
	assert_int_equal(notes.unstapled, !out);
	assert_int_equal(ask(server, TLS1_3_VERSION, &notes) > 0, out);
	SSL_CTX_free(server);
	staple_free(staple);
	return out;
}

static void a_good_one_goes_out(void **state)
{
	struct answer a = good();

	(void)state;
	assert_true(goes_out(&a));
	a.digest = EVP_sha256();
	assert_true(goes_out(&a));
	a.by = &responder;
	assert_true(goes_out(&a));
}

static void one_of_another_time_does_not(void **state)
{
	struct answer a = good();

	(void)state;
	a.from = -2 * DAY;
	a.to = -DAY;
	assert_false(goes_out(&a));
	a.from = DAY;
	a.to = 2 * DAY;
	assert_false(goes_out(&a));
	a = good();
	a.to = 0;
	assert_false(goes_out(&a));
}

static void one_of_another_signer_does_not(void **state)
{
	struct answer a = good();

	(void)state;
	a.by = &other_ca;
	assert_false(goes_out(&a));
	a.issuer = &other_ca;
	assert_false(goes_out(&a));
	a = good();
	a.by = &impostor;		/* the issuer knows him, but not as his responder */
	assert_false(goes_out(&a));
	a.by = &site;
	assert_false(goes_out(&a));
}

static void one_about_another_or_without_good_news_does_not(void **state)
{
	struct answer a = good();

	(void)state;
	a.about = &other_site;
	assert_false(goes_out(&a));
	a = good();
	a.status = V_OCSP_CERTSTATUS_REVOKED;
	assert_false(goes_out(&a));
	a.status = V_OCSP_CERTSTATUS_UNKNOWN;
	assert_false(goes_out(&a));
}

/* Every handshake of those who ask would fail by it. */
static void one_too_long_for_a_client_does_not(void **state)
{
	struct answer a = good();

	(void)state;
	a.more = 20;
	assert_true(goes_out(&a));
	a.more = 80;
	assert_false(goes_out(&a));
	a.more = 300;
	assert_false(goes_out(&a));
}

static void files_that_are_none_do_not(void **state)
{
	static const unsigned char refusal[] = { 0x30, 3, 0x0a, 1, OCSP_RESPONSE_STATUS_UNAUTHORIZED };
	struct answer a = good();
	struct tls_notes notes;
	size_t len;

	(void)state;
	for (len = 0; len < 7; len++) {
		SSL_CTX *server = make_server(len != 6);
		struct staple *staple;
		FILE *file;

		write_file(&a);
		file = fopen(path, len == 6 ? "r" : "w");	/* the last: a good one, but no issuer */
		if (len < 6)
			fwrite(refusal, 1, len, file);
		fclose(file);
		staple = staple_new(server, path);
		assert_true(ask(server, TLS1_3_VERSION, &notes) <= 0);
		assert_true(notes.unstapled);
		SSL_CTX_free(server);
		staple_free(staple);
	}
}

static void one_that_grows_old_goes_out_no_more(void **state)
{
	SSL_CTX *server = make_server(true);
	struct answer a = good();
	struct staple *staple;
	struct tls_notes notes;
	int i;

	(void)state;
	a.to = 5;
	write_file(&a);
	staple = staple_new(server, path);
	assert_true(ask(server, TLS1_3_VERSION, &notes) > 0);
	for (i = 0; i < 300 && ask(server, TLS1_3_VERSION, &notes) > 0; i++)
		usleep(100000);
	assert_true(notes.unstapled && !notes.stapled);
	SSL_CTX_free(server);
	staple_free(staple);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_one_goes_out),
		cmocka_unit_test(one_of_another_time_does_not),
		cmocka_unit_test(one_of_another_signer_does_not),
		cmocka_unit_test(one_about_another_or_without_good_news_does_not),
		cmocka_unit_test(one_too_long_for_a_client_does_not),
		cmocka_unit_test(files_that_are_none_do_not),
		cmocka_unit_test(one_that_grows_old_goes_out_no_more),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("lard_staple", tests, make_all, drop_all);
}
