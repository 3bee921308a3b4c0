// SPDX-License-Identifier: GPL-2.0
/*
 * moves: one kind of move, round by round, each between two marks that marks.c counts by.
 *
 *	moves [-r ROUNDS] [-c CPU,CPU,CPU,CPU] CASE CLIENT FE BE1 BE2 ID1 ID2
 *
 * CLIENT, FE, BE1, BE2 are names of network namespaces, and -c says on which CPU who is in it runs (default: all on the
 * first). ID1 is be1's number at fe, ID2 is be2's at be1. Each of them is a thread that waits for what it is to do. Who
 * begins lets all settle, makes the first mark, does its part, and makes the second a while after. What leads to a move
 * and what follows it, so that every byte is checked, is outside of the marks.
 *
 * For each pair of marks it prints a line of JSON: the case, how many connections, who begins, the nanoseconds from
 * the first mark until the taker's program has accepted ("accepted") and until the beginner has done its part ("done"),
 * and what was in the queues of the socket that moves. After the last round comes a pair more, "later", around the time
 * that TIME_WAIT and entries of forwarding last.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../program.h"
#include "marks.h"
#include "steps.h"

#define UNCOUNTED	5

static const char *const names[ACTORS] = { "client", "fe", "be1", "be2", "successor" };

/* The connection works where it is, and ends. */
static void proves(struct actor *taker, bool has_request)
{
	if (!has_request)
		have(client, requests);
	ask(taker, goes_on);
	have(client, is_answered);
	until(taker);
	have(client, goes);
	have(taker, is_left);
}

/* be1 has a connection of the client's that has been served. */
static void established(void)
{
	have(client, comes);
	have(be1, admits);
	have(client, requests);
	have(be1, answers);
	have(client, is_answered);
}

static void moved_to_be2(void (*give)(struct actor *a))
{
	turn.target = turn.node_of_be1;
	ask(be2, takes);
	have(be1, give);
	until(be2);
}

static void case_nothing(void)
{
	have(client, nothing);
}

static void case_open(void)
{
	ask(be1, lets_go);
	have(client, comes_and_goes);
	until(be1);
}

static void case_visit(void)
{
	ask(be1, serves);
	have(client, whole_visit);
	until(be1);
}

/* be1 has a connection of the client's that came to fe, and whose request is unread. */
static void given_by_fe(void (*give)(struct actor *a))
{
	turn.at_fe = true;
	have(client, comes);
	turn.at_fe = false;
	have(client, requests);
	have(fe, peeks);
	turn.target = turn.node_of_fe;
	ask(be1, takes);
	have(fe, give);
	until(be1);
}

static void case_handoff(void)
{
	given_by_fe(gives);
	proves(be1, true);
}

/* It goes on to be2, and fe has to be told. */
static void case_on(void)
{
	given_by_fe(submits);
	have(be1, goes_on);
	have(client, is_answered);
	turn.here[0] = turn.there[0];
	moved_to_be2(gives);
	proves(be2, false);
}

static void case_move(void)
{
	established();
	moved_to_be2(gives);
	proves(be2, false);
}

/* As the client has not acknowledged anything for a third of a second when this is counted, see guest.py. */
static void case_flight(void)
{
	established();
	ask(client, takes_warm);
	have(be1, sends_warm);
	until(client);
	rest(SECOND);
	turn.settle = 30 * MILLISECOND;
	moved_to_be2(fills_and_gives);
	turn.settle = SETTLE;
	have(client, takes_bulk);
	proves(be2, false);
}

static void case_unsent(void)
{
	turn.window = 4096;
	established();
	have(be1, fills);
	moved_to_be2(gives);
	have(client, takes_bulk);
	proves(be2, false);
}

static void case_unread(void)
{
	established();
	have(client, sends_bulk);
	moved_to_be2(gives);
	have(be2, reads_bulk);
	proves(be2, false);
}

static void case_stays(void)
{
	have(client, comes);
	have(be1, admits);
	ask(be1, answers);
	have(client, asks);
	until(be1);
	have(client, goes);
	have(be1, sees_it_end);
}

