/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Programs that answer requests: what CGI and FastCGI have in common. The request body is
 * collected first, then the program gets it, then what the program says goes to the client as it
 * comes, at the client's pace.
 */
#ifndef FLASH_APP_H
#define FLASH_APP_H

#include "conn.h"
#include "tx.h"

struct app_run;

/* One way to reach a program. */
struct app_ops {
	/* 0, or minus an HTTP status. */
	int (*start)(struct app_run *run);
	/* The client has taken what there was: read on. */
	void (*resume)(struct app_run *run);
	/* Let go of the program; app_run_free() now or later. */
	void (*release)(struct app_run *run);
};

/**
 * struct app_run - one request at a program
 * @c:     NULL once the client is gone
 * @env:   "NAME=VALUE" strings, each with its NUL; @nr_env of them
 * @head:  header lines of the program, until the empty one
 * @tx:    for the client; by reference with transfer iolite
 * @memory: bytes that are counted, see hold.h: of @env, and as many as @tx has or may come to have
 * @taken: bytes the client took since it was last seen not to stand still
 * @dropped: what waited for the client has made room for others; the connection ends
 * @sending: some of it is being sent: it is still read
 * @left:  bytes of a promised Content-Length still to come
 * @full:  the client is slow: the program's output is not read
 * @safe:  asked for twice it does no harm
 * @moved: there was some of the answer, or the client took some: the time-out begins anew
 * @held:  more output follows at once: nothing is sent yet
 * @request: copy of what the log wants, when there is a log
 * @sent:  bytes of body, for the log
 * @body_since: ms, when the request's body began
 * @wait:  among those that wait for a connection to the program
 * @priv:  of @ops
 */
struct app_run {
	struct conn *c;
	struct worker *w;
	const struct app *app;
	const struct app_ops *ops;
	void *priv;
	struct list wait;
	uint64_t body_since;
	char *script;			/* file of the program or its script */
	char *env;
	size_t env_len, env_cap;
	unsigned int nr_env;
	char *head;
	size_t head_len;
	struct tx tx;
	uint64_t left, sent;
	size_t memory, taken;
	struct request *request;
	int status;
	bool is_head, head_done, chunked, has_length, no_body, http10, done, full, held, close, safe,
	     moved, dropped, sending;
};

extern const struct app_ops cgi_ops, fcgi_ops;

/* Begins a request to the program of @p. BODY when its body has to be collected first. */
enum verdict app_begin(struct conn *c, const struct request *req, const struct path *p, bool more);

/* Bytes of a request body. BODY: more is needed; otherwise what became of the request. */
enum verdict app_body(struct conn *c, char *buf, size_t len);

/* Its body makes room for others: 503 in the next turn of the loop. */
void app_body_drop(struct conn *c);
/* The same of what the client does not take; then the connection ends. */
void app_answer_drop(struct conn *c);
/* It is used, or no longer wanted. */
void app_body_free(struct conn *c);

/* The client's socket has room, or has closed its side. */
void app_client_ready(struct conn *c, uint32_t events);
/* Nothing came from the program for too long. */
void app_expired(struct conn *c);
/* An answer that only the connection's end delimits has begun: an ordinary end would make it whole. */
bool app_is_cut(const struct conn *c);
/* All that the client is to have is with its stream: only the program's end is waited for. */
bool app_is_sent(const struct conn *c);
/* The client is gone. */
void app_abort(struct conn *c);

/*
 * For the ops. app_output() takes bytes of the program's answer, app_finish() its end, or with
 * @status above 0 the failure to answer. The run may be gone when they return: -1 says so.
 */
int app_output(struct app_run *run, const char *p, size_t len);
/* How much of up to @want bytes there may be; 0: none before the client takes what there is. */
size_t app_room(struct app_run *run, size_t want);
int app_output_agg(struct app_run *run, struct IOL_Agg *agg, size_t start, size_t len);
int app_finish(struct app_run *run, int status);
/* Of app_output(): as many bytes of them as are of the header; -1: the run is gone. */
ssize_t app_head_take(struct app_run *run, const char *p, size_t len);
/* Behind what waits for the client; -1: there is no room. */
int app_put(struct app_run *run, const char *p, size_t len);
/* Between these app_output() keeps what it is given, app_finish() sends all; as to the run, as they do. */
void app_hold(struct app_run *run);
int app_let_go(struct app_run *run);
void app_run_free(struct app_run *run);
int app_env(struct app_run *run, const char *name, const char *value, size_t len);
/* All variables of a request. 0, or minus an HTTP status. */
int app_env_build(struct app_run *run, const struct request *req, const struct path *p);

/* With transfer iolite a program's answer is read as aggregates: bytes, 0 at the end, -1 and errno. */
ssize_t app_read_agg(int fd, struct IOL_Agg **agg);

/* Of a program in a turn of the loop: what it says may be thrown away as fast as it comes. */
#define APP_READS 16

static inline bool app_lite(const struct worker *w)
{
	return w->conf->transfer == TRANSFER_IOLITE;
}

/* Before the helpers end: no other process is started. */
void fcgi_stop(struct worker *w);
/* End of the worker: idle connections and started programs. */
void fcgi_exit(struct worker *w);

#endif
