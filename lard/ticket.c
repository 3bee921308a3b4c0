// SPDX-License-Identifier: GPL-2.0
#include "ticket.h"
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <string.h>
#include "loop.h"

#define NAME_SIZE	16	/* the size that the protocol's format has for it */
#define KEY_SIZE	32

struct ticket_key {
	unsigned char name[NAME_SIZE];
	unsigned char cipher[KEY_SIZE];
	unsigned char mac[KEY_SIZE];
	uint64_t made_us;	/* 0: there is none */
};

/* New tickets are made with the first; the second is known for as long as the first is used. */
static struct {
	pthread_mutex_t lock;
	struct ticket_key keys[2];
} tickets = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool is_old(const struct ticket_key *key, uint64_t now, uint64_t age)
{
	return key->made_us && now - key->made_us >= age;
}

/* False: no random numbers. Under the lock. */
static bool rotate(uint64_t now, uint64_t age)
{
	struct ticket_key *key = tickets.keys;

	/* Nobody came for a while: the one in use may be too old even to be known. */
	if (is_old(&key[0], now, 2 * age))
		OPENSSL_cleanse(tickets.keys, sizeof(tickets.keys));
	if (key[0].made_us && !is_old(&key[0], now, age))
		return true;
	key[1] = key[0];
	OPENSSL_cleanse(&key[0], sizeof(key[0]));
	if (RAND_bytes(key[0].name, sizeof(key[0].name)) <= 0 ||
	    RAND_priv_bytes(key[0].cipher, sizeof(key[0].cipher)) <= 0 ||
	    RAND_priv_bytes(key[0].mac, sizeof(key[0].mac)) <= 0)
		return false;
	key[0].made_us = now;
	return true;
}

/* -1: there is none. */
static int find(const unsigned char *name)
{
	int i;

	for (i = 0; i < 2; i++)
		if (tickets.keys[i].made_us && !CRYPTO_memcmp(tickets.keys[i].name, name, NAME_SIZE))
			return i;
	return -1;
}

static bool start(const struct ticket_key *key, unsigned char *iv, EVP_CIPHER_CTX *cipher,
		  EVP_MAC_CTX *mac, int making)
{
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)key->mac, KEY_SIZE),
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)"SHA256", 0),
		OSSL_PARAM_construct_end(),
	};

	return EVP_MAC_CTX_set_params(mac, params) > 0 &&
	       EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, key->cipher, iv, making) > 0;
}

/* 0: the ticket is not ours, and a whole handshake follows; 2: it is good, and a new one goes out. */
static int ticket_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
		      EVP_MAC_CTX *mac, int making)
{
	const SSL_CTX *ctx = SSL_get_SSL_CTX(ssl);
	int which = 0, result = -1;

	pthread_mutex_lock(&tickets.lock);
	if (!rotate(loop_clock(), (uintptr_t)SSL_CTX_get_app_data(ctx)))
		goto out;
	if (making) {
		if (RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) <= 0)
			goto out;
		memcpy(name, tickets.keys[0].name, NAME_SIZE);
	} else {
		which = find(name);
		if (which < 0) {
			result = 0;
			goto out;
		}
	}
	if (start(&tickets.keys[which], iv, cipher, mac, making))
		result = which ? 2 : 1;
out:
	pthread_mutex_unlock(&tickets.lock);
	return result;
}

int ticket_use(SSL_CTX *ctx, uint64_t rotation_us)
{
	/* Not of all: this one's configuration may yet be refused. */
	if (!SSL_CTX_set_app_data(ctx, (void *)(uintptr_t)rotation_us))
		return -1;
	/* Nothing is kept here: what a session needs is in its ticket. */
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_timeout(ctx, 2 * rotation_us / 1000000);
	return SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, ticket_key) == 1 ? 0 : -1;
}

void ticket_forget(void)
{
	OPENSSL_cleanse(tickets.keys, sizeof(tickets.keys));
}
