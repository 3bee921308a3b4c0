/* SPDX-License-Identifier: GPL-2.0 */
/* A client's connection: from accept to close, through any number of requests. */
#ifndef FLASH_CONN_H
#define FLASH_CONN_H

#include <netinet/in.h>

#include "lard/http2/client_stream.h"
#include "request.h"
#include "worker.h"

struct app_run;
struct body;
struct client_stream;
struct http2;
struct response;
struct tls_session;

enum conn_state {
	CONN_SHAKE,	/* for a TLS handshake */
	CONN_READ,	/* for a request head, or idle */
	CONN_LOOKUP,	/* for a helper to look a name up; the head is kept in @in */
	CONN_SEND,	/* for room in the socket, or for a helper's read */
	CONN_BODY,	/* for the rest of a request body */
	CONN_APP,	/* for a program */
	CONN_LINGER,	/* response sent, write side closed: the client's rest is thrown away */
	CONN_HTTP2,	/* for frames, or its streams */
	CONN_BACK,	/* for the node that may take the connection with its next request */
};

/* What became of a request. */
enum verdict {
	SERVED,		/* the whole response is in the kernel's hands */
	BLOCKED,	/* the request is used up, the response is on its way */
	WAIT,		/* nothing happened yet: offer the same request again */
	BODY,		/* the head is used up, now the body */
	CLOSE,		/* the response, if any, is sent: the connection ends */
	LINGER,		/* the same, but the client may still be sending */
};

/**
 * struct conn
 * @in:      what has been received and not used up; NULL for an idle connection
 * @scanned: bytes of @in in which no end of a head was found
 * @partial: @in holds the beginning of a head, and more must be read; or a header of a stream has begun
 * @path:    entry that a look-up has just found for the request at the start of @in
 * @http2:   in CONN_HTTP2
 * @waits:   enum http2_wait, of that
 * @place:   likewise, for http2.c
 * @stands:  likewise, its client does not take what there is
 * @in_http2: likewise, its frames are being read or its streams run: it must not be closed
 * @dropped: likewise, it makes room when that is over
 * @stream:  it is one, of a connection with HTTP/2
 * @kept_at: value of @requests at which the connection was offered to another node, in vain;
 *	     UINT32_MAX: never offer it again
 *
 * One thread, that of its worker's loop.
 */
struct conn {
	struct watch watch;
	struct grave grave;
	struct list node;		/* worker's conns */
	struct list rest;		/* worker's idle, slow, bodies, answers, sending or shakes */
	struct list turn;		/* worker's turns */
	int64_t taken;			/* bytes of the answer: on sending; or lately */
	uint64_t since;			/* ms: on one of them but idle */
	struct timer timer;
	struct waiter waiter;
	struct worker *w;
	enum conn_state state;
	uint8_t door;			/* enum config_door that it came through */
	struct tls_session *tls;	/* NULL: in clear text, or a stream */
	struct http2 *http2;
	struct client_stream *stream;
	uint8_t waits, place;
	bool offers_http2, stands, in_http2, dropped;
	bool can_read, peer_done;	/* there may be more; FIN has been seen */
	bool partial, corked, close, linger;
	bool unsaid;			/* lingers, but that it is over could not be said yet */
	uint16_t status;		/* of the response under way, for the log */
	uint32_t requests, kept_at;
	uint8_t offers;			/* of the request that is there, to another node */
	char *in;
	uint32_t in_off, in_len, in_cap, scanned;
	struct path *path;
	struct response *response;
	struct app_run *app;
	struct body *body;		/* request body being collected */
	size_t body_held;		/* memory it takes, see hold.h */
	char peer[INET6_ADDRSTRLEN];	/* conn_address() */
};

/* Accepting, accept.c */
int conn_accept_init(struct worker *w, const struct listeners *ls);
void conn_accept_exit(struct worker *w);
int conn_accepting(struct worker *w, bool on);

struct conn *conn_new(struct worker *w, int fd, unsigned int door);
/* Reads at once: the request may have come with the connection. */
void conn_start(struct conn *c);
/* The handshake is over. */
void conn_begin(struct conn *c);
/* It had more than its turn was for. */
void conn_go_on(struct conn *c);
/* Ends the sending side and waits a little, so that a RST does not overtake what was sent. */
void conn_linger(struct conn *c);
/* Nothing of a request is there: the connection may go when others need its place. */
void conn_set_idle(struct conn *c);
/* As send(2) with MSG_NOSIGNAL, through TLS or a stream where that is. @more: as MSG_MORE. */
ssize_t conn_send(struct conn *c, const void *p, size_t len, bool more);
void conn_resume_send(struct conn *c);

/* The worker is to end: idle connections close, busy ones after their response. */
void conn_drain(struct worker *w);
void conn_close(struct conn *c);
/* No other node took it: its next request is served here. */
void conn_take_back(struct conn *c);

/* A response that had to wait is complete (or, not @ok, cannot be completed). */
void conn_response_done(struct conn *c, bool ok);

/* Moves the deadline of the present state; disks and helpers may take as long as they like. */
#define CONN_NEVER 0xffffffff
void conn_deadline(struct conn *c, unsigned int seconds);

/* Watches the socket from now on; cheap when it already does. */
void conn_arm(struct conn *c);

/* Not in clear text. */
static inline bool conn_is_secure(const struct conn *c)
{
	return c->tls || c->stream;
}

/* The descriptor of its connection; -1: that is gone. */
static inline int conn_socket(const struct conn *c)
{
	return c->stream ? c->stream->ops->socket(c->stream) : c->watch.fd;
}

/* Client's address as text, as long as the connection lives. */
const char *conn_address(struct conn *c);

#endif
