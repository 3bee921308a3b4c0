// SPDX-License-Identifier: MIT
/* One randomised transfer through /dev/sksplice, driven from all three sides by one thread. */

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "pattern.h"
#include "session.h"
#include "splice/lib/sksplice.h"

#define STALL_MS	120000	/* nothing at all happened for so long */
#define SLOW_MS		2000	/* worth a line of the log */

/**
 * struct flow - a stream from one peer towards the other
 * @key:  which
 * @want: its length
 * @sent, @got: how far the ends are
 * @fin:  the sender shuts down after the last byte
 * @done: and has done so
 * @eof:  the receiver has seen it
 */
struct flow {
	uint64_t key;
	uint64_t want;
	uint64_t sent;
	uint64_t got;
	bool fin;
	bool done;
	bool eof;
};

/**
 * struct session - one transfer
 * @req:     the request
 * @head:    length of the data that is written first
 * @body:    what the splice is to pass on; with @extra behind it: @down.want
 * @down, @up: from the server, from the client (SSP_BIDIR)
 * @copy:    bytes of the copy that were read
 * @mishap, @at: what happens when the client or the sender is so far
 * @struck:  it has happened
 * @client_lost, @server_lost: that connection cannot be used further
 * @end:     how the transfer ended
 */
struct session {
	struct worker *w;
	struct ssp_splice req;
	uint64_t head;
	uint64_t body;
	uint64_t extra;
	struct flow down;
	struct flow up;
	uint64_t copy;
	enum mishap mishap;
	uint64_t at;
	bool struck;
	bool client_lost;
	bool server_lost;
	struct ssp_result end;
};

static unsigned char buffer[65536];

static int wrong(const struct session *s, const char *what, uint64_t is, uint64_t should)
{
	printf("# session %llu flags %x mishap %d at %llu: %s: is %llu, should be %llu\n",
	       (unsigned long long)s->w->number, s->req.flags, s->mishap, (unsigned long long)s->at,
	       what, (unsigned long long)is, (unsigned long long)should);
	printf("#  head %llu body %llu extra %llu sent %llu got %llu copy %llu up %llu/%llu\n",
	       (unsigned long long)s->head, (unsigned long long)s->body,
	       (unsigned long long)s->extra, (unsigned long long)s->down.sent,
	       (unsigned long long)s->down.got, (unsigned long long)s->copy,
	       (unsigned long long)s->up.sent, (unsigned long long)s->up.got);
	printf("#  status %u cause %s error %u moved %llu,%llu copied %llu unread %u errno %d\n",
	       s->end.status, sksplice_cause_name(s->end.cause), s->end.error,
	       (unsigned long long)s->end.moved01, (unsigned long long)s->end.moved10,
	       (unsigned long long)s->end.copied, s->end.unread, errno);
	return -1;
}

static uint64_t rnd(struct session *s, uint64_t bound)
{
	return rnd_below(&s->w->rnd, bound);
}

/* Small sizes as often as large ones. */
static uint64_t rnd_size(struct session *s, unsigned int bits)
{
	return rnd(s, 1ULL << rnd(s, bits + 1));
}

static bool has(const struct session *s, uint32_t flag)
{
	return s->req.flags & flag;
}

/* --- connections --- */

static void far_close(struct far *far)
{
	if (far->peer >= 0)
		close(far->peer);
	if (far->near >= 0)
		close(far->near);
	far->peer = -1;
	far->near = -1;
}

