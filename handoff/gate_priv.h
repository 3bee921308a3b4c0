/* SPDX-License-Identifier: GPL-2.0 */
/* Inside of the gate: gate*.c. */
#ifndef HOF_GATE_PRIV_H
#define HOF_GATE_PRIV_H

#include <linux/bitfield.h>
#include <linux/kref.h>
#include <linux/workqueue.h>
#include <net/tcp_states.h>
#include <net/sock.h>
#include <flotilla/handoff.h>

#include "assign.h"

struct flt_layer;
struct hof_admit_queue;
struct hof_ticket;

enum hof_gate_state {
	HOF_GATE_SHUT,
	HOF_GATE_MORE,
	HOF_GATE_MOVING,
	HOF_GATE_OPEN,
};

/**
 * struct hof_gate - of a connection of a service with a policy
 * @ref:     the layer's; a queued work's; that of a move that is under way
 * @service: a reference
 * @sk:      valid in the layer, and for who holds it: works and moves do
 * @work:    moves it, or lets it through
 * @accepted: a program has it; its operations come to the layer
 * @lock:    guards the following; bottom halves off; a leaf but for @service's
 * @state:   enum hof_gate_state; READ_ONCE
 * @met:     it is known by whom it has come
 * @came:    by a policy, for the first request
 * @known:   @next is where the last request ends
 * @lost:    requests and answers cannot be told apart any more: all stays
 * @asked:   with HOF_GATE_MOVING: the node is
 * @decided: and has answered: @refusal
 * @refusal: enum flt_refusal
 * @tagged:  its service has admission, it is surplus, and its first request is not decided
 * @hops:    so often policies have moved it
 * @requests: how many were decided here
 * @target:  of HOF_GATE_MOVING; else of the last
 * @begin:   with HOF_GATE_MORE and _MOVING: first byte of the request
 * @next:    see @known
 * @mark:    what the program had written when the last request began
 * @since:   with HOF_GATE_MORE: jiffies
 * @key:     of the request that is being answered, for hof_policy_answered(); 0: nobody asks
 * @written: what the program had written before its answer
 * @held:    with HOF_GATE_MORE: in @service->held, under its lock
 *
 * Lock order: the socket's lock, or the lock of the file that moves are submitted by; @lock.
 */
struct hof_gate {
	struct kref ref;
	struct hof_assigned *service;
	struct sock *sk;
	struct delayed_work work;
	bool accepted;
	spinlock_t lock;	/* the following */
	u8 state;
	bool met;
	bool came;
	bool known;
	bool lost;
	bool asked;
	bool decided;
	u8 refusal;
	bool tagged;
	u8 hops;
	u32 requests;
	u32 target;
	u32 begin;
	u32 next;
	u32 mark;
	unsigned long since;
	u64 key;
	u64 written;
	struct list_head held;
};

extern const struct flt_layer_ops hof_gate_layer;
extern struct workqueue_struct *hof_gate_wq;

/* The client's side goes on, and so does ours. */
static inline bool hof_sock_is_whole(const struct sock *sk)
{
	return inet_sk_state_load(sk) == TCP_ESTABLISHED && !READ_ONCE(sk->sk_err) &&
	       !(READ_ONCE(sk->sk_shutdown) & RCV_SHUTDOWN);
}

/* Of a connection of a service with a policy; else, or without memory, NULL. */
struct hof_gate *hof_gate_create(struct sock *sk, gfp_t gfp);
/* The same of a known one, whose reference goes with it unless there is no memory. */
struct hof_gate *hof_gate_create_of(struct hof_assigned *s, struct sock *sk, gfp_t gfp);
void hof_gate_put(struct hof_gate *g);

/* Its work runs, after @delay; it holds the gate and its socket. Any context. */
void hof_gate_queue(struct hof_gate *g, unsigned long delay);
/* Its service has no policy any more. */
bool hof_gate_is_off(const struct hof_gate *g);
/* Has the program to wait? Unlocked. */
bool hof_gate_holds(const struct hof_gate *g);
/* Something may have come; with the socket's lock, by who has none, at once or by the work. */
bool hof_gate_look(struct hof_gate *g);
void hof_gate_look_again(struct hof_gate *g);
/* Under @lock. The program gets the request. @locked: the socket is */
void hof_gate_stay(struct hof_gate *g, enum hof_policy_stat why, bool locked);
void hof_gate_set_state(struct hof_gate *g, enum hof_gate_state state);
/* Its socket ends: the last answer was whole if the client has all of it. */
void hof_gate_ends(struct hof_gate *g);

struct hof_admit_queue *hof_gate_queue_of(struct flt_layer *layer);

/* Told of what became of a move, see struct hof_file. */
void hof_gate_tell(const struct hof_ticket *t, enum hof_event_type type);
/* Nobody else has a layer on its socket. Under the socket's lock. */
bool hof_gate_alone(const struct sock *sk);
/* The layers are off: waits for what is under way. */
void hof_gate_drain(void);

#endif
