/* SPDX-License-Identifier: GPL-2.0 */
/* A connection that the kernel may answer on. */
#ifndef AFPA_CONN_H
#define AFPA_CONN_H

#include <linux/workqueue.h>
#include <net/sock.h>

#include "answer.h"
#include "hold.h"
#include "protocol.h"

struct afpa_place;
struct flt_layer;

/* Bits of struct afpa_conn.flags. */
enum {
	AFPA_CONN_LEFT,		/* it is the program's; who sets it takes the layer away */
	AFPA_CONN_QUEUED,	/* for the work item */
	AFPA_CONN_MISSED,	/* that could not have the lock: the watch's */
	AFPA_CONN_READING,	/* @read is its work item's, and nothing else happens */
};

/**
 * struct afpa_conn - a connection from its first bytes on, as long as it may be answered
 * @list:    in its site's, under that one's lock
 * @sk:      no reference: while it is in the list its memory is there
 * @layer:   the same; while AFPA_CONN_LEFT is not set
 * @place:   with a reference
 * @users:   the layer, the work item, whoever walks the list
 * @flags:   atomic bits
 * @busy:    the engine has it
 * @pinned:  there is an answer under way, and the module is held for it
 * @closed:  our answer was the last
 * @broken:  the file of an answer under way cannot be read: to be reset; READ_ONCE
 * @tries:   of the work item, for the socket's lock
 * @copied:  copied_seq as we left it: any other is the program's doing
 * @written: write_seq, the same
 * @state:   of its protocol, in which it waits
 * @ans:     the answer that is going
 * @hold:    an answer that its program has overtaken, see hold.h
 * @una:     what was acknowledged when the watch saw progress (it alone)
 * @since:   when that was, jiffies; the same
 * @work:    see queue.c
 * @read:    see read.c: what is read, and how it went (a negative errno until the engine sees it)
 * @data:    its protocol's, of the connection and then of the request
 *
 * What has no other rule is under the socket's lock.
 */
struct afpa_conn {
	struct list_head list;
	struct sock *sk;
	struct flt_layer *layer;
	struct afpa_place *place;
	refcount_t users;
	unsigned long flags;
	bool busy;
	bool pinned;
	bool closed;
	bool broken;
	u16 tries;
	u32 copied;
	u32 written;
	u8 state;
	struct afpa_answer ans;
	struct afpa_hold hold;
	u32 una;
	unsigned long since;
	struct delayed_work work;
	struct {
		struct work_struct work;
		struct afpa_object *obj;
		u64 pos;
		int err;
	} read;
	u64 data[];
};

/**
 * afpa_conn_make() - the first time that something happens on a connection
 * @layer: on it
 * @sk:    locked
 * @place: the site
 *
 * Return: NULL: no memory, its program was faster, or the site is gone.
 */
struct afpa_conn *afpa_conn_make(struct flt_layer *layer, struct sock *sk,
				 struct afpa_place *place);
void afpa_conn_get(struct afpa_conn *conn);
void afpa_conn_put(struct afpa_conn *conn);

/* Neither its program nor anybody else has read or written since the kernel did. */
bool afpa_conn_is_ours(const struct afpa_conn *conn, const struct sock *sk);
/* What was done since was the kernel's doing. */
void afpa_conn_settle(struct afpa_conn *conn, const struct sock *sk);

/* The rest of the connection is the program's; an answer is forgotten. Locked; any context. */
void afpa_conn_leave(struct afpa_conn *conn);

/*
 * The same without the lock, at the end of the module or the namespace: no answer is under way, and
 * none begins. The caller has a reference on the socket. False: somebody else has done it. The
 * engine may be running still, for a grace period.
 */
bool afpa_conn_abandon(struct afpa_conn *conn);

/* The answer is over, in whatever way. */
void afpa_conn_end_answer(struct afpa_conn *conn);

/* The last answer was sent: the FIN goes with its last bytes, which wait for it. Locked. */
void afpa_conn_finish(struct afpa_conn *conn, struct sock *sk);

/* The socket's end: nothing of it is used afterwards. */
void afpa_conn_die(struct afpa_conn *conn);

/* The connection is reset; its lock is the caller's. Process context. */
void afpa_conn_reset(struct afpa_conn *conn, struct sock *sk);

/*
 * The file of an answer under way cannot be read, or has been out of the cache for so long that
 * nobody is to be kept from writing to it any more. Any context.
 */
bool afpa_conn_must_break(const struct afpa_conn *conn);

/**
 * afpa_conn_break() - the connection is reset if it must be
 * @conn: in process context, with references on it and its socket
 *
 * If a program has the lock of the socket the watch tries again.
 */
void afpa_conn_break(struct afpa_conn *conn);

/**
 * afpa_conn_flush() - somebody else is about to write: all of the answer goes into the queue
 * @conn: locked
 * @sk:   its socket
 *
 * Return: 0; -EAGAIN: for want of memory it does not; -EPIPE: it is more than a program may have in
 * its queue (tcp_wmem), too.
 */
int afpa_conn_flush(struct afpa_conn *conn, struct sock *sk);

/**
 * afpa_conn_clear() - its site is no more
 * @conn: in process context, with references on it and its socket
 *
 * Return: false: a program has the lock of the socket.
 */
bool afpa_conn_clear(struct afpa_conn *conn);

#endif
