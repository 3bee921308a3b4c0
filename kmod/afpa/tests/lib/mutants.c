// SPDX-License-Identifier: GPL-2.0
/*
 * afpa_mutants http|memcached SEED REQUESTS [AT-ONCE [dense]]: a site at 127.0.0.1:80 with a server
 * of its own, and clients who pipeline sound and mutated requests, in pieces, leave and reset.
 *
 * dense: mutated requests alone, up to one that is the server's, in one piece, and all clients wait
 * for their answers. Of those that are the server's one in 16 is sent: each costs a connection, which
 * takes ten times as long as a request. So many can be tried.
 *
 * Each connection is judged whole: first come the answers that the model has to its stream, then
 * the server echoes the rest, byte for byte. Lines of JSON: when it is ready (then it waits for a
 * line), and at the end, after which the site stays until standard input ends.
 */
#include <err.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <afpa.h>
#include "echo.h"
#include "model.h"
#include "mutate.h"
#include "show.h"

#define REQUESTS	40
#define STREAM		16384
#define CHUNK		60000	/* less than is sent at once */
#define SILENCE_MS	(1000 * 180)	/* of all connections: something hangs */
#define LINGERING	8		/* one of so many does not wait for its answers */

enum leaves { STAYS, CLOSES, RESETS };

struct talk {
	int fd;
	uint64_t seed;		/* it was made of */
	enum leaves leaves;
	bool at_once, connected, done;	/* in one call; all is sent */
	size_t len, sent, got, room;
	unsigned int nr, mutated;	/* answers; mutated requests that the kernel sees */
	struct model_answer answers[REQUESTS + 8];
	char text[STREAM + MUTATE_ROOM];
	char *answer;
};

static const struct model *model;
static struct sockaddr_in site = { .sin_family = AF_INET };
static struct {
	unsigned long connections, mutated, hits, early, split, gone, closed, echoed;
} count;
static uint64_t seed;
static int poll_fd;
static bool dense;

static void wrong(const struct talk *t, const char *what)
{
	fprintf(stderr, "%s: seed %llu, %u answers, %zu of %zu bytes sent, %zu came\n", what,
		(unsigned long long)t->seed, t->nr, t->sent, t->len, t->got);
	show("sent", t->text, t->len);
	show("came", t->answer, t->got < 2000 ? t->got : 2000);
	exit(1);
}

/* Requests, until one that the kernel does not answer and some more. */
static void talk_write(struct talk *t)
{
	unsigned int more = dense ? 0 : draw(&seed, 3), sound = !dense && draw(&seed, 2) ? 3 : 0;
	size_t at = 0, from, before;
	bool over = false, counts;
	unsigned int nr;
	long n;

	while (t->len < STREAM && t->nr < REQUESTS && (!over || more--)) {
		counts = !draw(&seed, 1 + sound);
		from = t->len;
		before = at;
		nr = t->nr;
		t->len += (counts ? model->mutate : model->sound)(&seed, t->text + from);
		counts = counts && !over;
		while (!over) {
			struct model_answer *a = &t->answers[t->nr];

			*a = (struct model_answer){ .says = "" };
			n = model->next(t->text + at, t->len - at, a);
			over = n < 0 || a->closes;
			if (n <= 0)
				break;
			at += n;
			a->end = at;
			t->nr++;
		}
		if (dense && over && draw(&seed, 16)) {
			t->len = from;
			t->nr = nr;
			at = before;
			over = false;
			continue;
		}
		t->mutated += counts;
	}
}

static void talk_send(struct talk *t)
{
	size_t n = t->len - t->sent;
	ssize_t sent;

	if (!t->at_once)
		n = draw(&seed, 3) ? 1 + draw(&seed, n) : 1;
	sent = send(t->fd, t->text + t->sent, n, MSG_NOSIGNAL);
	if (sent < 0) {
		if (errno == EAGAIN)
			return;
		/* The kernel closes at a request's wish, and the server with it. */
		if (!t->nr || !t->answers[t->nr - 1].closes)
			wrong(t, strerror(errno));
		sent = t->len - t->sent;
	} else if ((size_t)sent < n) {
		t->at_once = false;
	}
	t->sent += sent;
	if (t->sent < t->len)
		return;
	t->done = true;
	if (t->leaves == STAYS)
		shutdown(t->fd, SHUT_WR);
}

static void talk_begin(struct talk *t)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = t };
	int one = 1, few = 4096;

	free(t->answer);
	memset(t, 0, offsetof(struct talk, answers));
	t->answer = NULL;
	t->seed = seed;
	talk_write(t);
	t->leaves = dense || draw(&seed, LINGERING) ? STAYS : CLOSES + draw(&seed, 2);
	t->at_once = dense || draw(&seed, 2);
	t->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (t->fd < 0 || setsockopt(t->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		err(1, "socket");
	if (!dense && !draw(&seed, 256))
		setsockopt(t->fd, SOL_SOCKET, SO_RCVBUF, &few, sizeof(few));
	if (connect(t->fd, (const struct sockaddr *)&site, sizeof(site)) && errno != EINPROGRESS)
		err(1, "connect");
	/* On loopback it is connected; half of them come before they can be accepted. */
	if (dense && draw(&seed, 2))
		talk_send(t);
	if (!t->done)
		ev.events |= EPOLLOUT;
	if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, t->fd, &ev))
		err(1, "epoll_ctl");
	count.connections++;
}

