/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The other doors of a cluster. Each has a thread and a queue of changes that it has not confirmed. One that is away
 * gets what it missed, in order, before it is called in step again; one that missed more than the queue holds is told
 * to flush. That a peer lacks something is remembered in a file, so that it is told to flush also when this process,
 * and the queue with it, has ended meanwhile.
 */
#ifndef DOOR_PEER_H
#define DOOR_PEER_H

#include <jansson.h>
#include "change.h"
#include "config.h"
#include "token.h"

/* Of one message. */
#define PEER_CHANGES_MAX	256
#define PEER_BODY_MAX		(1 << 20)

struct peers;

/**
 * struct peer_wait - somebody who waits for peers to confirm a change
 * @pause:  called once if there is somebody to wait for, with the lock of all peers held
 * @resume: called once, after @pause, by another thread, with that lock held, too
 * @arg:    for both
 * @left:   peers that have not answered
 * @until:  on the clock of crowd_now(): then it waits no longer
 * @states: by peer: PEER_CONFIRMED or PEER_PENDING
 */
struct peer_wait {
	void (*pause)(void *arg);
	void (*resume)(void *arg);
	void *arg;
	unsigned int left;
	uint64_t until;
	char states[PEERS_MAX];
};

enum { PEER_PENDING, PEER_CONFIRMED };

/**
 * peers_start() - a thread for each
 * @config: who they are
 * @token:  what is shown to them
 * @id:     of this process: who answers with the same one is itself
 * @error:  out: a sentence
 * @size:   of @error
 *
 * Return: NULL after an error.
 */
struct peers *peers_start(const struct config *config, const char *token, const char *id, char *error, size_t size);

/* Another token from now on. */
void peers_token(struct peers *peers, const char *token);

/**
 * peers_tell() - a change that was made here
 * @peers:  all of them
 * @change: what
 * @wait:   who waits; its states are set also when nobody does
 * @local:  do not wait
 *
 * Return: true: @wait->pause was called, and @wait is in use until @wait->resume.
 */
bool peers_tell(struct peers *peers, const struct change *change, struct peer_wait *wait, bool local);

/* {"URL": "confirmed", ...} */
json_t *peers_said(struct peers *peers, const struct peer_wait *wait);
bool peers_all_said(struct peers *peers, const struct peer_wait *wait);

/* [{"url": ..., "state": ..., "lacks": ...}, ...] */
json_t *peers_show(struct peers *peers);

/* Ends all threads; who waits is resumed. peers_free() only when nobody can call any more. */
void peers_stop(struct peers *peers);
void peers_free(struct peers *peers);

#endif
