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
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <flotilla/move.h>

#include "handoff.h"
#include "../program.h"
#include "actor.h"
#include "marks.h"

#define ADDRESS		"10.9.0.200"
#define PORT		80
#define REQUEST		"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
#define ANSWER_LENGTH	64
#define BULK		65536
#define WARM		(1 << 20)
#define MILLISECOND	1000000ull
/* Longer than a delayed acknowledgement and than the kernel's deferred freeing. */
#define SETTLE		(250 * MILLISECOND)
#define TAIL		(20 * MILLISECOND)
/* TIME_WAIT and net.flotilla.forward_linger_ms take a minute. */
#define LATER		(75 * SECOND)
#define MANY		64
#define UNCOUNTED	5

enum { CLIENT, FE, BE1, BE2, SUCCESSOR, ACTORS };

static const char *const names[ACTORS] = { "client", "fe", "be1", "be2", "successor" };
static struct actor actors[ACTORS];
static struct actor *const client = &actors[CLIENT], *const fe = &actors[FE], *const be1 = &actors[BE1],
		    *const be2 = &actors[BE2], *const successor = &actors[SUCCESSOR];

static char bulk[WARM];

/* This round: ends of connections, and what is to be told of it. */
static int outer[MANY], here[MANY], there[MANY], conns = 1, move = -1;
static uint32_t target, node_of_fe, node_of_be1;
static uint64_t settle = SETTLE, cookie, began, accepted, done;
static int queued, unsent, unread, beginner;
static enum flt_refusal refusal;
static bool at_fe, one_by_one, counting;
static int window;

static void rest(uint64_t ns)
{
	struct timespec ts = { ns / SECOND, ns % SECOND };

	nanosleep(&ts, NULL);
}

static void begin(struct actor *a)
{
	beginner = a - actors;
	accepted = done = 0;
	began = now();
	if (counting)
		MARK(MARK_BEGIN);
}

static void end(void)
{
	if (!done)
		done = now();
	rest(TAIL);
	if (counting)
		MARK(MARK_END);
}

static int asked(int fd, unsigned long what)
{
	int n = 0;

	must(!ioctl(fd, what, &n), "ioctl");
	return n;
}

static void send_all(int fd, const char *data, size_t length)
{
	while (length) {
		ssize_t n = send(fd, data, length, MSG_NOSIGNAL);

		must(n > 0, "send");
		data += n;
		length -= n;
	}
}

/* @expected comes, and nothing else. */
static void receive(int fd, const char *expected, size_t length)
{
	static __thread char data[BULK];

	while (length) {
		ssize_t n = recv(fd, data, length < sizeof(data) ? length : sizeof(data), 0);

		must(n > 0, "recv");
		if (memcmp(data, expected, n))
			die("wrong bytes");
		expected += n;
		length -= n;
	}
}

static void ends(int fd)
{
	char byte;

	if (recv(fd, &byte, 1, 0))
		die("there is more");
	close(fd);
}

/* Of the service. */
static struct sockaddr_in address(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };

	inet_pton(AF_INET, ADDRESS, &at.sin_addr);
	return at;
}

static void listens(struct actor *a)
{
	struct sockaddr_in at = address();
	int one = 1;

	a->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(a->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(a->listener, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	must(!bind(a->listener, (struct sockaddr *)&at, sizeof(at)) && !listen(a->listener, 128), "listen");
}

static void opens(struct actor *a)
{
	int err = handoff_open(&a->handoff);

	errno = -err;
	must(!err, HOF_DEVICE);
}

static void starts(struct actor *a)
{
	listens(a);
	opens(a);
}

static int open_one(void)
{
	struct sockaddr_in at = address();
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), mark = 1;

	if (!at_fe)
		must(!setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)), "SO_MARK");
	if (window)
		must(!setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &window, sizeof(window)), "SO_RCVBUF");
	must(!connect(fd, (struct sockaddr *)&at, sizeof(at)), "connect");
	return fd;
}

static int accept_one(struct actor *a)
{
	int fd = accept4(a->listener, NULL, NULL, SOCK_CLOEXEC);

	must(fd >= 0, "accept");
	return fd;
}

/* Parts of a round. Of the client: */
static void comes(struct actor *a)
{
	(void)a;
	for (int i = 0; i < conns; i++)
		outer[i] = open_one();
}

