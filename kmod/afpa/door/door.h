/* SPDX-License-Identifier: GPL-2.0 */
/* afpad(8): programs on other machines put what the kernel answers with, and take it back. */
#ifndef DOOR_H
#define DOOR_H

#include "config.h"
#include "crowd.h"
#include "peer.h"
#include "token.h"

#define ID_SIZE		33

/**
 * struct counts - since the start
 * @refused: requests without a token that counts
 * @wrong:   others that were answered with 4xx
 * @failed:  with 5xx
 * @told:    changes of peers
 */
struct counts {
	uint64_t requests, refused, wrong, failed, puts, deletes, bans, flushes, told;
};

/**
 * struct door - the process
 * @dev:      /dev/afpa
 * @id:       of this run; a peer that has it is this one
 * @tokens:   under @lock, as @peer_tokens
 * @memory:   bytes of bodies; of the thread that answers, as @counts
 */
struct door {
	struct config config;
	int dev;
	char id[ID_SIZE];
	pthread_mutex_t lock;
	struct tokens tokens, peer_tokens;
	struct crowd crowd;
	struct peers *peers;
	uint64_t memory, started;
	struct counts counts;
	struct MHD_Daemon *http;
	char *certificate, *key;
};

/**
 * http_start() - answer at a socket
 * @door:   with all but .http
 * @socket: listening
 *
 * Return: 0 or -EIO.
 */
int http_start(struct door *door, int socket);

/* Nobody new; then the end, when nobody waits for peers any more. */
void http_stop(struct door *door);

/* An answer: JSON, or with a sentence for what went wrong. Takes @json over. */
enum MHD_Result http_answer(struct conn *conn, unsigned int status, json_t *json);
enum MHD_Result http_sorry(struct conn *conn, unsigned int status, const char *why);

/* What a request asks for; it is here as a whole. */
enum MHD_Result object_put(struct conn *conn);
enum MHD_Result object_show(struct conn *conn);
enum MHD_Result object_live(struct conn *conn);
enum MHD_Result take_delete(struct conn *conn);
enum MHD_Result take_ban(struct conn *conn);
enum MHD_Result take_flush(struct conn *conn);
enum MHD_Result take_peer(struct conn *conn);
enum MHD_Result show_ticket(struct conn *conn);
enum MHD_Result show_status(struct conn *conn);

/* Peers are told of a change that was made; the answer is @json, and what they say. */
enum MHD_Result tell(struct conn *conn, const struct change *change, unsigned int status, json_t *json);
/* After they have said it. */
enum MHD_Result told(struct conn *conn);

/* Of an errno of the device. */
enum MHD_Result device_sorry(struct conn *conn, int err);

/* As another user, with CAP_NET_ADMIN and no more. 0, or after a sentence a negative errno. */
int privilege_find(const struct config *config, uid_t *uid, gid_t *gid, char *error, size_t size);
int privilege_drop(uid_t uid, gid_t gid, char *error, size_t size);

#endif
