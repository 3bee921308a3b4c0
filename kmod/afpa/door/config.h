/* SPDX-License-Identifier: GPL-2.0 */
/* What afpad.conf(8) says. */
#ifndef DOOR_CONFIG_H
#define DOOR_CONFIG_H

#include <afpa.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PEERS_MAX	64
#define NAMED_SITES_MAX	64
#define FILE_NAME_MAX	512
#define URL_MAX		256

/**
 * struct config - the settings
 * @listen:     the control address; never a site's
 * @token:      file of the tokens that clients come with
 * @peer_token: file of those that peers come with; its first one is sent to them
 * @sites:      objects are put at these only; none: at all sites there are
 * @peers:      addresses of the others' doors: http://ADDRESS:PORT, https://NAME:PORT
 * @state:      directory that remembers which peers lack something; "": none
 * @user:       whom root becomes
 * @connections, @connections_address: at once, and of one address
 * @body_max:   bytes of one object, @memory of all that are being received
 * @timeout_ms: of silence; @request_ms: of a request's head, or of a body that comes slower than 64 KB/s
 * @peer_ms:    of one exchange with a peer
 * @queue:      changes that one peer may lack before it is told to flush
 * @insecure:   tokens may go over networks in the clear
 */
struct config {
	struct sockaddr_storage listen;
	socklen_t listen_len;
	char token[FILE_NAME_MAX], peer_token[FILE_NAME_MAX];
	char certificate[FILE_NAME_MAX], key[FILE_NAME_MAX], peer_ca[FILE_NAME_MAX];
	struct afpa_site sites[NAMED_SITES_MAX];
	unsigned int nr_sites;
	char peers[PEERS_MAX][URL_MAX];
	unsigned int nr_peers;
	char state[FILE_NAME_MAX], user[64];
	unsigned int connections, connections_address;
	uint64_t body_max, memory;
	unsigned int timeout_ms, request_ms, peer_ms, queue;
	bool insecure;
};

/**
 * config_read() - defaults and a file
 * @config:   out; .insecure stays
 * @path:     of the file
 * @error:    out: a sentence
 * @size:     of @error
 *
 * Return: 0 or a negative errno.
 */
int config_read(struct config *config, const char *path, char *error, size_t size);

/* Loopback, private, link-local: where a token may go in the clear. */
bool address_is_near(const struct sockaddr_storage *address);

/* The name of an address, for sentences. */
const char *address_text(const struct sockaddr_storage *address, char text[AFPA_SITE_TEXT]);

/* Whether a listener at @address could be of the site, or take its place. */
bool address_is_of_site(const struct sockaddr_storage *address, const struct afpa_site *site);

#endif
