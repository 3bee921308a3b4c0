/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What two nodes say to each other about a connection:
 *
 *	giver				taker
 *	HANDOFF{id, checkpoint}	->	HANDOFF_KEYS: the same, with those of its TLS
 *				<-	ACK{id, epoch} or NAK{id, refusal}
 *	COMMIT{id} or ABORT{id}	->
 *				<-	HELD{id, tuple, PENDING}	no COMMIT for a while
 *	COMMIT{id} or ABORT{id}	->			decided; nothing while it is not
 *				<-	LIFE{id, tuple, what} ...
 *	the link was down:
 *				<-	HELD{id, tuple, what} ...	all that it has
 *				<-	LIFE{id, tuple, LOST} ...	what it gave up
 *				<-	HELD_END{epoch}
 *
 * a taker that hands it on, to a third, and where its packets come from, the origin:
 *	HANDOFF{id, origin, checkpoint}	->
 *				<-	ACK{id, epoch}
 *	COMMIT{id, proof}	->
 *		the third to the origin: CLAIM{proof, id there, id from now on}, and its answer
 *		GRANT{id}; then the giver hears LIFE{id, CLOSED} as if it were over
 *
 * a front-end that takes over a service address whose front-end has died:
 *	TAKEOVER{proof, service, page}	->
 *				<-	CLAIM{proof, 0, id from now on} ...	what was taken there
 *	GRANT{id} ...		->
 *				<-	TAKEN{proof, page, more}
 *
 * a front-end that has a taker hand on what it gave to it:
 *	RELOCATE{run, nodes, connections}	->
 *				<-	RELOCATED{run, what became of them}
 *
 * nodes with FLT_FEATURE_REDIRECT that redirect SYNs (redirect.h):
 *	HINT{service, load} ...	<->	at intervals
 *	HAVE{id, tuple} ...	->	of connections that were redirected there
 *				<-	LIFE{id, tuple, CLOSED} ...
 *
 * The giver owns the connection until it has sent COMMIT. A taker gives up
 * what has no COMMIT by its deadline; one that comes later gets LIFE{LOST}. Ids are the giver's,
 * unique in the life of its namespace. The epoch is the taker's life, of its module in its
 * namespace: what HELD_END ends was taken in that one. What was taken in another lives on there
 * and nobody names it. Numbers are in network byte order.
 */
#ifndef HOF_MESSAGE_H
#define HOF_MESSAGE_H

#include "kmod/link.h"

struct flt_checkpoint;
struct hof_net;

enum hof_msg_type {
	HOF_MSG_HANDOFF	= FLT_MSG_HANDOFF,
	HOF_MSG_ACK,
	HOF_MSG_NAK,
	HOF_MSG_COMMIT,
	HOF_MSG_ABORT,
	HOF_MSG_QUERY,		/* of an older taker, by id: ABORT when that is not under way */
	HOF_MSG_LIFE,
	HOF_MSG_HELD,
	HOF_MSG_HELD_END,
	HOF_MSG_CLAIM,
	HOF_MSG_GRANT,
	HOF_MSG_TAKEOVER,
	HOF_MSG_TAKEN,
	HOF_MSG_RELOCATE,
	HOF_MSG_RELOCATED,
	HOF_MSG_HANDOFF_KEYS	= FLT_MSG_HANDOFF + FLT_MSG_SECRET,
	HOF_MSG_HINT		= FLT_MSG_REDIRECT,
	HOF_MSG_HAVE,		/* LIFE{id, CLOSED} for those that are not there */
};

/* Followed by struct hof_msg_origin, with HOF_ADOPT_ORIGIN, and by the checkpoint. */
struct hof_msg_handoff {
	__be64 id;
	__be32 flags;
	__be32 pad;
};

/**
 * struct hof_msg_origin - for a taker with FLT_FEATURE_CLAIM
 * @voucher:  proves that the taker has the connection from the giver; the taker shows it to nobody
 *	      until it hands that on
 * @instance: of the node that forwards the packets to the giver; 0: none is named
 * @id:       of the connection there
 * @name:     of that node: what nobody else on the taker's list can say of itself, as it can any
 *	      @instance; zeros to the end
 */