static int far_open(struct far *far, int ear, bool tiny, int mss)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	int small = 2304, one = 1;

	if (getsockname(ear, (struct sockaddr *)&addr, &len))
		return -1;
	far->peer = socket(addr.ss_family, SOCK_STREAM, 0);
	if (far->peer < 0)
		return -1;
	if (mss)
		setsockopt(far->peer, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof(mss));
	if (tiny)
		setsockopt(far->peer, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	if (connect(far->peer, (struct sockaddr *)&addr, len))
		return -1;
	far->near = accept4(ear, NULL, NULL, SOCK_NONBLOCK);
	if (far->near < 0)
		return -1;
	if (tiny) {
		setsockopt(far->near, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
		setsockopt(far->near, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	}
	setsockopt(far->peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(far->near, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	/* A reset is sent once. Where it may be lost, who only waits has to ask. */
	setsockopt(far->near, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(far->near, IPPROTO_TCP, TCP_KEEPIDLE, &one, sizeof(one));
	setsockopt(far->near, IPPROTO_TCP, TCP_KEEPINTVL, &one, sizeof(one));
	far->tiny = tiny;
	return 0;
}

static void peer_reset(struct far *far)
{
	struct linger now = { .l_onoff = 1 };

	setsockopt(far->peer, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(far->peer);
	far->peer = -1;
}

static int ear_open(int family)
{
	struct sockaddr_in6 any6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in any4 = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	bool six = family == AF_INET6;
	int fd = socket(family, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, six ? (struct sockaddr *)&any6 : (struct sockaddr *)&any4,
			   six ? sizeof(any6) : sizeof(any4)) || listen(fd, 8))
		return -1;
	return fd;
}

int session_open(struct worker *w, int dev, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->dev = dev;
	w->rnd = seed;
	w->server = (struct far) { -1, -1, false };
	w->client = (struct far) { -1, -1, false };
	w->ears[0] = ear_open(AF_INET);
	w->ears[1] = ear_open(AF_INET6);
	return w->ears[0] < 0 || w->ears[1] < 0 ? -1 : 0;
}

void session_close(struct worker *w)
{
	far_close(&w->server);
	far_close(&w->client);
	close(w->ears[0]);
	close(w->ears[1]);
}

/* --- bytes --- */

/* The sender has bytes to send, or its FIN. */
static bool flow_is_open(const struct flow *f)
{
	return f->sent < f->want || (f->fin && !f->done);
}

static void flow_send(struct session *s, struct flow *f, int fd, uint64_t upto)
{
	uint64_t n = upto - f->sent;
	ssize_t ret;

	if (fd < 0)
		return;
	n = n > 65536 ? 65536 : n;
	if (n) {
		n = 1 + rnd(s, n);
		ret = send(fd, pattern_at(f->key, f->sent), n, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (ret > 0)
			f->sent += ret;
	}
	if (f->sent == f->want && f->fin && !f->done) {
		shutdown(fd, SHUT_WR);
		f->done = true;
	}
}

/* Reads and checks; where the stream is at @*pos. 0: nothing there, -1: wrong, else bytes; EOF sets @eof. */
static int stream_read(struct session *s, int fd, uint64_t key, uint64_t *pos, uint64_t most,
		       bool *eof, const char *who)
{
	size_t n = most > sizeof(buffer) ? sizeof(buffer) : most;
	ssize_t ret;

	if (!n)
		return 0;
	ret = recv(fd, buffer, n, MSG_DONTWAIT);
	if (ret < 0) {
		if (errno != EAGAIN && eof)
			*eof = true;
		return 0;
	}
	if (!ret) {
		if (eof)
			*eof = true;
		return 0;
	}
	if (memcmp(buffer, pattern_at(key, *pos), ret))
		return wrong(s, who, *pos, ~0ULL);
	*pos += ret;
	return ret;
}

/* The client: first the head, then the body. */
static int client_read(struct session *s, uint64_t most)
{
	uint64_t seen = s->down.got, at = seen - s->head;
	int ret;

	if (s->w->client.peer < 0 || s->down.eof)
		return 0;
	if (seen < s->head) {
		most = most > s->head - seen ? s->head - seen : most;
		ret = stream_read(s, s->w->client.peer, s->down.key ^ 0xfff, &seen, most,
				  &s->down.eof, "head at the client");
		s->down.got = seen;
		return ret;
	}
	ret = stream_read(s, s->w->client.peer, s->down.key, &at, most, &s->down.eof,
			  "body at the client");
	s->down.got = at + s->head;
	return ret;
}

/* Until @fd's stream is at @upto. */
static int read_up_to(struct session *s, int fd, uint64_t key, uint64_t *pos, uint64_t upto,
		      struct flow *sender, int sender_fd, const char *who)
{
	struct pollfd p[2] = { { .fd = fd, .events = POLLIN } };
	bool eof = false;

	while (*pos < upto && !eof) {
		if (sender)
			flow_send(s, sender, sender_fd, sender->want);
		if (stream_read(s, fd, key, pos, upto - *pos, &eof, who) < 0)
			return -1;
		p[1] = (struct pollfd) { .fd = sender && sender->sent < sender->want ?
					       sender_fd : -1, .events = POLLOUT };
		if (*pos < upto && !eof && poll(p, 2, STALL_MS) <= 0)
			return wrong(s, who, *pos, upto);
	}
	return *pos == upto ? 0 : wrong(s, who, *pos, upto);
}

/* --- one session --- */

static void session_choose(struct session *s)
{
	static const uint32_t modes[] = {
		SSP_LIMIT, 0, SSP_BIDIR, SSP_LIMIT | SSP_KEEPCOPY, SSP_KEEPCOPY,
		SSP_LIMIT, SSP_LIMIT | SSP_KEEPCOPY, SSP_LIMIT,
	};
	unsigned int mode = rnd(s, 8);
	unsigned int bits = rnd(s, 8) ? 15 : 18;
	struct worker *w = s->w;

	/* Such a window costs a retransmission or a probe for each KB, spliced or not. */
	if (w->server.tiny || w->client.tiny)
		bits = 12;
	s->req.flags = modes[mode] | (rnd(s, 2) ? SSP_AUTORELEASE : 0);
	w->modes[mode]++;
	s->head = rnd(s, 2) ? rnd(s, w->client.tiny ? 1000 : 4000) : 0;
	s->body = rnd_size(s, bits);
	s->extra = has(s, SSP_LIMIT) && !rnd(s, 3) ? rnd_size(s, 12) : 0;
	if (has(s, SSP_LIMIT))
		s->req.limit = s->body;
	if (has(s, SSP_KEEPCOPY)) {
		/* Byte by byte takes minutes for a long body. */
		s->req.max2cache = 1 + s->body / 64 + rnd_size(s, 16);
		s->req.min2read = rnd(s, s->req.max2cache + 1);
	}
	s->down.key = rnd(s, PATTERN_SIZE);
	s->down.want = s->body + s->extra;
	s->down.fin = !has(s, SSP_LIMIT);
	if (has(s, SSP_BIDIR)) {
		s->up.key = rnd(s, PATTERN_SIZE);
		s->up.want = rnd_size(s, bits);
		s->up.fin = true;
	}
	s->mishap = rnd(s, 3) ? MISHAP_NONE : rnd(s, MISHAPS);
	if (s->mishap == MISHAP_SHORT && !has(s, SSP_LIMIT))
		s->mishap = MISHAP_NONE;
	s->at = rnd(s, s->body + 1);
	if (s->mishap == MISHAP_SHORT) {
		s->down.want = s->at;
		s->down.fin = true;
	}
	w->mishaps[s->mishap]++;
}

/* A connection of either family, sometimes with tiny buffers, often with segments as on a wire. */
static int session_open_far(struct session *s, struct far *far)
{
	static const int mss[] = { 0, 0, 536, 1220, 1448, 8948 };

	if (far->near >= 0)
		return 0;
	return far_open(far, s->w->ears[rnd(s, 2)], !rnd(s, 16),
			mss[rnd(s, sizeof(mss) / sizeof(mss[0]))]);
}

static int session_connect(struct session *s)
{
	return session_open_far(s, &s->w->server) ?: session_open_far(s, &s->w->client);
}

/* Headers, and how much of the body the server was ahead of the proxy. */
static int session_start(struct session *s)
{
	struct worker *w = s->w;
	int ret;

	if (rnd(s, 2)) {
		uint64_t ahead = rnd(s, s->down.want + 1);

		while (s->down.sent < ahead) {
			uint64_t had = s->down.sent;

			flow_send(s, &s->down, w->server.peer, ahead);
			if (s->down.sent == had)
				break;
		}
	}
	s->req.fd0 = w->server.near;
	s->req.fd1 = w->client.near;
	s->req.data = (uintptr_t)pattern_at(s->down.key ^ 0xfff, 0);
	s->req.data_len = s->head;
	ret = sksplice_start(w->dev, &s->req);
	w->in_call += ret == SSP_DONE;
	return ret;
}

static bool session_ended(struct session *s)
{
	if (sksplice_result(s->w->dev, s->w->server.near, &s->end))
		return false;
	return s->end.status == SSP_DONE;
}

/* What is to happen in the midst, when the time has come. True: the transfer is over by it. */
static bool session_strike(struct session *s)
{
	uint64_t there = s->down.got > s->head ? s->down.got - s->head : 0;
	struct worker *w = s->w;

	if (s->struck || s->mishap == MISHAP_NONE || s->mishap == MISHAP_SHORT)
		return false;
	/* The server's RST may overtake nothing that the client could wait for. */
	if (s->mishap == MISHAP_SERVER_RESET ? s->down.sent < s->at : there < s->at)
		return false;
	s->struck = true;
	switch (s->mishap) {
	case MISHAP_CLIENT_RESET:
		peer_reset(&w->client);
		s->client_lost = true;
		return false;
	case MISHAP_SERVER_RESET:
		peer_reset(&w->server);
		s->server_lost = true;
		return false;
	case MISHAP_SINK_CLOSE:
		close(w->client.near);
		w->client.near = -1;
		s->client_lost = true;
		return false;
	case MISHAP_UNSPLICE:
		/* It may have ended by itself, and with SSP_AUTORELEASE be gone. */
		if (sksplice_end(w->dev, w->server.near, w->client.near, 0, &s->end))
			return session_ended(s);
		s->req.flags |= SSP_AUTORELEASE;
		return true;
	default:
		return false;
	}
}

static int session_step(struct session *s, const struct pollfd *p)
{
	struct worker *w = s->w;

	if (!s->server_lost)
		flow_send(s, &s->down, w->server.peer, s->down.want);
	if (p[1].revents && client_read(s, 1 + rnd_size(s, 16)) < 0)
		return -1;
	if (has(s, SSP_KEEPCOPY) && p[2].revents &&
	    stream_read(s, w->server.near, s->down.key, &s->copy, 1 + rnd_size(s, 16), NULL,
			"copy") < 0)
		return -1;
	if (has(s, SSP_BIDIR)) {
		flow_send(s, &s->up, w->client.peer, s->up.want);
		if (p[0].revents & (POLLIN | POLLHUP | POLLERR) && !s->server_lost && !s->up.eof &&
		    stream_read(s, w->server.peer, s->up.key, &s->up.got, 1 + rnd_size(s, 16),
				&s->up.eof, "request at the server") < 0)
			return -1;
	}
	return 0;
}

/* All that can happen until the transfer is over. */
static int session_drive(struct session *s)
{
	struct worker *w = s->w;

	for (;;) {
		bool asking = has(s, SSP_BIDIR) && flow_is_open(&s->up);
		bool hearing = has(s, SSP_BIDIR) && !s->up.eof;
		bool sending = flow_is_open(&s->down);
		struct pollfd p[4] = {
			{ .fd = s->up.eof && !sending ? -1 : w->server.peer,
			  .events = (sending ? POLLOUT : 0) | (hearing ? POLLIN : 0) },
			{ .fd = s->down.eof && !asking ? -1 : w->client.peer,
			  .events = (s->down.eof ? 0 : POLLIN) | (asking ? POLLOUT : 0) },
			{ .fd = has(s, SSP_KEEPCOPY) ? w->server.near : -1, .events = POLLIN },
			{ .fd = w->client.near, .events = POLLOUT },
		};

		if (session_strike(s))
			return 0;
		if (s->client_lost)
			p[1].fd = -1;
		if (s->server_lost)
			p[0].fd = -1;
		p[3].fd = w->client.near;
		/* Who has lost its event source asks. */
		if (poll(p, 4, s->client_lost ? 10 : STALL_MS) == 0 && !s->client_lost) {
			session_ended(s);
			return wrong(s, "stalled", 0, 1);
		}
		/* After the end the source's bytes are no copy any more. */
		if ((p[2].revents || p[3].revents || s->client_lost) && session_ended(s))
			return 0;
		if (session_step(s, p) < 0)
			return -1;
	}
}

/* --- what must hold at the end --- */

static int check_cause(struct session *s)
{
	bool whole = s->end.moved01 == s->body && has(s, SSP_LIMIT);
	unsigned int cause = s->end.cause;
	bool fits;

	switch (s->mishap) {
	case MISHAP_CLIENT_RESET:
		fits = cause == SSP_CAUSE_SINK;
		break;
	case MISHAP_SERVER_RESET:
		fits = cause == SSP_CAUSE_SOURCE;
		break;
	case MISHAP_UNSPLICE:
		fits = cause == SSP_CAUSE_UNSPLICED;
		break;
	case MISHAP_SINK_CLOSE:
		fits = cause == SSP_CAUSE_CLOSED;
		break;
	case MISHAP_SHORT:
		fits = cause == SSP_CAUSE_EOF && s->end.moved01 == s->at;
		break;
	default:
		fits = false;
	}
	if (has(s, SSP_BIDIR))
		fits = fits || cause == SSP_CAUSE_BOTH;
	else if (has(s, SSP_LIMIT))
		fits = fits || (cause == SSP_CAUSE_LIMIT &&
				(whole || (has(s, SSP_KEEPCOPY) && s->end.copied == s->body)));
	else
		fits = fits || cause == SSP_CAUSE_EOF;
	return fits ? 0 : wrong(s, "cause", cause, s->mishap);
}

/* The client has got all that was passed on and nothing else. */
static int check_client(struct session *s)
{
	uint64_t at = s->down.got > s->head ? s->down.got - s->head : 0;

	/* A reset takes the head with it that was not yet sent. */
	if (s->client_lost || (has(s, SSP_BIDIR) && s->end.error))
		return at > s->end.moved01 ? wrong(s, "bytes at the client", at, s->end.moved01) : 0;
	while (s->down.got < s->head) {
		struct pollfd p = { .fd = s->w->client.peer, .events = POLLIN };

		if (poll(&p, 1, STALL_MS) <= 0 || client_read(s, 65536) < 0 || s->down.eof)
			return wrong(s, "head", s->down.got, s->head);
		at = s->down.got > s->head ? s->down.got - s->head : 0;
	}
	if (at > s->end.moved01)
		return wrong(s, "bytes at the client", at, s->end.moved01);
	if (read_up_to(s, s->w->client.peer, s->down.key, &at, s->end.moved01, NULL, -1,
		       "all at the client"))
		return -1;
	s->down.got = s->head + at;
	return 0;
}

/* What was not passed on is read from the source at user level, without a gap. */
static int check_source(struct session *s)
{
	struct worker *w = s->w;
	uint64_t from = has(s, SSP_KEEPCOPY) ? s->copy : s->end.moved01;
	bool whole = s->down.want == s->body + s->extra;
	bool taken_back = s->struck && s->mishap == MISHAP_UNSPLICE;

	if (s->server_lost || has(s, SSP_BIDIR))
		return 0;
	if (has(s, SSP_KEEPCOPY) && !taken_back && s->copy != s->end.copied)
		return wrong(s, "copy", s->copy, s->end.copied);
	if (has(s, SSP_KEEPCOPY) && s->struck && s->mishap == MISHAP_CLIENT_RESET &&
	    s->end.copied != s->body)
		return wrong(s, "copy after the client's abort", s->end.copied, s->body);
	if (has(s, SSP_KEEPCOPY) && taken_back && s->end.unread + s->copy != s->end.copied)
		return wrong(s, "unread", s->end.unread, s->end.copied - s->copy);
	if (read_up_to(s, w->server.near, s->down.key, &from, s->down.want, &s->down,
		       w->server.peer, whole ? "the rest" : "the short rest"))
		return -1;
	return 0;
}

static int check_bidir(struct session *s)
{
	bool clean = !s->end.error && s->end.cause == SSP_CAUSE_BOTH;

	if (!has(s, SSP_BIDIR))
		return 0;
	if (s->up.got > s->end.moved10)
		return wrong(s, "bytes at the server", s->up.got, s->end.moved10);
	if (clean && (s->end.moved01 != s->down.want || s->end.moved10 != s->up.want))
		return wrong(s, "both ways", s->end.moved10, s->up.want);
	if (clean && !s->server_lost &&
	    read_up_to(s, s->w->server.peer, s->up.key, &s->up.got, s->up.want, NULL, -1,
		       "all at the server"))
		return -1;
	return 0;
}

/* Connections that are still good serve the next session. */
static int session_finish(struct session *s)
{
	struct worker *w = s->w;
	struct ssp_result last;
	socklen_t len = sizeof(int);
	int err;

	if (w->client.near >= 0) {
		if (!has(s, SSP_AUTORELEASE) && s->req.status != SSP_DONE &&
		    sksplice_end(w->dev, w->server.near, w->client.near, 0, &last))
			return wrong(s, "release", errno, 0);
		/* The server's reset is told here, once. */
		getsockopt(w->client.near, SOL_SOCKET, SO_ERROR, &err, &len);
	}
	/* Tiny windows are slow: one session each. */
	if (s->server_lost || has(s, SSP_BIDIR) || s->down.fin || w->server.tiny)
		far_close(&w->server);
	if (s->client_lost || has(s, SSP_BIDIR) || w->client.tiny || !rnd(s, 50))
		far_close(&w->client);
	w->bytes += s->end.moved01 + s->end.moved10;
	return 0;
}

/* Only a part of the head fitted: nothing was spliced. */
static int session_refused(struct session *s, int err)
{
	if (err != -EAGAIN || s->req.data_done >= s->head)
		return wrong(s, "refused", -err, 0);
	s->head = s->req.data_done;
	s->end.moved01 = 0;
	s->req.flags = SSP_AUTORELEASE;
	if (check_client(s))
		return -1;
	far_close(&s->w->server);
	return 0;
}

static void session_is_slow(const struct session *s, long ms)
{
	printf("# session %llu took %ld ms: flags %x mishap %d at %llu, %llu bytes after %llu, %s%s\n",
	       (unsigned long long)s->w->number, ms, s->req.flags, s->mishap,
	       (unsigned long long)s->at, (unsigned long long)s->body, (unsigned long long)s->head,
	       s->w->server.tiny ? "tiny server " : "", s->w->client.tiny ? "tiny client" : "");
	fflush(stdout);
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int session_run(struct worker *w)
{
	struct session s = { .w = w };
	long begin = now_ms();
	int ret;

	w->number++;
	if (session_connect(&s))
		return wrong(&s, "connect", errno, 0);
	session_choose(&s);
	ret = session_start(&s);
	if (ret < 0)
		return session_refused(&s, ret);
	if (ret == SSP_DONE) {
		if (!session_ended(&s))
			return wrong(&s, "ended in the call", 0, 1);
	} else if (session_drive(&s)) {
		return -1;
	}
	if (check_cause(&s) || check_client(&s) || check_bidir(&s) || check_source(&s))
		return -1;
	if (now_ms() - begin > SLOW_MS)
		session_is_slow(&s, now_ms() - begin);
	return session_finish(&s);
}
