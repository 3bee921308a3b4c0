/* SPDX-License-Identifier: GPL-2.0 */
/* A certificate for tests, and records of TLS 1.3 made and opened by their keys alone. Needs cmocka.h. */
#ifndef LARD_TEST_RECORDS_H
#define LARD_TEST_RECORDS_H

#include <fcntl.h>
#include <linux/tls.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <flotilla/flotilla.h>

#define CERTIFICATE_PATH	256

/* Paths of at least CERTIFICATE_PATH bytes are filled in. 0 or -1. */
static inline int certificate_make(char *chain, char *key_path)
{
	char directory[] = "/tmp/lard_certificate.XXXXXX";
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	FILE *file;

	umask(077);
	if (!mkdtemp(directory))
		return -1;
	snprintf(chain, CERTIFICATE_PATH, "%s/chain", directory);
	snprintf(key_path, CERTIFICATE_PATH, "%s/key", directory);
	X509_gmtime_adj(X509_getm_notBefore(x), 0);
	X509_gmtime_adj(X509_getm_notAfter(x), 86400);
	X509_set_pubkey(x, key);
	X509_sign(x, key, EVP_sha256());
	file = fopen(chain, "w");
	PEM_write_X509(file, x);
	fclose(file);
	file = fopen(key_path, "w");
	PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL);
	fclose(file);
	X509_free(x);
	EVP_PKEY_free(key);
	return 0;
}

static inline int certificate_remove(const char *chain, char *key_path)
{
	unlink(key_path);
	unlink(chain);
	*strrchr(key_path, '/') = '\0';
	return rmdir(key_path);
}

/* As who is given the connection does: a record made or opened by these keys alone. */
static inline EVP_CIPHER_CTX *crypt_begin(const struct flt_tls *keys, const struct flt_tls_way *way, bool encrypt)
{
	const EVP_CIPHER *cipher = keys->cipher == TLS_CIPHER_AES_GCM_128 ? EVP_aes_128_gcm() :
				   keys->cipher == TLS_CIPHER_AES_GCM_256 ? EVP_aes_256_gcm() :
				   EVP_chacha20_poly1305();
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	unsigned char nonce[12];
	int i;

	memcpy(nonce, way->iv, 12);
	for (i = 0; i < 8; i++)
		nonce[i + 4] ^= way->rec_seq[i];
	assert_int_equal(EVP_CipherInit_ex(ctx, cipher, NULL, way->key, nonce, encrypt), 1);
	return ctx;
}

static inline void send_record(int fd, const struct flt_tls *keys, const char *text)
{
	size_t len = strlen(text);
	unsigned char record[512] = { 23, 3, 3, 0, len + 1 + 16 };
	EVP_CIPHER_CTX *ctx = crypt_begin(keys, &keys->tx, true);
	unsigned char plain[256];
	int n;

	memcpy(plain, text, len);
	plain[len] = 23;
	assert_int_equal(EVP_CipherUpdate(ctx, NULL, &n, record, 5), 1);
	assert_int_equal(EVP_CipherUpdate(ctx, record + 5, &n, plain, len + 1), 1);
	assert_int_equal(EVP_CipherFinal_ex(ctx, record + 5 + n, &n), 1);
	assert_int_equal(EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, 16, record + 5 + len + 1), 1);
	EVP_CIPHER_CTX_free(ctx);
	assert_int_equal(send(fd, record, 5 + len + 1 + 16, 0), 5 + len + 1 + 16);
}

static inline void receive_record(int fd, const struct flt_tls *keys, const char *text)
{
	size_t len = strlen(text);
	unsigned char record[512], plain[512];
	EVP_CIPHER_CTX *ctx = crypt_begin(keys, &keys->rx, false);
	int n;

	assert_int_equal(recv(fd, record, sizeof(record), 0), 5 + len + 1 + 16);
	assert_int_equal(EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, 16, record + 5 + len + 1), 1);
	assert_int_equal(EVP_CipherUpdate(ctx, NULL, &n, record, 5), 1);
	assert_int_equal(EVP_CipherUpdate(ctx, plain, &n, record + 5, len + 1), 1);
	assert_int_equal(EVP_CipherFinal_ex(ctx, plain + n, &n), 1);
	EVP_CIPHER_CTX_free(ctx);
	assert_memory_equal(plain, text, len);
	assert_int_equal(plain[len], 23);
}

#endif