struct hof_msg_origin {
	__be64 voucher;
	__be64 instance;
	__be64 id;
	char name[FLT_NAME_MAX];
};

/*
 * ACK, COMMIT, ABORT, QUERY and HELD_END; in NAK with the reason, in COMMIT with what
 * flt_adoption_advance() is to know; 0 from a giver that does not say it. ACK says how many
 * milliseconds after HANDOFF the taker gives up; a giver that hears of it later
 * says ABORT. Of a taker that does not say its epoch, that is 0.
 */
struct hof_msg_id {
	__be64 id;
	union {
		__be32 refusal;	/* NAK */
		__be32 epoch;	/* ACK, HELD_END */
		__be32 tsval;	/* COMMIT */
	};
	__be32 wait_ms;
};

/* COMMIT of what has a named origin: @proof is the giver's voucher, which that origin gave it. */
struct hof_msg_commit {
	struct hof_msg_id head;
	__be64 proof;
};

enum hof_life {
	HOF_LIFE_CLOSED	= 0,
	HOF_LIFE_IDLE	= 1,
	HOF_LIFE_BUSY	= 2,
	HOF_LIFE_LOST	= 3,	/* COMMIT was too late, or its owner is gone: tell the client */
	HOF_LIFE_ROOM	= 4,	/* it was refused, and would not be now: FLT_FEATURE_NOTIFY */
};

/* LIFE is as many of these as its length says. */
struct hof_msg_life {
	__be64 id;
	__be16 family;		/* 4 or 6 */
	__be16 what;
	__be16 client_port;
	__be16 server_port;
	u8 client[16];
	u8 server[16];
};

/**
 * struct hof_msg_claim - CLAIM is as many of these as its length says
 * @conn:  its id at the origin, its addresses; what is 0. Id 0: as TAKEOVER asks
 * @to:    its id from now on
 * @proof: of COMMIT, or of TAKEOVER
 * @epoch: as in ACK
 * @acked: answers TAKEOVER: the sequence number of a RST; else 0
 *
 * It may be said again, and is granted again.
 */
struct hof_msg_claim {
	struct hof_msg_life conn;
	__be64 to;
	__be64 proof;
	__be32 epoch;
	__be32 acked;
};

/**
 * struct hof_msg_grant - the answer
 * @to:      of CLAIM
 * @voucher: as in struct hof_msg_origin
 * @refusal: 0: the packets come straight; FLT_REFUSE_BUSY: ask again
 * @flags:   HOF_ADOPT_WANT_IDLE
 */
struct hof_msg_grant {
	__be64 to;
	__be64 voucher;
	__be32 refusal;
	__be32 flags;
};

/**
 * struct hof_msg_takeover - to a node with FLT_FEATURE_TAKEOVER
 * @proof:  random, not 0: that the claims answer this
 * @page:   counts from 0; the same again: the answer did not come
 * @family: 4 or 6
 * @port:   of the service; 0: every one
 * @server: its address
 */
struct hof_msg_takeover {
	__be64 proof;
	__be32 page;
	__be16 family;
	__be16 port;
	u8 server[16];
};

/**
 * struct hof_msg_taken - after the claims of a page
 * @proof:   of TAKEOVER
 * @page:    of TAKEOVER
 * @refusal: 0; or why there are none; FLT_REFUSE_NOMEM: ask again
 * @more:    1: there are, or may be, more: ask for the next page
 * @begun:   claims of this page
 */
struct hof_msg_taken {
	__be64 proof;
	__be32 page;
	__be32 refusal;
	__be32 more;
	__be32 begun;
};

/* Flag of RELOCATE: nothing more is handed on, and nothing is answered. */
#define HOF_RELOCATE_OVER	BIT(0)

/**
 * struct hof_msg_relocate - to a node with FLT_FEATURE_RELOCATE
 * @run:     random, not 0: what belongs together. Nothing of it is kept for longer than 5 s without
 *	     another message
 * @seq:     of this message; the same again: the answer did not come
 * @idle_ms: see struct hof_move_start
 * @flags:   HOF_RELOCATE_*
 * @nodes:   how many names follow, zeros to the end of each: who gets them. Those of the first
 *	     message of a run count
 * @conns:   and then so many struct hof_msg_life, by the ids that the giver gave
 */