static void requests(struct actor *a)
{
	(void)a;
	for (int i = 0; i < conns; i++)
		send_all(outer[i], REQUEST, strlen(REQUEST));
}

static void is_answered(struct actor *a)
{
	(void)a;
	for (int i = 0; i < conns; i++)
		receive(outer[i], bulk, ANSWER_LENGTH);
}

static void goes(struct actor *a)
{
	(void)a;
	for (int i = 0; i < conns; i++)
		close(outer[i]);
}

static void sends_bulk(struct actor *a)
{
	(void)a;
	send_all(outer[0], bulk, BULK);
}

static void takes_bulk(struct actor *a)
{
	(void)a;
	receive(outer[0], bulk, BULK);
}

static void takes_warm(struct actor *a)
{
	(void)a;
	receive(outer[0], bulk, WARM);
}

static void comes_and_goes(struct actor *a)
{
	rest(settle);
	begin(a);
	comes(a);
	goes(a);
	end();
}

static void whole_visit(struct actor *a)
{
	rest(settle);
	begin(a);
	comes(a);
	requests(a);
	is_answered(a);
	goes(a);
	end();
}

static void asks(struct actor *a)
{
	rest(settle);
	begin(a);
	requests(a);
	is_answered(a);
	end();
}

static void nothing(struct actor *a)
{
	rest(settle);
	begin(a);
	end();
}

static void later(struct actor *a)
{
	(void)a;
	rest(SETTLE);
	MARK(MARK_BEGIN);
	rest(LATER);
	MARK(MARK_END);
}

/* Of who has the connection first: */
static void admits(struct actor *a)
{
	for (int i = 0; i < conns; i++)
		here[i] = accept_one(a);
}

static void peeks(struct actor *a)
{
	char data[sizeof(REQUEST)];

	admits(a);
	must(recv(here[0], data, sizeof(data), MSG_PEEK) == strlen(REQUEST), "MSG_PEEK");
}

/* As servers wait that have many. */
static void waits(int fd)
{
	struct pollfd p = { fd, POLLIN | POLLRDHUP, 0 };

	must(poll(&p, 1, 60000) == 1, "nothing comes");
}

static void answers(struct actor *a)
{
	(void)a;
	for (int i = 0; i < conns; i++) {
		waits(here[i]);
		receive(here[i], REQUEST, strlen(REQUEST));
		send_all(here[i], bulk, ANSWER_LENGTH);
	}
}

static void serves(struct actor *a)
{
	admits(a);
	answers(a);
	ends(here[0]);
}

static void sees_it_end(struct actor *a)
{
	(void)a;
	waits(here[0]);
	ends(here[0]);
}

static void lets_go(struct actor *a)
{
	admits(a);
	ends(here[0]);
}

static void sends_warm(struct actor *a)
{
	(void)a;
	send_all(here[0], bulk, WARM);
}

/* As much as fits, until there are BULK bytes that the client has not acknowledged. */
static void fills(struct actor *a)
{
	int sent = 0, n;

	(void)a;
	for (int tries = 0; tries < 20 && sent < BULK; tries++) {
		n = send(here[0], bulk + sent, BULK - sent, MSG_DONTWAIT);
		sent += n > 0 ? n : 0;
		rest(30 * MILLISECOND);
	}
	if (sent < BULK)
		die("%d bytes fit", sent);
}

/* The events of older moves are passed over. */
static void outcomes(struct actor *a, int number, uint64_t first)
{
	struct pollfd p = { handoff_fd(a->handoff), POLLIN, 0 };
	struct hof_event events[MANY];

	while (number) {
		int n;

		must(poll(&p, 1, 60000) == 1, "no event");
		n = handoff_events(a->handoff, events, MANY);
		for (int i = 0; i < n; i++) {
			if (events[i].cookie < first || events[i].type > HOF_EVENT_FAILED)
				continue;
			if (events[i].type == HOF_EVENT_FAILED)
				refusal = events[i].refusal;
			number--;
		}
	}
}

