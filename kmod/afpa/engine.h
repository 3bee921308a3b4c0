/* SPDX-License-Identifier: GPL-2.0 */
/* From bytes that arrive to an answer, or to the program. */
#ifndef AFPA_ENGINE_H
#define AFPA_ENGINE_H

#include <net/sock.h>

struct afpa_conn;

enum afpa_where {
	AFPA_IN_EVENT,		/* TCP's: softirq, or release_sock() of a program */
	AFPA_IN_ACCEPT,
	AFPA_IN_WORK,
};

/* Requests of one event; what else has come is for a work item. */
#define AFPA_BURST	64

/**
 * afpa_engine_run() - answers what can be answered
 * @conn:  its socket is locked
 * @sk:    the socket
 * @where: the program is woken by the caller (AFPA_IN_EVENT), or by this function
 *
 * Return: true: the program is to hear of it, too.
 */
bool afpa_engine_run(struct afpa_conn *conn, struct sock *sk, enum afpa_where where);

int afpa_engine_init(void);
void afpa_engine_exit(void);

#endif
