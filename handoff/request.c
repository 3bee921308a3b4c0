// SPDX-License-Identifier: GPL-2.0
/* Requests that lie unread in a socket: does one begin here, and where does it end? */

#include <linux/ctype.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <net/tcp.h>

#include "kmod/ktls_face.h"
#include "kmod/ktls_move.h"
#include "kmod/stack.h"

#include "request.h"

/* The first line of a request: longer ones wait for the next. */
#define HOF_LINE_MAX	4096
/* A method and what follows it. */
#define HOF_METHOD_MAX	20
/* Nor is it looked into more records than that. */
#define HOF_RECORDS_MAX	16

u32 hof_unread(const struct sock *sk, u32 offset, void *buf, u32 len)
{
	u32 from = tcp_sk(sk)->copied_seq + offset;
	struct sk_buff *skb;
	u32 done = 0;

	skb_queue_walk(&sk->sk_receive_queue, skb) {
		u32 skip = from + done - TCP_SKB_CB(skb)->seq;
		u32 part;

		if (skip >= skb->len)
			continue;
		part = min(skb->len - skip, len - done);
		if (skb_copy_bits(skb, skip, buf + done, part))
			break;
		done += part;
		if (done == len)
			break;
	}
	return done;
}

/* A token of capital letters and a space, or as much of that as there is. */
static bool hof_method_begins(const char *text, unsigned int len)
{
	unsigned int i;

	for (i = 0; i < min_t(unsigned int, len, HOF_METHOD_MAX); i++) {
		if (text[i] == ' ')
			return i >= 3;
		if (text[i] < 'A' || text[i] > 'Z')
			return false;
	}
	return false;
}

/* Of a field's name; what else there is in some names is not known to all servers. */
static bool hof_is_token(char c)
{
	return (isascii(c) && isalnum(c)) || c == '-' || c == '_';
}

/*
 * "Name: value\r" up to @end, in a way that all servers read alike. Return: the length of the name,
 * or 0.
 */
static size_t hof_field_name(const char *line, const char *end)
{
	const char *at = line;
	size_t len;

	while (at < end && hof_is_token(*at))
		at++;
	len = at - line;
	if (at == end || *at != ':')
		return 0;
	for (; at < end - 1; at++)
		if (iscntrl(*at) && *at != '\t')
			return 0;
	return len;
}

/* @name is a constant: its length costs nothing. */
static __always_inline bool hof_name_is(const char *line, size_t len, const char *name)
{
	return len == strlen(name) && !strncasecmp(line, name, len);
}

/* "123\r" up to @end. */
static bool hof_body_length(const char *at, const char *end, u32 *length)
{
	u32 n = 0;

	while (at < end && *at == ' ')
		at++;
	if (at == end || *at == '\r')
		return false;
	for (; at < end && *at != '\r'; at++) {
		if (*at < '0' || *at > '9' || n > S32_MAX / 20)
			return false;
		n = 10 * n + *at - '0';
	}
	*length = n;
	return true;
}

/* A method without a body unless the header says so, or with one if it does. */
static bool hof_line_is_clear(const char *line, const char *end, bool *wants_body)
{
#define HOF_METHOD(name, body) { name " ", sizeof(name " ") - 1, body }
	static const struct {
		const char *name;
		u8 len;
		bool body;
	} known[] = {
		HOF_METHOD("GET", false), HOF_METHOD("HEAD", false), HOF_METHOD("OPTIONS", false),
		HOF_METHOD("DELETE", false), HOF_METHOD("POST", true), HOF_METHOD("PUT", true),
		HOF_METHOD("PATCH", true),
	};
#undef HOF_METHOD
	static const char version[] = " HTTP/1.";
	size_t len = end - line, i;

	for (i = 0; i + 1 < len; i++)
		if (iscntrl(line[i]))
			return false;
	/* " HTTP/1.1\r" */
	if (len < sizeof(version) + 1 ||
	    memcmp(end - sizeof(version) - 1, version, sizeof(version) - 1) || !isdigit(end[-2]))
		return false;
	for (i = 0; i < ARRAY_SIZE(known); i++) {
		*wants_body = known[i].body;
		if (len > known[i].len && !memcmp(line, known[i].name, known[i].len))
			return true;
	}
	return false;
}

/* Does what follows the header depend on more than a length? */
static bool hof_field_is_unclear(const char *line, size_t len)
{
	return hof_name_is(line, len, "transfer-encoding") || hof_name_is(line, len, "expect") ||
	       hof_name_is(line, len, "upgrade");
}

/* The request whose header begins with @text: is its end known, with its body? */
static enum hof_request hof_request_ends(const char *text, unsigned int len, u32 *length)
{
	const char *line = text, *end = text + len, *next;
	bool has_body = false, wants_body;
	u32 body = 0;
	size_t name;