static void submits(struct actor *a)
{
	uint64_t first = cookie + 1;
	int err = 0;

	refusal = FLT_REFUSE_NONE;
	for (int i = 0; i < conns && !err; i++) {
		err = handoff_submit(a->handoff, here[i], target, ++cookie, 0, 0, &refusal);
		if (one_by_one && !err)
			outcomes(a, 1, cookie);
	}
	if (err)
		die("handoff_submit: %s, %s", strerror(-err), handoff_refusal_name(refusal));
	if (!one_by_one)
		outcomes(a, conns, first);
	if (refusal)
		die("not moved: %s", handoff_refusal_name(refusal));
	for (int i = 0; i < conns; i++)
		close(here[i]);
}

/* What has come meanwhile of other moves is none of this one's cost. */
static void looks(struct actor *a)
{
	struct hof_event old[MANY];

	while (handoff_events(a->handoff, old, MANY) > 0)
		;
	queued = asked(here[0], SIOCOUTQ);
	unsent = asked(here[0], SIOCOUTQNSD);
	unread = asked(here[0], SIOCINQ);
}

static void gives(struct actor *a)
{
	rest(settle);
	looks(a);
	begin(a);
	submits(a);
	end();
}

static void fills_and_gives(struct actor *a)
{
	send_all(here[0], bulk, BULK);
	gives(a);
}

/* To another process of this node. */
static void begins_move(struct actor *a)
{
	struct hof_move_start start = { .size = sizeof(start) };

	move = ioctl(handoff_fd(a->handoff), HOF_IOC_MOVE, &start);
	must(move >= 0 && !ioctl(move, HOF_MOVE_TO, successor->listener) &&
	     !ioctl(move, HOF_MOVE_FROM, a->listener), "HOF_IOC_MOVE");
}

static void moves(struct actor *a)
{
	struct pollfd p = { here[0], POLLRDHUP, 0 };

	rest(settle);
	looks(a);
	begin(a);
	must(!ioctl(move, HOF_MOVE_CONN, here[0]), "HOF_MOVE_CONN");
	/* It hears of it as of a client that goes; in a call on the connection it would be in the way. */
	must(poll(&p, 1, 60000) == 1, "the connection stays");
	ends(here[0]);
	end();
}

/* Of who gets it: */
static void takes(struct actor *a)
{
	for (int i = 0; i < conns; i++)
		there[i] = accept_one(a);
	accepted = now();
}

static void takes_and_answers(struct actor *a)
{
	takes(a);
	receive(there[0], REQUEST, strlen(REQUEST));
	send_all(there[0], bulk, ANSWER_LENGTH);
}

static void goes_on(struct actor *a)
{
	(void)a;
	for (int i = 0; i < conns; i++) {
		receive(there[i], REQUEST, strlen(REQUEST));
		send_all(there[i], bulk, ANSWER_LENGTH);
	}
}

static void reads_bulk(struct actor *a)
{
	(void)a;
	receive(there[0], bulk, BULK);
}

static void is_left(struct actor *a)
{
	(void)a;
	for (int i = 0; i < conns; i++)
		ends(there[i]);
}

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
	target = node_of_be1;
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
	at_fe = true;
	have(client, comes);
	at_fe = false;
	have(client, requests);
	have(fe, peeks);
	target = node_of_fe;
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
	here[0] = there[0];
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
	settle = 30 * MILLISECOND;
	moved_to_be2(fills_and_gives);
	settle = SETTLE;
	have(client, takes_bulk);
	proves(be2, false);
}

static void case_unsent(void)
{
	window = 4096;
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
	close(move);
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
	conns = MANY;
	case_move();
}

static void case_one_by_one(void)
{
	one_by_one = true;
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
		counting = i >= 0;
		queued = unsent = unread = 0;
		cases[c].run();
		if (!counting)
			continue;
		printf("{\"case\": \"%s\", \"moves\": %d, \"begins\": \"%s\", \"accepted\": %llu, "
		       "\"done\": %llu, \"queued\": %d, \"unsent\": %d, \"unread\": %d}\n",
		       name, conns, names[beginner],
		       (unsigned long long)(accepted ? accepted - began : 0), (unsigned long long)(done - began),
		       queued, unsent, unread);
		fflush(stdout);
	}
	MARK(MARK_PROFILE);
	have(client, later);
	printf("{\"case\": \"%s, later\", \"moves\": %d}\n", name, (rounds + UNCOUNTED) * conns);
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
	node_of_fe = atoi(argv[5]);
	node_of_be1 = atoi(argv[6]);
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
