// SPDX-License-Identifier: GPL-2.0
/* Loads and targets, told to other front-ends and heard of them. Worker 0. */
#include "share.h"
#include <endian.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include "tls/tls_file.h"
#include "tools/base/log.h"
#include "worker.h"

#define PERIOD_US	100000
#define AGE_US		2000000		/* of what a peer has said last, until it counts no more */
#define HELLO_US	500000
#define CHALLENGE_US	1000000		/* a datagram answers the last of ours, or the one before: it is no older */
#define SWEEP_US	500000		/* from one to the next, at least */
#define DATAGRAMS_OUT	8		/* a period, to each peer, with mappings */
#define DATAGRAMS_IN	256		/* a period */
#define DATAGRAMS_PEER	32		/* of these, of each peer: more than it says in three */
#define STEPS		1024		/* entries of the table that are looked at with the lock */
#define KEY_SIZE	32
#define MAC_SIZE	32
#define DATAGRAM_MAX	1400
#define MAGIC		0x4c534831	/* "LSH1" */

enum kind { KIND_HELLO, KIND_OWN, KIND_HEARSAY, KINDS };

struct head {
	uint32_t magic;
	uint8_t kind, nodes, mappings, zero;
	uint64_t from, answer, challenge, number;
} __attribute__((packed));

struct told_node {
	uint64_t ident;
	uint32_t load;
} __attribute__((packed));

struct mapping {
	uint64_t key, set;
} __attribute__((packed));

/**
 * struct peer - another front-end
 * @challenges: random, ours: what it must answer now, and what it may still answer
 * @challenge:  its last
 * @theirs:     of its process; 0: it has not proved yet that it lives
 * @heard:      the number of its last datagram; @sent: of ours
 * @loads:      what it said last, by hash of the node's name
 */
struct peer {
	union address address;
	uint64_t challenges[2], challenge, theirs, heard, sent;
	uint64_t heard_us, hello_us, challenge_us;
	unsigned int taken;		/* in this period */
	unsigned int nodes;
	struct told_node loads[LARD_MAX_NODES];
};

/* @self: random, of this process; @at: where the sweep over the table is; @learnt: it is of what others have said */
struct share {
	struct lardd *lardd;
	int fd;
	bool warned;
	union address address;
	unsigned char key[KEY_SIZE];
	uint64_t self;
	struct timer_queue timers;
	struct timer timer;
	struct peer peers[SHARE_PEERS_MAX];
	unsigned int count;
	uint64_t swept_us;
	uint32_t at;
	bool learnt, sweeping;
};

static uint64_t number(void)
{
	uint64_t n = 0;

	while (!n)
		if (getrandom(&n, sizeof(n), 0) != sizeof(n))
			n = 0;
	return n;
}

static int take_key(const struct tls_file *f, void *to, BIO *from)
{
	char line[2 * KEY_SIZE + 3];
	size_t len;
	int n = BIO_gets(from, line, sizeof(line)), err = 0;

	while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
		line[--n] = '\0';
	if (n != 2 * KEY_SIZE || !OPENSSL_hexstr2buf_ex(to, KEY_SIZE, &len, line, '\0') || len != KEY_SIZE)
		err = tls_file_sorry(f, "a key is a line of 64 hexadecimal digits (openssl rand -hex 32)");
	OPENSSL_cleanse(line, sizeof(line));
	return err;
}

static int read_key(const struct config *config, unsigned char *key, char *error, size_t size)
{
	struct tls_file file = { "share-key", config->share_key, error, size };

	return tls_file_use(&file, true, take_key, key);
}

int share_check(const struct config *config, char *error, size_t size)
{
	unsigned char key[KEY_SIZE];
	int err = config->share_given ? read_key(config, key, error, size) : 0;

	OPENSSL_cleanse(key, sizeof(key));
	return err;
}

static bool mac_of(const struct share *share, const void *data, size_t len, unsigned char *mac)
{
	unsigned int size = MAC_SIZE;

	return HMAC(EVP_sha256(), share->key, KEY_SIZE, data, len, mac, &size) && size == MAC_SIZE;
}

static void say(struct share *share, struct peer *peer, struct head *head, size_t len)
{
	unsigned char *data = (unsigned char *)head;

	head->magic = htobe32(MAGIC);
	head->zero = 0;
	head->from = htobe64(share->self);
	head->challenge = htobe64(peer->challenges[0]);
	head->number = htobe64(++peer->sent);
	if (mac_of(share, data, len, data + len))
		sendto(share->fd, data, len + MAC_SIZE, MSG_NOSIGNAL, &peer->address.any,
		       address_len(&peer->address));
}

