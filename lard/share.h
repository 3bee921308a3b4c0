/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What front-ends of one cluster tell each other: the load each has given the nodes, and the map of targets.
 * UDP between the addresses of the configuration, ten times a second. Each datagram has an HMAC by the common key,
 * a number of the sender's process, the answer to a challenge of the receiver's, which is random and a new one each
 * second, so that it is no recording, and a number that grows.
 *
 *	head	magic, kind, counts; the process, the answer, the sender's own challenge, the number
 *	node	hash of its name, load; up to 64
 *	mapping	key of a target, set of nodes by their place in this datagram
 *	HMAC-SHA256 of all before
 *
 * What is not known here, is too long or too much is ignored: a peer shifts decisions and does nothing else.
 */
#ifndef LARD_SHARE_H
#define LARD_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "address.h"

#define SHARE_PEERS_MAX 7

struct config;
struct lardd;
struct share;

/**
 * struct share_peer - another front-end, for who looks
 * @heard:  it is heard now; the rest is 0 while it is not
 * @silent: seconds since its last datagram
 * @load:   what it has given the nodes, as it says
 */
struct share_peer {
	char address[ADDRESS_TEXT];
	bool heard;
	double silent;
	uint64_t load;
};

/* NULL with an empty @error: the configuration has none. Before the change of user: it reads the key. */
struct share *share_new(struct lardd *lardd, const struct config *config, char *error, size_t size);
/* Says nothing any more, and leaves the address to a successor. */
void share_stop(struct share *share);
void share_free(struct share *share);
/* Can the key be read? 0 or -EINVAL with a sentence. */
int share_check(const struct config *config, char *error, size_t size);
/* Peers that are heard. NULL: none. */
unsigned int share_peers(const struct share *share);
/* Peer @i of the configuration. False: there are not so many. Worker 0. */
bool share_peer_get(const struct share *share, unsigned int i, struct share_peer *to);

#endif
