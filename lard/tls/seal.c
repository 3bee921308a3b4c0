// SPDX-License-Identifier: GPL-2.0
#include "seal.h"
#include <errno.h>
#include <linux/tls.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define HEADER		5
#define TAG		16
#define PLAIN_MAX	16384
#define RECORD_MAX	(HEADER + PLAIN_MAX + 256)	/* RFC 8446, 5.2 */
#define RAW_MAX		(RECORD_MAX + 2048)		/* looked at: a header's record, or some small ones */
#define RECORDS_MAX	8	/* looked at: each look begins at the first */
#define KEY_UPDATE	24

/* What the TLS of the kernel can do, by the numbers of RFC 8446, B.4. */
static const struct suite {
	uint16_t id;
	uint16_t cipher;
	size_t key;
	const char *name, *digest;
} suites[] = {
	{ 0x1301, TLS_CIPHER_AES_GCM_128, 16, "AES-128-GCM", "SHA256" },
	{ 0x1302, TLS_CIPHER_AES_GCM_256, 32, "AES-256-GCM", "SHA384" },
	{ 0x1303, TLS_CIPHER_CHACHA20_POLY1305, 32, "ChaCha20-Poly1305", "SHA256" },
};

static const struct suite *suite_of(const SSL *ssl)
{
	const SSL_CIPHER *cipher = SSL_get_current_cipher(ssl);
	unsigned int i;

	if (SSL_version(ssl) != TLS1_3_VERSION || !cipher)
		return NULL;
	for (i = 0; i < sizeof(suites) / sizeof(suites[0]); i++)
		if (suites[i].id == SSL_CIPHER_get_protocol_id(cipher))
			return &suites[i];
	return NULL;
}

/* "CLIENT_TRAFFIC_SECRET_0 RANDOM SECRET", both in hexadecimal digits */
void seal_secret(struct seal *seal, const char *line)
{
	static const char client[] = "CLIENT_TRAFFIC_SECRET_0 ", server[] = "SERVER_TRAFFIC_SECRET_0 ";
	struct seal_way *way;
	const char *digits;

	if (!strncmp(line, client, sizeof(client) - 1))
		way = &seal->rx;
	else if (!strncmp(line, server, sizeof(server) - 1))
		way = &seal->tx;
	else
		return;
	digits = strrchr(line, ' ') + 1;
	way->records = 0;
	way->derived = false;
	seal->need = 0;
	if (!OPENSSL_hexstr2buf_ex(way->secret, sizeof(way->secret), &way->len, digits, '\0'))
		way->len = 0;
}

void seal_note(struct seal *seal, int writing, int type, const unsigned char *bytes, size_t len)
{
	struct seal_way *way = writing ? &seal->tx : &seal->rx;

	/* Records without keys come before these secrets. */
	if (type == SSL3_RT_HEADER && way->len)
		way->records++;
	if (type == SSL3_RT_HEADER && !writing)
		seal->need = 0;
	if (type == SSL3_RT_HANDSHAKE && len && *bytes == KEY_UPDATE)
		seal->lost = true;
}

bool seal_holds(const struct seal *seal, SSL *ssl)
{
	return seal->rx.len && seal->tx.len && !seal->lost && !SSL_has_pending(ssl) &&
	       !strcmp(SSL_rstate_string(ssl), "RH") && suite_of(ssl);
}

static int expand(const struct seal_way *way, const char *digest, const char *label,
		  unsigned char *out, size_t len)
{
	int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
		OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)digest, 0),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)way->secret, way->len),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_PREFIX, "tls13 ", 6),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_LABEL, (void *)label, strlen(label)),
		OSSL_PARAM_construct_end(),
	};
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "TLS13-KDF", NULL);
	EVP_KDF_CTX *ctx = EVP_KDF_CTX_new(kdf);
	int ok = ctx && EVP_KDF_derive(ctx, out, len, params) == 1;

	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
	return ok ? 0 : -1;
}

/* Once for a connection; the number of the next record is another each time. */
static int derive(struct seal_way *way, const struct suite *suite)
{
	uint64_t records = way->records;
	int i;

	for (i = 7; i >= 0; i--, records >>= 8)
		way->keys.rec_seq[i] = records;
	way->derived = way->derived ||
		       (!expand(way, suite->digest, "key", way->keys.key, suite->key) &&
			!expand(way, suite->digest, "iv", way->keys.iv, sizeof(way->keys.iv)));
	return way->derived ? 0 : -1;
}

/*
 * A record of @len bytes behind its header becomes clear text. Return: its length, with the type
 * in *@type; -1: it is not of the client's, or not the one that is next.
 */
static int open_record(EVP_CIPHER_CTX *ctx, struct flt_tls_way *way, const unsigned char *record,
		       size_t len, unsigned char *out, unsigned char *type)
{
	unsigned char nonce[sizeof(way->iv)];
	int n, last, i;

	memcpy(nonce, way->iv, sizeof(nonce));
	for (i = 0; i < 8; i++)
		nonce[i + 4] ^= way->rec_seq[i];
	if (EVP_DecryptInit_ex(ctx, NULL, NULL, NULL, nonce) != 1 ||
	    EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, TAG, (void *)(record + HEADER + len - TAG)) != 1 ||
	    EVP_DecryptUpdate(ctx, NULL, &n, record, HEADER) != 1 ||
	    EVP_DecryptUpdate(ctx, out, &n, record + HEADER, len - TAG) != 1 ||
	    EVP_DecryptFinal_ex(ctx, out + n, &last) != 1)
		return -1;
	for (i = 7; i >= 0 && !++way->rec_seq[i]; i--)
		;
	/* The type is behind the text, and zeros behind that. */
	while (n && !out[n - 1])
		n--;
	if (!n || n - 1 > PLAIN_MAX)
		return -1;
	*type = out[n - 1];
	return n - 1;
}

