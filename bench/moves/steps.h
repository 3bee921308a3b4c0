/* SPDX-License-Identifier: GPL-2.0 */
/* What actors do in a round: connect, ask, answer, give, take. Each checks what it sees. */
#ifndef BENCH_MOVES_STEPS_H
#define BENCH_MOVES_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "handoff.h"
#include "actor.h"

#define MILLISECOND	1000000ull
/* Longer than a delayed acknowledgement and than the kernel's deferred freeing. */
#define SETTLE		(250 * MILLISECOND)
#define MANY		64
#define WARM		(1 << 20)

enum { CLIENT, FE, BE1, BE2, SUCCESSOR, ACTORS };

extern struct actor actors[ACTORS];

static struct actor *const client = &actors[CLIENT], *const fe = &actors[FE], *const be1 = &actors[BE1],
		    *const be2 = &actors[BE2], *const successor = &actors[SUCCESSOR];

/* What goes to and fro. */
extern char bulk[WARM];

/**
 * struct turn - a round: how it is done, and what is to be told of it
 * @outer:      the client's ends
 * @here:       those of who has the connections first
 * @there:      those of who gets them
 * @conns:      of each of these
 * @at_fe:      the client comes to fe
 * @one_by_one: a move begins when the one before has ended
 * @counting:   marks are made
 * @window:     SO_RCVBUF of the client, 0: as it is
 * @settle:     quiet before the first mark, ns
 * @target:     node to which connections go: @node_of_fe, fe's number of be1, or @node_of_be1, be1's of be2
 * @move:       descriptor of a move to another process
 * @cookie:     of the last move
 * @refusal:    of a move that failed
 * @beginner:   who made the first mark, at @began; ns of a clock, as @accepted and @done
 * @queued:     bytes that were in the socket's queues before: all that were not acknowledged,
 * @unsent:     and not sent,
 * @unread:     and not read
 */
struct turn {
	int outer[MANY], here[MANY], there[MANY], conns;
	bool at_fe, one_by_one, counting;
	int window;
	uint64_t settle;
	uint32_t target, node_of_fe, node_of_be1;
	int move;
	uint64_t cookie;
	enum flt_refusal refusal;
	int beginner;
	uint64_t began, accepted, done;
	int queued, unsent, unread;
};

extern struct turn turn;

void rest(uint64_t ns);

/* Of a node's program, before all */
void starts(struct actor *a);
void listens(struct actor *a);

/* Of the client */
void comes(struct actor *a);
void requests(struct actor *a);
void is_answered(struct actor *a);
void goes(struct actor *a);
void sends_bulk(struct actor *a);
void takes_bulk(struct actor *a);
void takes_warm(struct actor *a);
/* between marks: */
void comes_and_goes(struct actor *a);
void whole_visit(struct actor *a);
void asks(struct actor *a);
void nothing(struct actor *a);
void later(struct actor *a);

/* Of who has the connection first */
void admits(struct actor *a);
void peeks(struct actor *a);
void answers(struct actor *a);
void serves(struct actor *a);
void sees_it_end(struct actor *a);
void lets_go(struct actor *a);
void sends_warm(struct actor *a);
void fills(struct actor *a);
void submits(struct actor *a);
void begins_move(struct actor *a);
/* between marks: */
void gives(struct actor *a);
void fills_and_gives(struct actor *a);
void moves(struct actor *a);

/* Of who gets it */
void takes(struct actor *a);
void takes_and_answers(struct actor *a);
void goes_on(struct actor *a);
void reads_bulk(struct actor *a);
void is_left(struct actor *a);

#endif
