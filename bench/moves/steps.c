// SPDX-License-Identifier: GPL-2.0
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <flotilla/move.h>

#include "../program.h"
#include "marks.h"
#include "steps.h"

#define ADDRESS		"10.9.0.200"
#define PORT		80
#define REQUEST		"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
#define ANSWER_LENGTH	64
#define BULK		65536
#define TAIL		(20 * MILLISECOND)
/* TIME_WAIT and net.flotilla.forward_linger_ms take a minute. */
#define LATER		(75 * SECOND)

struct actor actors[ACTORS];
char bulk[WARM];
struct turn turn = { .conns = 1, .move = -1, .settle = SETTLE };

void rest(uint64_t ns)
{
	struct timespec ts = { ns / SECOND, ns % SECOND };

	nanosleep(&ts, NULL);
}

static void begin(struct actor *a)
{
	turn.beginner = a - actors;
	turn.accepted = turn.done = 0;
	turn.began = now();
	if (turn.counting)
		MARK(MARK_BEGIN);
}

static void end(void)
{
	if (!turn.done)
		turn.done = now();
	rest(TAIL);
	if (turn.counting)
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

void listens(struct actor *a)
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

void starts(struct actor *a)
{
	listens(a);
	opens(a);
}

static int open_one(void)
{
	struct sockaddr_in at = address();
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), mark = 1;

	if (!turn.at_fe)
		must(!setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)), "SO_MARK");
	if (turn.window)
		must(!setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &turn.window, sizeof(turn.window)), "SO_RCVBUF");
	must(!connect(fd, (struct sockaddr *)&at, sizeof(at)), "connect");
	return fd;
}

static int accept_one(struct actor *a)
{
	int fd = accept4(a->listener, NULL, NULL, SOCK_CLOEXEC);

	must(fd >= 0, "accept");
	return fd;
}

/* --- of the client --- */

void comes(struct actor *a)
{
	(void)a;
	for (int i = 0; i < turn.conns; i++)
		turn.outer[i] = open_one();
}

void requests(struct actor *a)
{
	(void)a;
	for (int i = 0; i < turn.conns; i++)
		send_all(turn.outer[i], REQUEST, strlen(REQUEST));
}

void is_answered(struct actor *a)
{
	(void)a;
	for (int i = 0; i < turn.conns; i++)
		receive(turn.outer[i], bulk, ANSWER_LENGTH);
}

void goes(struct actor *a)
{
	(void)a;
	for (int i = 0; i < turn.conns; i++)
		close(turn.outer[i]);
}

void sends_bulk(struct actor *a)
{
	(void)a;
	send_all(turn.outer[0], bulk, BULK);
}

void takes_bulk(struct actor *a)
{
	(void)a;
	receive(turn.outer[0], bulk, BULK);
}

void takes_warm(struct actor *a)
{
	(void)a;
	receive(turn.outer[0], bulk, WARM);
}

void comes_and_goes(struct actor *a)
{
	rest(turn.settle);
	begin(a);
	comes(a);
	goes(a);
	end();
}

void whole_visit(struct actor *a)
{
	rest(turn.settle);
	begin(a);
	comes(a);
	requests(a);
	is_answered(a);
	goes(a);
	end();
}

void asks(struct actor *a)
{
	rest(turn.settle);
	begin(a);
	requests(a);
	is_answered(a);
	end();
}

void nothing(struct actor *a)
{
	rest(turn.settle);
	begin(a);
	end();
}

void later(struct actor *a)
{
	(void)a;
	rest(SETTLE);
	MARK(MARK_BEGIN);
	rest(LATER);
	MARK(MARK_END);
}

/* --- of who has the connection first --- */

void admits(struct actor *a)
{
	for (int i = 0; i < turn.conns; i++)
		turn.here[i] = accept_one(a);
}

void peeks(struct actor *a)
{
	char data[sizeof(REQUEST)];

	admits(a);
	must(recv(turn.here[0], data, sizeof(data), MSG_PEEK) == strlen(REQUEST), "MSG_PEEK");
}

/* As servers wait that have many. */
static void waits(int fd)
{
	struct pollfd p = { fd, POLLIN | POLLRDHUP, 0 };

	must(poll(&p, 1, 60000) == 1, "nothing comes");
}

void answers(struct actor *a)
{
	(void)a;
	for (int i = 0; i < turn.conns; i++) {
		waits(turn.here[i]);
		receive(turn.here[i], REQUEST, strlen(REQUEST));
		send_all(turn.here[i], bulk, ANSWER_LENGTH);
	}
}