static bool talk_is_over(struct talk *t)
{
	struct linger reset = { .l_onoff = 1 };

	/* Where all has come, that leaves no TIME_WAIT. */
	if (t->leaves == RESETS || dense)
		setsockopt(t->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(t->fd);
	count.mutated += t->mutated;
	return true;
}

/* False: more is to come. */
static bool talk_receive(struct talk *t)
{
	ssize_t n;

	for (;;) {
		if (t->got == t->room) {
			t->room = t->room ? 2 * t->room : 4096;
			t->answer = realloc(t->answer, t->room);
			if (!t->answer)
				err(1, "memory");
		}
		n = recv(t->fd, t->answer + t->got, t->room - t->got, 0);
		if (n <= 0)
			break;
		t->got += n;
	}
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n < 0)
		wrong(t, strerror(errno));
	return true;
}

static bool in_pieces(const struct talk *t, unsigned int nr)
{
	unsigned int i, k;

	for (i = 0; i < nr; i++)
		for (k = 0; k < t->answers[i].nr; k++)
			if (t->answers[i].of[k]->len > CHUNK)
				return true;
	return false;
}

static void talk_judge(struct talk *t)
{
	static const size_t mark = sizeof(ECHO_MARK) - 1;
	size_t at = 0, from;
	unsigned int k;
	long n;

	for (k = 0; k < t->nr; k++) {
		if (t->got - at >= mark && !memcmp(t->answer + at, ECHO_MARK, mark))
			break;
		n = model->check(&t->answers[k], t->answer + at, t->got - at);
		if (n <= 0)
			wrong(t, n ? "another answer" : "an answer is cut off");
		at += n;
	}
	count.hits += k;
	if (k == t->nr && k && t->answers[k - 1].closes) {
		if (at != t->got)
			wrong(t, "more after the last answer");
		count.closed++;
		return;
	}
	/*
	 * A server that comes late finds the beginning of a request, and one that is woken by the
	 * client's end what waits behind an answer in pieces; of others that are whole, none.
	 */
	if (k < t->nr) {
		if (t->at_once && !in_pieces(t, k))
			count.early++;
		else
			count.split++;
	}
	from = k ? t->answers[k - 1].end : 0;
	if (t->got != at + mark + t->len - from || memcmp(t->answer + at, ECHO_MARK, mark) ||
	    memcmp(t->answer + at + mark, t->text + from, t->len - from))
		wrong(t, "the server has read something else");
	count.echoed++;
}

/* True: another one may begin. */
static bool talk_goes_on(struct talk *t, unsigned int events)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = t };

	if (events & EPOLLOUT && !t->done) {
		talk_send(t);
		if (t->done)
			epoll_ctl(poll_fd, EPOLL_CTL_MOD, t->fd, &ev);
	}
	if (t->done && t->leaves != STAYS) {
		count.gone++;
		return talk_is_over(t);
	}
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)) || !talk_receive(t))
		return false;
	/* It may have been closed amid what nobody reads. */
	if (t->done || (t->nr && t->answers[t->nr - 1].closes)) {
		talk_judge(t);
		return talk_is_over(t);
	}
	wrong(t, "it ends before all was sent");
	return true;
}

static void run(unsigned long requests, unsigned int nr)
{
	struct talk *talks = calloc(nr, sizeof(*talks));
	struct epoll_event ev[64];
	unsigned int i, alive = nr;
	int n;

	poll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!talks || poll_fd < 0)
		err(1, "epoll");
	for (i = 0; i < nr; i++)
		talk_begin(&talks[i]);
	while (alive) {
		n = epoll_wait(poll_fd, ev, 64, SILENCE_MS);
		if (!n)
			errx(1, "%u connections hang", alive);
		while (n-- > 0) {
			if (!talk_goes_on(ev[n].data.ptr, ev[n].events))
				continue;
			if (count.mutated < requests)
				talk_begin(ev[n].data.ptr);
			else
				alive--;
		}
	}
	free(talks);
}

static void put_all(int dev, const struct afpa_site *at)
{
	unsigned int i;

	for (i = 0; i < model->nr; i++) {
		const struct model_object *of = &model->objects[i];
		struct afpa_object obj = {
			.type = of->type, .body = of->body, .body_len = of->len,
		};

		if (afpa_put(dev, at, of->host, of->path, &obj, NULL))
			err(1, "put %s%s", of->host, of->path);
	}
}

static void say(const char *what)
{
	printf("{\"%s\": %lu, \"connections\": %lu, \"hits\": %lu, \"echoed\": %lu, ", what,
	       count.mutated, count.connections, count.hits, count.echoed);
	printf("\"closed\": %lu, \"gone\": %lu, \"early\": %lu, \"split\": %lu}\n", count.closed,
	       count.gone, count.early, count.split);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct afpa_site_args result;
	struct afpa_site at;
	int dev;

	model = argc > 3 ? model_of(argv[1]) : NULL;
	if (!model)
		errx(2, "usage: afpa_mutants http|memcached SEED REQUESTS [AT-ONCE [dense]]");
	dense = argc > 5;
	seed = strtoull(argv[2], NULL, 10);
	dev = afpa_open();
	if (dev < 0)
		err(1, "/dev/afpa");
	site.sin_port = htons(80);
	site.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	echo_room();
	echo_serve(&site);
	if (afpa_site_of(&at, (const struct sockaddr *)&site) ||
	    afpa_site_listen(dev, &at, model->name, &result))
		err(1, "site");
	if (result.listeners != 1)
		errx(1, "%u listeners", result.listeners);
	put_all(dev, &at);
	say("ready");
	if (getchar() == EOF)
		return 0;
	run(strtoul(argv[3], NULL, 10), argc > 4 ? atoi(argv[4]) : 64);
	say("mutated");
	while (getchar() != EOF)
		;
	if (afpa_site_del(dev, &at, NULL))
		err(1, "site del");
	return 0;
}
