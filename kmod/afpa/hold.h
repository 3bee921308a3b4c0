/* SPDX-License-Identifier: GPL-2.0 */
/* Answers with files that their program has overtaken, writing or closing: until acknowledged. */
#ifndef AFPA_HOLD_H
#define AFPA_HOLD_H

#include <linux/list.h>
#include <linux/types.h>

#include "answer.h"

struct afpa_conn;
struct afpa_net;
struct sock;

/**
 * struct afpa_hold - of one connection, which has no answer of ours after that one
 * @list:  in its namespace's, under its @held_lock; empty: there is none
 * @ans:   that is held
 * @acked: bytes acknowledged when that began, and @until: when all of it will be
 */
struct afpa_hold {
	struct list_head list;
	struct afpa_answer ans;
	u64 acked, until;
};

/**
 * afpa_hold_keep() - the connection's answer is TCP's, and over but for its acknowledgment
 * @conn: locked
 * @sk:   its socket
 *
 * The watch sees it acknowledged, or the connection closed, within a second. References of its own
 * are on both; none on the module, which may go: who writes then is seen by the client.
 */
void afpa_hold_keep(struct afpa_conn *conn, struct sock *sk);

/* What is over goes; whose object has gone for too long is reset. Process context. */
void afpa_hold_watch(struct afpa_net *an);
/* All, whatever clients have; nothing comes any more. */
void afpa_hold_end(struct afpa_net *an);

#endif