struct hof_msg_relocate {
	__be64 run;
	__be32 seq;
	__be32 idle_ms;
	__be16 flags;
	__be16 nodes;
	__be32 conns;
};

/**
 * struct hof_msg_relocated - the answer
 * @run, @seq: of RELOCATE
 * @refusal: 0, or why nothing is done
 * @known:   bits, by the order of the names: nodes that are known there
 * @up:      and have a link that is up
 * @begun:   of this message: they are going to move
 * @had:     they were already, by this run or by something else
 * @queued:  no program has accepted them yet
 * @held:    their program is in a call on them: ask again
 * @fixed:   they cannot move
 * @absent:  it has no such connection of the asker
 * @reasons: struct hof_msg_reason that follow
 * @moved, @ended, @waiting, @busy, @stuck, @through: of the run, see struct hof_move_status and
 *	     struct hof_move_passed
 */
struct hof_msg_relocated {
	__be64 run;
	__be32 seq;
	__be32 refusal;
	__be32 known;
	__be32 up;
	__be32 begun;
	__be32 had;
	__be32 queued;
	__be32 held;
	__be32 fixed;
	__be32 absent;
	__be64 moved;
	__be64 ended;
	__be32 waiting;
	__be32 busy;
	__be32 stuck;
	__be32 through;
	__be32 reasons;
	__be32 pad;
};

/**
 * struct hof_msg_reason - of those of a run that have not moved
 * @code:    enum flt_refusal
 * @stuck:   connections that cannot move because of it
 * @put_off: times that one was tried and put off
 */
struct hof_msg_reason {
	__be32 code;
	__be32 stuck;
	__be32 put_off;
};

/* Flag of HINT: the node redirects that service's SYNs itself. */
#define HOF_HINT_BUSY	BIT(0)

/**
 * struct hof_msg_hint - a service that takes SYNs
 * @family: 4 or 6
 * @port:   of the service
 * @load:   lighter is better
 * @flags:  HOF_HINT_*
 * @server: its address; zeros to the end
 */
struct hof_msg_hint {
	__be16 family;
	__be16 port;
	__be32 load;
	__be32 flags;
	u8 server[16];
};

/**
 * struct hof_msg_hints - HINT: all services that the sender takes SYNs of; no others any more
 * @life_ms: how long that holds
 * @hint:    as many as the length says, 64 at most
 */
struct hof_msg_hints {
	__be32 life_ms;
	struct hof_msg_hint hint[];
};

/* In HELD, which has the same records. */
enum hof_held {
	HOF_HELD_OURS	 = 0,
	HOF_HELD_PENDING = 1,	/* COMMIT or ABORT has not come */
};

#define HOF_LIFE_MAX	64	/* records in one message */

int hof_message_register(void);
void hof_message_unregister(void);

/* As flt_link_send(). */
int hof_message_send(struct flt_node *node, enum hof_msg_type type, u64 id,
		     enum flt_refusal why, gfp_t gfp);
/* @proof: 0 when no origin was named. */
int hof_message_send_commit(struct flt_node *node, u64 id, u32 tsval, u64 proof, gfp_t gfp);
int hof_message_send_ack(struct hof_net *hn, struct flt_node *node, u64 id, u32 wait_ms);
/* @origin: NULL for a node without FLT_FEATURE_CLAIM. */
int hof_message_send_handoff(struct flt_node *node, u64 id, u32 flags,
			     const struct hof_msg_origin *origin,
			     const struct flt_checkpoint *ckpt, gfp_t gfp);
/* As flt_link_send_secret(), and as to @origin hof_message_send_handoff(). */
int hof_message_send_keys(struct flt_node *node, u64 id, u32 flags,
			  const struct hof_msg_origin *origin, const struct flt_checkpoint *ckpt,
			  const struct flt_tls *tls, bool clear);

#endif