static void greet(struct share *share, struct peer *peer, uint64_t answer)
{
	unsigned char data[sizeof(struct head) + MAC_SIZE] __attribute__((aligned(8)));
	struct head *head = (struct head *)data;

	*head = (struct head){ .kind = KIND_HELLO, .answer = htobe64(answer) };
	say(share, peer, head, sizeof(*head));
}

static void forget(struct peer *peer)
{
	peer->theirs = peer->heard = 0;
	peer->nodes = 0;
	peer->challenges[0] = number();		/* what was recorded is worth nothing */
	peer->challenges[1] = peer->challenges[0];
}

/* What all peers say together, by our slots. */
static void apply(struct share *share)
{
	struct lard *engine = share->lardd->engine;
	uint32_t loads[LARD_MAX_NODES] = { 0 };
	struct lard_node_info info;
	unsigned int p, n;
	int slot;

	pthread_mutex_lock(&share->lardd->lock);
	for (slot = 0; slot < LARD_MAX_NODES; slot++) {
		if (!lard_node_get(engine, slot, &info))
			continue;
		for (p = 0; p < share->count; p++)
			for (n = 0; n < share->peers[p].nodes; n++)
				if (share->peers[p].loads[n].ident == info.ident)
					loads[slot] += share->peers[p].loads[n].load;
	}
	lard_set_others(engine, loads, share_peers(share));
	pthread_mutex_unlock(&share->lardd->lock);
	share->lardd->worker[0]->room = true;
}

/* Places of a datagram's nodes in our table. Under the lock. */
static void find_slots(struct lard *engine, const struct peer *peer, int *slots)
{
	struct lard_node_info info;
	unsigned int n;
	int slot;

	for (n = 0; n < peer->nodes; n++)
		slots[n] = -1;
	for (slot = 0; slot < LARD_MAX_NODES; slot++) {
		if (!lard_node_get(engine, slot, &info))
			continue;
		for (n = 0; n < peer->nodes; n++)
			if (peer->loads[n].ident == info.ident)
				slots[n] = slot;
	}
}

static void learn(struct share *share, const struct peer *peer, const struct mapping *m,
		  unsigned int count, bool hearsay)
{
	struct lardd *lardd = share->lardd;
	int slots[LARD_MAX_NODES];
	unsigned int i, n;

	pthread_mutex_lock(&lardd->lock);
	find_slots(lardd->engine, peer, slots);
	for (i = 0; i < count; i++) {
		uint64_t told = be64toh(m[i].set), set = 0;

		for (n = 0; n < peer->nodes; n++)
			if (told >> n & 1 && slots[n] >= 0)
				set |= 1ULL << slots[n];
		lard_learn(lardd->engine, be64toh(m[i].key), set, hearsay, lardd->worker[0]->loop.now);
	}
	pthread_mutex_unlock(&lardd->lock);
}

static void take_content(struct share *share, struct peer *peer, const struct head *head)
{
	const struct told_node *nodes = (const struct told_node *)(head + 1);
	unsigned int i;

	if (head->kind == KIND_HELLO)
		return;
	peer->nodes = head->nodes;
	for (i = 0; i < head->nodes; i++) {
		uint32_t load = be32toh(nodes[i].load);

		peer->loads[i].ident = be64toh(nodes[i].ident);
		peer->loads[i].load = load < LARD_OTHERS_MAX ? load : LARD_OTHERS_MAX;
	}
	learn(share, peer, (const struct mapping *)(nodes + head->nodes), head->mappings,
	      head->kind == KIND_HEARSAY);
}

static size_t length(const struct head *head)
{
	return sizeof(*head) + head->nodes * sizeof(struct told_node) +
	       head->mappings * sizeof(struct mapping);
}

static struct peer *peer_at(struct share *share, const union address *address)
{
	unsigned int p;

	for (p = 0; p < share->count; p++)
		if (!memcmp(&share->peers[p].address, address, sizeof(*address)))
			return &share->peers[p];
	return NULL;
}

static bool is_whole(const struct share *share, const struct head *head, size_t len)
{
	const unsigned char *data = (const unsigned char *)head;
	unsigned char mac[MAC_SIZE];

	return len >= sizeof(*head) + MAC_SIZE && be32toh(head->magic) == MAGIC && head->kind < KINDS &&
	       head->nodes <= LARD_MAX_NODES && len == length(head) + MAC_SIZE &&
	       mac_of(share, data, len - MAC_SIZE, mac) &&
	       !CRYPTO_memcmp(mac, data + len - MAC_SIZE, MAC_SIZE);
}