void serves(struct actor *a)
{
	admits(a);
	answers(a);
	ends(turn.here[0]);
}

void sees_it_end(struct actor *a)
{
	(void)a;
	waits(turn.here[0]);
	ends(turn.here[0]);
}

void lets_go(struct actor *a)
{
	admits(a);
	ends(turn.here[0]);
}

void sends_warm(struct actor *a)
{
	(void)a;
	send_all(turn.here[0], bulk, WARM);
}

/* As much as fits, until there are BULK bytes that the client has not acknowledged. */
void fills(struct actor *a)
{
	int sent = 0, n;

	(void)a;
	for (int tries = 0; tries < 20 && sent < BULK; tries++) {
		n = send(turn.here[0], bulk + sent, BULK - sent, MSG_DONTWAIT);
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
				turn.refusal = events[i].refusal;
			number--;
		}
	}
}

void submits(struct actor *a)
{
	uint64_t first = turn.cookie + 1;
	int err = 0;

	turn.refusal = FLT_REFUSE_NONE;
	for (int i = 0; i < turn.conns && !err; i++) {
		err = handoff_submit(a->handoff, turn.here[i], turn.target, ++turn.cookie, 0, 0, &turn.refusal);
		if (turn.one_by_one && !err)
			outcomes(a, 1, turn.cookie);
	}
	if (err)
		die("handoff_submit: %s, %s", strerror(-err), handoff_refusal_name(turn.refusal));
	if (!turn.one_by_one)
		outcomes(a, turn.conns, first);
	if (turn.refusal)
		die("not moved: %s", handoff_refusal_name(turn.refusal));
	for (int i = 0; i < turn.conns; i++)
		close(turn.here[i]);
}

/* What has come meanwhile of other moves is none of this one's cost. */
static void looks(struct actor *a)
{
	struct hof_event old[MANY];

	while (handoff_events(a->handoff, old, MANY) > 0)
		;
	turn.queued = asked(turn.here[0], SIOCOUTQ);
	turn.unsent = asked(turn.here[0], SIOCOUTQNSD);
	turn.unread = asked(turn.here[0], SIOCINQ);
}

void gives(struct actor *a)
{
	rest(turn.settle);
	looks(a);
	begin(a);
	submits(a);
	end();
}

void fills_and_gives(struct actor *a)
{
	send_all(turn.here[0], bulk, BULK);
	gives(a);
}

/* To another process of this node. */
void begins_move(struct actor *a)
{
	struct hof_move_start start = { .size = sizeof(start) };

	turn.move = ioctl(handoff_fd(a->handoff), HOF_IOC_MOVE, &start);
	must(turn.move >= 0 && !ioctl(turn.move, HOF_MOVE_TO, successor->listener) &&
	     !ioctl(turn.move, HOF_MOVE_FROM, a->listener), "HOF_IOC_MOVE");
}

void moves(struct actor *a)
{
	struct pollfd p = { turn.here[0], POLLRDHUP, 0 };

	rest(turn.settle);
	looks(a);
	begin(a);
	must(!ioctl(turn.move, HOF_MOVE_CONN, turn.here[0]), "HOF_MOVE_CONN");
	/* It hears of it as of a client that goes; in a call on the connection it would be in the way. */
	must(poll(&p, 1, 60000) == 1, "the connection stays");
	ends(turn.here[0]);
	end();
}

/* --- of who gets it --- */

void takes(struct actor *a)
{
	for (int i = 0; i < turn.conns; i++)
		turn.there[i] = accept_one(a);
	turn.accepted = now();
}

void takes_and_answers(struct actor *a)
{
	takes(a);
	receive(turn.there[0], REQUEST, strlen(REQUEST));
	send_all(turn.there[0], bulk, ANSWER_LENGTH);
}

void goes_on(struct actor *a)
{
	(void)a;
	for (int i = 0; i < turn.conns; i++) {
		receive(turn.there[i], REQUEST, strlen(REQUEST));
		send_all(turn.there[i], bulk, ANSWER_LENGTH);
	}
}

void reads_bulk(struct actor *a)
{
	(void)a;
	receive(turn.there[0], bulk, BULK);
}

void is_left(struct actor *a)
{
	(void)a;
	for (int i = 0; i < turn.conns; i++)
		ends(turn.there[i]);
}
