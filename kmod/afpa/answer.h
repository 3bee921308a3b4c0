/* SPDX-License-Identifier: GPL-2.0 */
/* An answer on its way into a connection. */
#ifndef AFPA_ANSWER_H
#define AFPA_ANSWER_H

#include <net/sock.h>

#include "object.h"

/**
 * struct afpa_answer - header of this answer, header and body of the object, or of several
 * @obj:      with a reference; NULL: there is no answer under way
 * @more:     objects after it, in memory of the connection's protocol; with references
 * @nr_more:  of @more
 * @text:     of this answer; not with @more
 * @text_len: bytes
 * @parked:   @text has a reference on its page
 * @closes:   the connection ends with it
 * @files:    some of it are pages of files, so that it is over when it has been acknowledged: from
 *	      then on somebody may write to them
 * @base:     where @obj begins, of all bytes
 * @pos:      bytes that TCP has taken
 * @end:      bytes of all
 *
 * Under the socket's lock; @obj is looked at without.
 */
struct afpa_answer {
	struct afpa_object *obj;
	struct afpa_object **more;
	unsigned int nr_more;
	void *text;
	u32 text_len;
	bool parked;
	bool closes;
	bool files;
	u64 base;
	u64 pos;
	u64 end;
};

/*
 * The caller's reference on @obj is the answer's now: header, body and tail of it. Bottom halves
 * off until afpa_answer_park() or afpa_answer_end().
 */
void afpa_answer_begin(struct afpa_answer *ans, struct afpa_object *obj);
/* @nr more objects come behind it, whose references are the answer's now, too. */
void afpa_answer_add(struct afpa_answer *ans, struct afpa_object **more, unsigned int nr);
/* Bytes of the bodies in it, before any was sent. */
u64 afpa_answer_body(const struct afpa_answer *ans);
/* It goes on later. */
void afpa_answer_park(struct afpa_answer *ans);
void afpa_answer_end(struct afpa_answer *ans);

/**
 * afpa_answer_send() - bytes of the answer go to TCP
 * @ans: answer
 * @sk:  locked, and accepted: TCP looks at the struct socket where it finds no memory
 * @all: regardless of how much is queued already; else at most AFPA_CHUNK bytes
 *
 * Return: 1: that was all; 0: the rest has to wait, or all of it for its acknowledgment (@files);
 * -EAGAIN: there is no memory either, so that it is not sure that an acknowledgment comes;
 * -ENODATA: what comes next has to be read first (afpa_answer_wants()); another negative errno: the
 * connection cannot send.
 */
int afpa_answer_send(struct afpa_answer *ans, struct sock *sk, bool all);

/* TCP has all of it. */
static inline bool afpa_answer_is_sent(const struct afpa_answer *ans)
{
	return ans->pos == ans->end;
}

/* Where in the file of @obj it goes on. */
u64 afpa_answer_wants(const struct afpa_answer *ans);

#endif