	for (; (next = memchr(line, '\n', end - line)); line = next + 1) {
		if (next == line || next[-1] != '\r')
			return HOF_REQUEST_UNCLEAR;
		if (line == text) {
			if (!hof_line_is_clear(line, next, &wants_body))
				return HOF_REQUEST_UNCLEAR;
			continue;
		}
		if (next == line + 1) {
			if (wants_body && !has_body)
				return HOF_REQUEST_UNCLEAR;
			*length = next + 1 - text + body;
			return HOF_REQUEST_WHOLE;
		}
		name = hof_field_name(line, next);
		if (!name || hof_field_is_unclear(line, name))
			return HOF_REQUEST_UNCLEAR;
		if (hof_name_is(line, name, "content-length")) {
			if (has_body || !hof_body_length(line + name + 1, next, &body))
				return HOF_REQUEST_UNCLEAR;
			has_body = true;
		}
	}
	return len < HOF_LINE_MAX ? HOF_REQUEST_PART : HOF_REQUEST_UNCLEAR;
}

bool hof_request_may_be_whole(unsigned int len)
{
	return len && len < HOF_LINE_MAX;
}

bool hof_request_is_whole(const char *text, unsigned int len)
{
	u32 length;

	return hof_request_may_be_whole(len) &&
	       hof_request_ends(text, len, &length) == HOF_REQUEST_WHOLE && length == len;
}

/* A method is there. */
static enum hof_request hof_request_begins(const char *text, unsigned int len, u32 *length)
{
	const char *end = memchr(text, '\n', len);

	if (end && strnstr(text, " HTTP/1.", end - text))
		return hof_request_ends(text, len, length);
	return HOF_REQUEST_NONE;
}

enum hof_request hof_request_look(const struct sock *sk, gfp_t gfp, u32 *length)
{
	enum hof_request what = HOF_REQUEST_NONE;
	char method[HOF_METHOD_MAX];
	char *text;

	*length = 0;
	if (!hof_method_begins(method, hof_unread(sk, 0, method, sizeof(method))))
		return what;
	text = kmalloc(HOF_LINE_MAX, gfp);
	if (!text)
		return what;
	what = hof_request_begins(text, hof_unread(sk, 0, text, HOF_LINE_MAX), length);
	kfree(text);
	return what;
}

/*
 * Those that begin with the @end-th of @len bytes, of which @text has the first. @end: behind the
 * last that is whole, with its body.
 */
static enum hof_request hof_requests_end(const char *text, u32 len, u32 *end)
{
	enum hof_request what = HOF_REQUEST_WHOLE;
	u32 there = min(len, HOF_LINE_MAX), length;

	while (what == HOF_REQUEST_WHOLE && *end < len) {
		if (*end >= there)
			return HOF_REQUEST_UNCLEAR;
		if (!hof_method_begins(text + *end, there - *end))
			return *end ? HOF_REQUEST_UNCLEAR : HOF_REQUEST_NONE;
		length = 0;
		what = hof_request_begins(text + *end, there - *end, &length);
		*end += length;
	}
	return what;
}

/* One record after the other, until one ends where a request does. */
static enum hof_request hof_request_in_records(struct sock *sk, char *text, u32 *next)
{
	enum hof_request what = HOF_REQUEST_NONE;
	struct flt_ktls_pos pos = {};
	u32 len = 0, end = 0, got, kept;

	while (what != HOF_REQUEST_UNCLEAR && pos.nr < HOF_RECORDS_MAX) {
		kept = min(len, HOF_LINE_MAX);
		if (!flt_ktls_look(sk, &pos, text + kept, HOF_LINE_MAX - kept, &got))
			break;
		len += got;
		what = hof_requests_end(text, len, &end);
		if (what == HOF_REQUEST_NONE && !hof_method_begins(text, min(len, HOF_LINE_MAX)))
			break;
		if (what == HOF_REQUEST_WHOLE && end == len) {
			*next = tcp_sk(sk)->copied_seq + pos.at;
			return what;
		}
	}
	/* Where a body ends that is not there cannot be said by numbers of TCP's. */
	return what == HOF_REQUEST_WHOLE ? HOF_REQUEST_UNCLEAR : what;
}

enum hof_request hof_request_next(struct sock *sk, u32 *next)
{
	enum hof_request what;
	char *text;
	u32 length;

	if (!flt_ktls_is_ours(sk)) {
		what = hof_request_look(sk, GFP_KERNEL, &length);
		*next = tcp_sk(sk)->copied_seq + length;
		return what;
	}
	*next = tcp_sk(sk)->copied_seq;
	text = kmalloc(HOF_LINE_MAX, GFP_KERNEL);
	if (!text)
		return HOF_REQUEST_NONE;
	what = hof_request_in_records(sk, text, next);
	kfree_sensitive(text);
	return what;
}

bool hof_sock_is_new(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return !tp->bytes_sent && tp->write_seq == tp->snd_una &&
	       tp->bytes_received == tp->rcv_nxt - tp->copied_seq;
}

static DEFINE_PER_CPU(bool, hof_tells_unlocked);

bool hof_sock_told_unlocked(void)
{
	return this_cpu_read(hof_tells_unlocked);
}

void hof_sock_tell(struct sock *sk, bool locked)
{
	void (*data_ready)(struct sock *sk);

	local_bh_disable();
	rcu_read_lock();
	this_cpu_write(hof_tells_unlocked, !locked);
	data_ready = flt_sock_data_ready(sk);
	data_ready(sk);
	this_cpu_write(hof_tells_unlocked, false);
	rcu_read_unlock();
	local_bh_enable();
}
