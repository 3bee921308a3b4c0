// SPDX-License-Identifier: GPL-2.0
#include "ticket.h"
#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include "host.h"
#include "tls.h"

#define NAME_SIZE	16	/* the size that the protocol's format has for it */
#define KEY_SIZE	32

/* As a line of a file has it, but for @made_us. */
struct ticket_key {
	unsigned char name[NAME_SIZE];
	unsigned char cipher[KEY_SIZE];
	unsigned char mac[KEY_SIZE];
	uint64_t made_us;	/* 0: there is none */
};

#define LINE_BYTES	(NAME_SIZE + 2 * KEY_SIZE)
#define LINE_SIZE	512	/* with its end and a NUL */
#define FILE_KEYS_MAX	16

struct ticket_keys {
	unsigned int count;
	struct ticket_key at[FILE_KEYS_MAX];
};

/* New tickets are made with the first; the second is known for as long as the first is used. */
static struct tickets {
	pthread_mutex_t lock;
	struct ticket_key keys[2];
} own = { .lock = PTHREAD_MUTEX_INITIALIZER }, *tickets = &own;

static bool is_old(const struct ticket_key *key, uint64_t now, uint64_t age)
{
	return key->made_us && now - key->made_us >= age;
}

/* False: no random numbers. Under the lock. */
static bool rotate(uint64_t now, uint64_t age)
{
	struct ticket_key *key = tickets->keys;

	/* Nobody came for a while: the one in use may be too old even to be known. */
	if (is_old(&key[0], now, 2 * age))
		OPENSSL_cleanse(tickets->keys, sizeof(tickets->keys));
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
static int find(const struct ticket_key *keys, int count, const unsigned char *name)
{
	int i;

	for (i = 0; i < count; i++)
		if (keys[i].made_us && !CRYPTO_memcmp(keys[i].name, name, NAME_SIZE))
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
static int use_key(SSL *ssl, const struct ticket_key *keys, int count, unsigned char *name,
		   unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int making)
{
	struct tls_notes *notes = SSL_get_app_data(ssl);
	int which = 0;

	if (making) {
		if (RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) <= 0)
			return -1;
		memcpy(name, keys[0].name, NAME_SIZE);
	} else {
		which = find(keys, count, name);
		notes->unknown_ticket = which < 0;
		if (which < 0)
			return 0;
	}
	if (!start(&keys[which], iv, cipher, mac, making))
		return -1;
	/* Of 1.3 each is for one use (RFC 8446, C.4): who reads on the way would know the client again. */
	return which || (!making && SSL_version(ssl) == TLS1_3_VERSION) ? 2 : 1;
}

/* A process that died with the lock may have left half a key. */
static void take_lock(void)
{
	if (pthread_mutex_lock(&tickets->lock) != EOWNERDEAD)
		return;
	OPENSSL_cleanse(tickets->keys, sizeof(tickets->keys));
	pthread_mutex_consistent(&tickets->lock);
}

static int ticket_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
		      EVP_MAC_CTX *mac, int making)
{
	const SSL_CTX *ctx = SSL_get_SSL_CTX(ssl);
	const struct ticket_keys *shared = SSL_CTX_get_app_data(ctx);
	int result = -1;

	if (shared)
		return use_key(ssl, shared->at, shared->count, name, iv, cipher, mac, making);
	take_lock();
	/* How long is not of all: a configuration that is read may yet be refused. */
	if (rotate(tls_host_clock(), SSL_CTX_get_timeout(ctx) * 1000000ULL / 2))
		result = use_key(ssl, tickets->keys, 2, name, iv, cipher, mac, making);
	pthread_mutex_unlock(&tickets->lock);
	return result;
}

/* NULL: it is taken; else why not. */
static const char *take(struct ticket_keys *keys, const char *line)
{
	unsigned char bytes[LINE_BYTES];
	struct ticket_key *key;
	size_t len;

	if (keys->count == FILE_KEYS_MAX)
		return "there are more than 16 keys in it";
	if (!OPENSSL_hexstr2buf_ex(bytes, sizeof(bytes), &len, line, '\0') || len != sizeof(bytes))
		return "a key is a line of 160 hexadecimal digits (openssl rand -hex 80)";
	key = &keys->at[keys->count];
	memcpy(key, bytes, sizeof(bytes));
	OPENSSL_cleanse(bytes, sizeof(bytes));
	if (find(keys->at, keys->count, key->name) >= 0)
		return "a key is there twice";
	key->made_us = 1;
	keys->count++;
	return NULL;
}

/* A key, a comment or nothing: with one that is overlooked another would make the tickets. */
static const char *take_line(struct ticket_keys *keys, char *line, size_t len)
{
	char *key = line + strspn(line, " \t"), *end = key + strcspn(key, " \t\r\n#");
	const char *rest = end + strspn(end, " \t\r\n");

	if (len == LINE_SIZE - 1 && line[len - 1] != '\n')
		return "a line is longer than 510 bytes";
	if (strlen(line) != len || (*rest && *rest != '#'))
		return "there is more in a line than a key";
	*end = '\0';
	return *key ? take(keys, key) : NULL;
}

static int take_all(const struct tls_file *f, void *to, BIO *from)
{
	struct ticket_keys *keys = to;
	const char *why = NULL;
	char line[LINE_SIZE];
	int len;

	while (!why && (len = BIO_gets(from, line, sizeof(line))) > 0)
		why = take_line(keys, line, len);
	OPENSSL_cleanse(line, sizeof(line));
	if (!why && !keys->count)
		why = "no key is in it";
	return why ? tls_file_sorry(f, why) : 0;
}

int ticket_keys_read(struct ticket_keys **keys, const struct tls_file *f)
{
	*keys = OPENSSL_zalloc(sizeof(**keys));
	return *keys ? tls_file_use(f, true, take_all, *keys) : tls_file_sorry(f, "no memory");
}

void ticket_keys_free(struct ticket_keys *keys)
{
	OPENSSL_clear_free(keys, sizeof(*keys));
}

int ticket_use(SSL_CTX *ctx, uint64_t rotation_us, struct ticket_keys *keys)
{
	/* Nothing is kept here: what a session needs is in its ticket. It is good while its key is known. */
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_timeout(ctx, 2 * rotation_us / 1000000);
	SSL_CTX_set_app_data(ctx, keys);
	return SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, ticket_key) == 1 ? 0 : -1;
}

bool ticket_refuse(SSL_CTX *ctx)
{
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	/* Of 1.3 the option alone would have tickets that name a session in the cache. */
	SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
	return SSL_CTX_set_num_tickets(ctx, 0) == 1;
}

int ticket_share(void)
{
	struct tickets *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t attr;

	if (shared == MAP_FAILED)
		return -errno;
	madvise(shared, sizeof(*shared), MADV_DONTDUMP);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&shared->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	tickets = shared;
	return 0;
}

void ticket_forget(void)
{
	take_lock();
	OPENSSL_cleanse(tickets->keys, sizeof(tickets->keys));
	pthread_mutex_unlock(&tickets->lock);
}