/* Ours, that comes back, or of another peer, from this one's address: its loads would count twice. */
static bool is_another(const struct share *share, const struct peer *peer, uint64_t from)
{
	unsigned int p;

	for (p = 0; p < share->count; p++)
		if (&share->peers[p] != peer && share->peers[p].theirs == from)
			return true;
	return !from || from == share->self;
}

static bool is_new(const struct peer *peer, const struct head *head)
{
	uint64_t answer = be64toh(head->answer);

	return (answer == peer->challenges[0] || answer == peer->challenges[1]) &&
	       (be64toh(head->from) != peer->theirs || be64toh(head->number) > peer->heard);
}

/* Another process: it has begun anew, and what the former one said answers no challenge any more. */
static void begin(struct share *share, struct peer *peer, uint64_t from)
{
	if (peer->theirs)
		forget(peer);
	peer->theirs = from;
	log_info("peer-heard", "peer=%u", (unsigned int)(peer - share->peers));
}

/* False: refused. A greeting changes nothing: it may be a recording. */
static bool take(struct share *share, struct peer *peer, const unsigned char *data, size_t len)
{
	const struct head *head = (const struct head *)data;
	uint64_t from;

	if (!peer || !is_whole(share, head, len))
		return false;
	from = be64toh(head->from);
	if (is_another(share, peer, from))
		return false;
	if (!head->answer && head->kind == KIND_HELLO) {
		greet(share, peer, be64toh(head->challenge));
		return true;
	}
	if (!is_new(peer, head) || peer->taken == DATAGRAMS_PEER)
		return false;
	peer->taken++;
	if (from != peer->theirs)
		begin(share, peer, from);
	peer->challenge = be64toh(head->challenge);
	peer->heard = be64toh(head->number);
	peer->heard_us = share->lardd->worker[0]->loop.now;
	take_content(share, peer, head);
	return true;
}

static void hear(struct share *share)
{
	unsigned char data[DATAGRAM_MAX + 1] __attribute__((aligned(8)));
	struct worker *w = share->lardd->worker[0];
	unsigned int i;

	for (i = 0; i < DATAGRAMS_IN; i++) {
		union address from = { 0 };
		socklen_t size = sizeof(from);
		ssize_t n = recvfrom(share->fd, data, sizeof(data), 0, &from.any, &size);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			continue;
		count(w, take(share, peer_at(share, &from), data, n) ? COUNTER_SHARE_TAKEN :
		      COUNTER_SHARE_REFUSED);
	}
}

/* Our loads, and as much of the table as fits. Under the lock. False: no mapping is in it. */
static bool fill(struct share *share, struct head *head)
{
	struct lard *engine = share->lardd->engine;
	struct told_node *node = (struct told_node *)(head + 1);
	unsigned int n, steps = STEPS, places[LARD_MAX_NODES];
	uint64_t known = 0, key, set, told;
	struct lard_node_info info;
	struct mapping *m;
	int slot;

	head->nodes = head->mappings = 0;
	for (slot = 0; slot < LARD_MAX_NODES; slot++) {
		if (!lard_node_get(engine, slot, &info))
			continue;
		known |= 1ULL << slot;
		places[slot] = head->nodes++;
		*node++ = (struct told_node){ htobe64(info.ident), htobe32(info.load) };
	}
	head->kind = share->learnt ? KIND_HEARSAY : KIND_OWN;
	m = (struct mapping *)node;
	while (share->sweeping && head->mappings < UINT8_MAX &&
	       length(head) + sizeof(*m) + MAC_SIZE <= DATAGRAM_MAX &&
	       lard_walk(engine, &share->at, &steps, share->learnt, &key, &set)) {
		for (told = 0, set &= known; set; set &= set - 1) {
			n = places[__builtin_ctzll(set)];
			told |= 1ULL << n;
		}
		m[head->mappings++] = (struct mapping){ htobe64(key), htobe64(told) };
	}
	/* At its end: the next is of the other kind. */
	if (share->sweeping && !share->at) {
		share->sweeping = false;
		share->learnt = !share->learnt;
	}
	return head->mappings;
}