/* How long the record at @raw is, as far as it has come; -1: it is not one of a client's data. */
static ssize_t record_length(const unsigned char *raw, size_t there)
{
	size_t size;

	if (there < HEADER)
		return HEADER;
	size = raw[3] << 8 | raw[4];
	return raw[0] != SSL3_RT_APPLICATION_DATA || size <= TAG || size > RECORD_MAX - HEADER ? -1 :
	       (ssize_t)(HEADER + size);
}

/*
 * The clear text of whole records at @raw, as far as it is data and is looked at: its length. -1: there is
 * none, and more will not help. @seal: for what the next look needs.
 */
static ssize_t open_records(EVP_CIPHER_CTX *ctx, struct flt_tls_way *way, const unsigned char *raw,
			    size_t there, unsigned char *into, size_t len, struct seal *seal)
{
	unsigned char text[PLAIN_MAX + 256], type = SSL3_RT_APPLICATION_DATA;
	unsigned int records = 0;
	size_t at = 0, done = 0;
	ssize_t size;
	int n = 0;

	seal->need = 0;
	while (done < len) {
		size = record_length(raw + at, there - at);
		/* What those before have given may do. */
		if (size > HEADER && (++records > RECORDS_MAX || at + size > RAW_MAX)) {
			seal->need = SEAL_NEVER;
			n = -1;
			break;
		}
		seal->need = size < 0 ? SEAL_NEVER : at + size;
		n = size < 0 ? -1 : 0;
		if (size < 0 || there < seal->need)
			break;
		n = open_record(ctx, way, raw + at, size - HEADER, text, &type);
		/* Nothing behind this one is looked at, however much comes. */
		seal->need = n < 0 || type != SSL3_RT_APPLICATION_DATA ? SEAL_NEVER : 0;
		if (seal->need)
			break;
		if ((size_t)n > len - done)
			n = len - done;
		memcpy(into + done, text, n);
		done += n;
		at += size;
	}
	seal->whole = at;
	OPENSSL_cleanse(text, sizeof(text));
	/* New keys, which the kernel could not go on with. */
	if (type == SSL3_RT_HANDSHAKE)
		return -1;
	return done || (n >= 0 && type == SSL3_RT_APPLICATION_DATA) ? (ssize_t)done : -1;
}

static ssize_t open_all(struct seal *seal, const struct suite *suite, const unsigned char *raw,
			size_t there, void *into, size_t len)
{
	EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, suite->name, NULL);
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	ssize_t n = -1;

	if (cipher && ctx && !derive(&seal->rx, suite) &&
	    EVP_DecryptInit_ex(ctx, cipher, NULL, seal->rx.keys.key, NULL) == 1)
		n = open_records(ctx, &seal->rx.keys, raw, there, into, len, seal);
	EVP_CIPHER_CTX_free(ctx);
	EVP_CIPHER_free(cipher);
	return n;
}

ssize_t seal_peek(struct seal *seal, SSL *ssl, int fd, void *into, size_t len, bool more, size_t *looked)
{
	unsigned char raw[RAW_MAX];
	size_t from = more && seal->need ? seal->whole : 0;
	ssize_t there, n;
	int unread = 0;

	/* Byte by byte what is there already would be decrypted once for each. */
	if (more && seal->need && !ioctl(fd, FIONREAD, &unread) && unread > 0 &&
	    (size_t)unread < seal->need) {
		*looked = unread;
		errno = EAGAIN;
		return -1;
	}
	there = recv(fd, raw, sizeof(raw), MSG_PEEK);
	*looked = there > 0 ? there : 0;
	if (there <= 0)
		return there;
	n = (size_t)there > from ? record_length(raw + from, there - from) : 0;
	if (n > there - (ssize_t)from && from + n <= RAW_MAX) {
		seal->whole = from;
		seal->need = from + n;
		n = 0;
	} else {
		n = open_all(seal, suite_of(ssl), raw, there, into, len);
	}
	if (n > 0)
		return n;
	seal->lost = n < 0;
	errno = n < 0 ? EBADMSG : EAGAIN;
	return -1;
}

int seal_keys(struct seal *seal, SSL *ssl, struct flt_tls *keys)
{
	const struct suite *suite = suite_of(ssl);

	memset(keys, 0, sizeof(*keys));
	if (!suite)
		return -1;
	keys->version = TLS_1_3_VERSION;
	keys->cipher = suite->cipher;
	if (derive(&seal->tx, suite) || derive(&seal->rx, suite))
		return -1;
	keys->tx = seal->tx.keys;
	keys->rx = seal->rx.keys;
	return 0;
}

void seal_forget(struct seal *seal)
{
	OPENSSL_cleanse(seal, sizeof(*seal));
}