static void case_policy(void)
{
	have(client, comes);
	have(be1, admits);
	ask(be2, takes_and_answers);
	ask(be1, sees_it_end);
	have(client, asks);
	until(be1);
	until(be2);
	have(client, goes);
	have(be2, is_left);
}

static void to_successor(bool with_bulk)
{
	have(client, comes);
	have(be1, admits);
	if (with_bulk)
		have(client, sends_bulk);
	have(successor, listens);
	have(be1, begins_move);
	ask(successor, takes);
	have(be1, moves);
	until(successor);
	close(turn.move);
	if (with_bulk)
		have(successor, reads_bulk);
	proves(successor, false);
	close(successor->listener);
}

static void case_process(void)
{
	to_successor(false);
}

static void case_process_unread(void)
{
	to_successor(true);
}

static void case_many(void)
{
	turn.conns = MANY;
	case_move();
}

static void case_one_by_one(void)
{
	turn.one_by_one = true;
	case_many();
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "nothing", case_nothing },
	{ "open", case_open },
	{ "visit", case_visit },
	{ "handoff", case_handoff },
	{ "move", case_move },
	{ "flight", case_flight },
	{ "unsent", case_unsent },
	{ "unread", case_unread },
	{ "on", case_on },
	{ "stays", case_stays },
	{ "policy", case_policy },
	{ "process", case_process },
	{ "process-unread", case_process_unread },
	{ "many", case_many },
	{ "one-by-one", case_one_by_one },
};

static void run(const char *name, int rounds)
{
	unsigned int c = 0;

	while (c < sizeof(cases) / sizeof(*cases) && strcmp(cases[c].name, name))
		c++;
	if (c == sizeof(cases) / sizeof(*cases))
		die("there is no case %s", name);
	/* The first ones find nothing prepared: no neighbours, no free memory of the right size. */
	for (int i = -UNCOUNTED; i < rounds; i++) {
		turn.counting = i >= 0;
		turn.queued = turn.unsent = turn.unread = 0;
		cases[c].run();
		if (!turn.counting)
			continue;
		printf("{\"case\": \"%s\", \"moves\": %d, \"begins\": \"%s\", \"accepted\": %llu, "
		       "\"done\": %llu, \"queued\": %d, \"unsent\": %d, \"unread\": %d}\n",
		       name, turn.conns, names[turn.beginner],
		       (unsigned long long)(turn.accepted ? turn.accepted - turn.began : 0),
		       (unsigned long long)(turn.done - turn.began),
		       turn.queued, turn.unsent, turn.unread);
		fflush(stdout);
	}
	MARK(MARK_PROFILE);
	have(client, later);
	printf("{\"case\": \"%s, later\", \"moves\": %d}\n", name, (rounds + UNCOUNTED) * turn.conns);
	MARK(MARK_PROFILE);
}

int main(int argc, char **argv)
{
	int rounds = 30, cpus[SUCCESSOR] = { 0 }, o;

	while ((o = getopt(argc, argv, "r:c:")) != -1) {
		if (o == 'r')
			rounds = atoi(optarg);
		else if (o != 'c' ||
			 sscanf(optarg, "%d,%d,%d,%d", &cpus[CLIENT], &cpus[FE], &cpus[BE1], &cpus[BE2]) != 4)
			return 2;
	}
	if (argc - optind != 7)
		die("moves [-r ROUNDS] [-c CPU,CPU,CPU,CPU] CASE CLIENT FE BE1 BE2 ID1 ID2");
	argv += optind;
	turn.node_of_fe = atoi(argv[5]);
	turn.node_of_be1 = atoi(argv[6]);
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < sizeof(bulk); i++)
		bulk[i] = i * 2654435761u >> 13;
	for (int i = 0; i < ACTORS; i++) {
		struct actor *a = &actors[i];
		int at = i == SUCCESSOR ? BE1 : i;

		a->ns = argv[1 + at];
		a->cpu = cpus[at];
		actor_start(a);
	}
	have(fe, starts);
	have(be1, starts);
	have(be2, starts);
	/* Policies look for new listeners once a second. */
	rest(2 * SECOND);
	run(argv[0], rounds);
	return 0;
}