static void tell(struct share *share)
{
	unsigned char data[DATAGRAM_MAX] __attribute__((aligned(8)));
	struct head *head = (struct head *)data;
	uint64_t now = share->lardd->worker[0]->loop.now;
	unsigned int i, p;
	bool more;

	if (!share->sweeping && now - share->swept_us >= SWEEP_US) {
		share->sweeping = true;
		share->swept_us = now;
	}
	for (i = 0; i < DATAGRAMS_OUT; i++) {
		pthread_mutex_lock(&share->lardd->lock);
		more = fill(share, head);
		pthread_mutex_unlock(&share->lardd->lock);
		for (p = 0; (!i || more) && p < share->count; p++) {
			head->answer = htobe64(share->peers[p].challenge);
			if (share->peers[p].theirs)
				say(share, &share->peers[p], head, length(head));
		}
		if (!share->sweeping)
			break;
	}
}

static void look_after(struct share *share, struct peer *peer, uint64_t now)
{
	peer->taken = 0;
	if (peer->theirs && now - peer->heard_us > AGE_US) {
		log_info("peer-lost", "peer=%u", (unsigned int)(peer - share->peers));
		forget(peer);
	}
	if (now - peer->challenge_us >= CHALLENGE_US) {
		peer->challenges[1] = peer->challenges[0];
		peer->challenges[0] = number();
		peer->challenge_us = now;
	}
	if (!peer->theirs && now - peer->hello_us >= HELLO_US) {
		greet(share, peer, 0);
		peer->hello_us = now;
	}
}

/* Later, if a predecessor still has the address or it is not here yet. */
static void open_socket(struct share *share)
{
	int fd = socket(share->address.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd >= 0 && !bind(fd, &share->address.any, address_len(&share->address))) {
		share->fd = fd;
		return;
	}
	if (!share->warned)
		log_warn("share", "why=\"%s\" text=\"the address cannot be had yet\"", strerror(errno));
	share->warned = true;
	if (fd >= 0)
		close(fd);
}

static void expired(struct timer *t)
{
	struct share *share = container_of(t, struct share, timer);
	struct worker *w = share->lardd->worker[0];
	unsigned int p;

	timer_start(&w->loop, &share->timers, t, PERIOD_US);
	if (share->fd < 0)
		open_socket(share);
	if (share->fd < 0)
		return;
	hear(share);
	for (p = 0; p < share->count; p++)
		look_after(share, &share->peers[p], w->loop.now);
	tell(share);
	apply(share);
}

struct share *share_new(struct lardd *lardd, const struct config *config, char *error, size_t size)
{
	struct worker *w = lardd->worker[0];
	struct share *share;
	unsigned int p;

	*error = '\0';
	if (!config->share_given)
		return NULL;
	share = calloc(1, sizeof(*share));
	if (!share) {
		snprintf(error, size, "no memory");
		return NULL;
	}
	share->lardd = lardd;
	share->fd = -1;
	share->self = number();
	share->address = config->share;
	share->count = config->peer_count;
	for (p = 0; p < share->count; p++) {
		share->peers[p].address = config->peers[p];
		forget(&share->peers[p]);
	}
	if (read_key(config, share->key, error, size)) {
		share_free(share);
		return NULL;
	}
	open_socket(share);
	timer_queue_init(&w->loop, &share->timers, expired);
	timer_init(&share->timer);
	timer_start(&w->loop, &share->timers, &share->timer, 0);
	return share;
}

void share_stop(struct share *share)
{
	unsigned int p;

	if (!share)
		return;
	timer_stop(&share->timer);
	for (p = 0; p < share->count; p++)
		forget(&share->peers[p]);
	apply(share);		/* what nobody tells of any more holds up nobody who waits */
	if (share->fd >= 0)
		close(share->fd);
	share->fd = -1;
}

void share_free(struct share *share)
{
	if (!share)
		return;
	if (share->fd >= 0)
		close(share->fd);
	OPENSSL_cleanse(share->key, sizeof(share->key));
	free(share);
}

unsigned int share_peers(const struct share *share)
{
	unsigned int p, heard = 0;

	for (p = 0; share && p < share->count; p++)
		heard += !!share->peers[p].theirs;
	return heard;
}

bool share_peer_get(const struct share *share, unsigned int i, struct share_peer *to)
{
	const struct peer *peer;
	unsigned int n;

	if (!share || i >= share->count)
		return false;
	peer = &share->peers[i];
	*to = (struct share_peer){ .heard = peer->theirs };
	address_text(&peer->address, to->address, sizeof(to->address));
	if (peer->theirs)
		to->silent = (share->lardd->worker[0]->loop.now - peer->heard_us) / 1e6;
	for (n = 0; n < peer->nodes; n++)
		to->load += peer->loads[n].load;
	return true;
}
