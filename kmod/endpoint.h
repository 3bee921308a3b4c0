/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TCP endpoints: take an established connection out of this kernel as a
 * checkpoint, and adopt one under an unmodified listener.
 *
 * The giving side:                       The taking side:
 *   lock_sock()                            flt_endpoint_adopt()
 *   flt_endpoint_checkpoint()              flt_adoption_commit() or _abort()
 *   release_sock()
 *   ... the taker answers ...
 *   lock_sock()
 *   flt_endpoint_unchanged()
 *   flt_endpoint_release()
 *   release_sock()
 *
 * Between checkpoint and release the caller keeps the client's packets away
 * from the socket (the forwarding entry in state HOLD does).
 */
#ifndef FLT_ENDPOINT_H
#define FLT_ENDPOINT_H

#include <linux/types.h>
#include <linux/uio.h>
#include <net/sock.h>
#include <flotilla/flotilla.h>

/* Bytes that one checkpoint may carry each way: with all the rest, a message (FLT_MSG_MAX). */
#define FLT_CHECKPOINT_MAX	(4U * 1024 * 1024)
/* For a taker without FLT_FEATURE_LARGE: unread ones, and unacknowledged ones. */
#define FLT_CHECKPOINT_SMALL_UNREAD	(1024U * 1024)
#define FLT_CHECKPOINT_SMALL_SEND	(1024U * 1024 - 4096)

/* What a taker says that it knows: without these it is refused (FLT_REFUSE_STATE, _OOO). */
#define FLT_CHECKPOINT_END	BIT(0)	/* the server has sent its FIN: FLT_FEATURE_HALFCLOSED */
#define FLT_CHECKPOINT_OOO	BIT(1)	/* something came out of order: FLT_FEATURE_OOO */

/**
 * struct flt_checkpoint - a connection as bytes
 * @tuple: its addresses
 * @len:   bytes in @wire
 * @wire:  sections (checkpoint.h); goes to the other node as it is
 */
struct flt_checkpoint {
	struct flt_tuple tuple;
	u32 len;
	u8 wire[] __counted_by(len);
};

/**
 * flt_tuple_from_sock - addresses and ports of a connected TCP socket
 * @sk:    IPv4 or IPv6 socket; an IPv4-mapped one yields AF_INET
 * @tuple: filled, padding included, so that it can be compared and hashed as bytes
 */
void flt_tuple_from_sock(const struct sock *sk, struct flt_tuple *tuple);

/**
 * flt_endpoint_checkpoint - copy a connection out; the socket stays as it is
 * @sk:   TCP socket; the caller holds its lock
 * @flags: FLT_CHECKPOINT_END, _OOO
 * @unread: bytes that the program has not read and that may be in it, at most FLT_CHECKPOINT_MAX;
 *	  what came out of order counts, too
 * @send: the same of unacknowledged ones; 0 for a taker that does not know
 *	  FLT_FEATURE_SENDQUEUE: FLT_REFUSE_SENDQUEUE if there are any
 * @tls:  if it has our face over kTLS: the keys, which are not in the checkpoint; with a port of 0,
 *	  to be zeroed after use. Else its @version is 0. NULL: such a connection is FLT_REFUSE_ULP
 * @ckpt: the checkpoint; free with kvfree()
 *
 * Bytes that wait to be sent are in it, and the giver may send them nevertheless:
 * flt_endpoint_unchanged() tells. Without such bytes it has the form that it had before there
 * was FLT_FEATURE_SENDQUEUE.
 *
 * Context: process.
 * Return: FLT_REFUSE_NONE, or why this connection cannot move.
 */
enum flt_refusal flt_endpoint_checkpoint(struct sock *sk, unsigned int flags, u32 unread, u32 send,
					 struct flt_tls *tls, struct flt_checkpoint **ckpt);

/**
 * flt_endpoint_unchanged - is the socket still what the checkpoint says
 * @sk:   the caller holds its lock
 * @ckpt: from flt_endpoint_checkpoint() of the same socket
 *
 * False when bytes were read, written, sent, acknowledged or received, or the state
 * changed.  A delayed acknowledgment or a retransmission that went out meanwhile is no change.
 */
bool flt_endpoint_unchanged(struct sock *sk, const struct flt_checkpoint *ckpt);

/**
 * flt_endpoint_release - end the local endpoint without a FIN or RST
 * @sk: the caller holds its lock
 *
 * The descriptor then reads end of file, also for who waits already; writing
 * gives EPIPE. Nothing is sent, no TIME_WAIT stays; EstabResets grows by one. Keys of kTLS are
 * zeroed but for those that the cipher itself has until the descriptor is closed.
 * A route for the client's packets must exist before this.
 */
void flt_endpoint_release(struct sock *sk);

/**
 * flt_endpoint_tsval - no segment of the socket had a later timestamp
 * @sk: the caller holds its lock; before flt_endpoint_release()
 *
 * Return: in the unit of the connection, for flt_adoption_advance(); 0 when it has no timestamps.
 */
u32 flt_endpoint_tsval(const struct sock *sk);

struct flt_adoption;

/**
 * struct flt_tls_wire - what a checkpoint with keys has that one without them has not
 * @head:    its beginning
 * @section: its end
 */
struct flt_tls_wire {
	u8 head[12] __aligned(4);
	u8 section[8 + sizeof(struct flt_tls)];
};

#define FLT_TLS_PARTS	3

/**
 * flt_checkpoint_with_tls - a checkpoint and the keys of its connection, as parts of a message
 * @ckpt: of flt_endpoint_checkpoint(); has no keys, before and after
 * @tls:  flt_tls_ok()
 * @buf:  filled; zero it as soon as the message is sent
 * @vec:  FLT_TLS_PARTS parts, in @ckpt and @buf
 *
 * A node that does not know FLT_FEATURE_TLS refuses it (FLT_REFUSE_VERSION).
 */
void flt_checkpoint_with_tls(const struct flt_checkpoint *ckpt, const struct flt_tls *tls,
			     struct flt_tls_wire *buf, struct kvec *vec);

/* Is it what struct flt_tls says, of a version and cipher that are known here? */
bool flt_tls_ok(const struct flt_tls *tls);

/**
 * struct flt_peek - what a checkpoint is about
 * @tuple: the connection
 * @tls:   its keys are there
 * @port:  with @tls: of the listener that takes it
 */
struct flt_peek {
	struct flt_tuple tuple;
	bool tls;
	__be16 port;
};

/**
 * flt_endpoint_peek - whose connection a checkpoint is
 * @wire:  checkpoint from another node: not trusted
 * @len:   bytes in @wire
 * @peek:  filled
 *
 * Return: FLT_REFUSE_NONE, or what flt_endpoint_adopt() would say of its form.
 */
enum flt_refusal flt_endpoint_peek(const void *wire, u32 len, struct flt_peek *peek);

/* Go on with the giver's congestion window, where it says so: its path is believed to be ours. */
#define FLT_ADOPT_CWND	BIT(0)

/**
 * flt_endpoint_adopt - build the connection of a checkpoint, not yet acceptable
 * @net:  the service's network namespace
 * @giver: the giving node's number: what waits for its decision is bounded (waiting.c)
 * @flags: FLT_ADOPT_*
 * @wire: checkpoint from another node: not trusted
 * @len:  bytes in @wire
 * @out:  the adoption; ends with flt_adoption_commit() or flt_adoption_abort()
 *
 * The child socket is in the established hash when this returns, so packets of
 * the client draw no RST; no program can accept it yet. It is parked until
 * commit or abort: packets that come wait below TCP, unacknowledged, and it
 * sends nothing: after an abort the giver goes on with what it had. Nobody has
 * its lock, so whoever looks at it or kills it does not wait. The caller bounds
 * how long it stays parked: commit or abort must not depend on a peer alone.
 *
 * Context: process, may sleep.
 * Return: FLT_REFUSE_NONE, or why not (32 to 63).
 */
enum flt_refusal flt_endpoint_adopt(struct net *net, u32 giver, unsigned int flags,
				    const void *wire, u32 len, struct flt_adoption **out);

/*
 * The child; valid until commit or abort. Attach a stack layer here to hear of
 * its end; somebody may kill it (ss -K) while it is parked.
 */
struct sock *flt_adoption_sock(const struct flt_adoption *adoption);
/* It gets keys when it is accepted. Until commit or abort. */
bool flt_adoption_has_keys(const struct flt_adoption *adoption);
/* Of the listener that it is for. */
__be16 flt_adoption_port(const struct flt_adoption *adoption);
const struct flt_tuple *flt_adoption_tuple(const struct flt_adoption *adoption);

/**
 * flt_adoption_advance - let no segment of the child be older than what the giver has sent
 * @adoption: not committed yet
 * @tsval:    flt_endpoint_tsval() there when it let go; 0: not known
 *
 * The child's timestamps go on from the checkpoint's when it is made. What the giver has
 * acknowledged between the two is later, and the client would drop what we send before our clock
 * has come so far (PAWS; Olaru, 6.7).
 *
 * Context: process, may sleep.
 */
void flt_adoption_advance(struct flt_adoption *adoption, u32 tsval);

/**
 * flt_adoption_commit - put the child on its listener's accept queue
 * @adoption: consumed in any case
 *
 * A listener that has closed meanwhile is replaced by what now listens there,
 * and one that has filled up gets the child nevertheless. A child with unacknowledged
 * bytes stays parked until it is accepted: see adopt_accept.c.
 *
 * Context: process, may sleep.
 * Return: FLT_REFUSE_NONE; FLT_REFUSE_NOLISTENER when nobody listens any more:
 * the child is then reset, since the giving side no longer has the connection.
 */
enum flt_refusal flt_adoption_commit(struct flt_adoption *adoption);

/* Destroy the child without a FIN or RST; @adoption is consumed. May sleep. */
void flt_adoption_abort(struct flt_adoption *adoption);

const char *flt_refusal_name(enum flt_refusal why);

#endif
