// SPDX-License-Identifier: GPL-2.0
/* HTTP, the protocol that is built in: request.c takes requests apart. */

#include <linux/ctype.h>
#include <net/inet_sock.h>
#include <flotilla/afpa.h>

#include "cache.h"
#include "conn.h"
#include "counter.h"
#include "protocol.h"
#include "request.h"
#include "site.h"
#include "text.h"
#include "trace.h"

enum {
	HTTP_REQUEST,
	HTTP_CACHED,
	HTTP_SEND,
	HTTP_STATES
};

static_assert(AFPA_STAT_DEFERRED_LARGE - AFPA_STAT_DEFERRED_METHOD ==
	      AFPA_WHY_LARGE - AFPA_WHY_METHOD && AFPA_WHY_LARGE + 1 == AFPA_WHY_END);

static enum afpa_result http_refuse(struct afpa_turn *turn)
{
	const struct afpa_request *req = turn->request;

	trace_afpa_deferred(turn->sk, req->why);
	afpa_count(turn->conn->place->an, AFPA_STAT_DEFERRED_METHOD + req->why - AFPA_WHY_METHOD);
	return AFPA_FOREIGN;
}

/* "Derive Request" */
enum afpa_result afpa_http_request(struct afpa_turn *turn)
{
	int len = afpa_request_parse(turn->bytes, turn->len, turn->request);

	if (len < 0)
		return http_refuse(turn);
	turn->used = len;
	return len ? AFPA_OK : AFPA_MORE;
}

static struct afpa_object *http_find(struct afpa_turn *turn)
{
	const struct afpa_request *req = turn->request;
	char *bytes = turn->bytes;
	struct afpa_key_ref key = {
		.host_len = req->host_len,
		.path_len = req->path_len,
		.host = bytes + req->host_at,
		.path = bytes + req->path_at,
	};
	u32 i;

	/* Another authority than ours: a proxy may stand behind. */
	if (req->port && req->port != inet_sk(turn->sk)->inet_num) {
		trace_afpa_request(turn->sk, key.path, key.path_len, NULL);
		return NULL;
	}
	for (i = 0; i < key.host_len; i++)
		bytes[req->host_at + i] = tolower(bytes[req->host_at + i]);
	return afpa_turn_find(turn, &key);
}

/* The part of the header that differs, and what of the object is sent. */
static bool http_answer(struct afpa_turn *turn, struct afpa_object *obj)
{
	const struct afpa_request *req = turn->request;
	enum afpa_text_kind kind = AFPA_TEXT_CLOSED;
	struct afpa_answer *ans = turn->answer;
	unsigned int len;
	void *text;

	if (req->keep_alive)
		kind = req->minor ? AFPA_TEXT_KEPT : AFPA_TEXT_KEPT_OLD;
	text = obj->aged ? afpa_text_aged(kind, afpa_object_age(obj), &len) :
			   afpa_text_get(kind, &len);
	if (!text)
		return false;
	afpa_answer_begin(ans, obj);
	ans->text = text;
	ans->text_len = len;
	ans->parked = obj->aged;	/* it has the reference that it was made with */
	ans->closes = !req->keep_alive;
	ans->end += len;
	if (req->method == AFPA_METHOD_HEAD) {
		ans->end -= obj->body_len;
		afpa_count(turn->conn->place->an, AFPA_STAT_HEADS);
	}
	return true;
}

/* "Derive Cached Response" */
enum afpa_result afpa_http_cached(struct afpa_turn *turn)
{
	struct afpa_object *obj = http_find(turn);

	if (!obj)
		return AFPA_MISS;
	if (http_answer(turn, obj))
		return AFPA_HIT;
	afpa_object_put(obj);
	afpa_count(turn->conn->place->an, AFPA_STAT_NO_MEMORY);
	return AFPA_FAILED;
}

static const struct afpa_state http_states[] = {
	[HTTP_REQUEST] = { "request", afpa_http_request },
	[HTTP_CACHED] = { "cached", afpa_http_cached },
	[HTTP_SEND] = { "send", afpa_act_send },
};

static const u8 http_next[][AFPA_RESULTS] = {
	[HTTP_REQUEST] = {
		[AFPA_OK] = HTTP_CACHED,
		[AFPA_MORE] = AFPA_AWAIT,
		[AFPA_FOREIGN] = AFPA_LEAVE,
	},
	[HTTP_CACHED] = {
		[AFPA_HIT] = HTTP_SEND,
		[AFPA_MISS] = AFPA_LEAVE,
		[AFPA_FAILED] = AFPA_LEAVE,
	},
	[HTTP_SEND] = {
		[AFPA_SENT] = AFPA_NEXT,
		[AFPA_PENDING] = AFPA_AWAIT,
		[AFPA_FAILED] = AFPA_LEAVE,
	},
};

/* --- objects --- */

static bool http_key_is_sound(const struct afpa_key_ref *key)
{
	return afpa_path_is_sound(key->path, key->path_len);
}

/* Fields that are ours to set, or that would make another answer of it. */
static bool http_field_is_ours(const char *name, size_t len)
{
	static const char *const ours[] = { "content-length", "content-type", "connection", "date",
					    "keep-alive", "transfer-encoding", "trailer",
					    "upgrade" };
	int i;

	for (i = 0; i < ARRAY_SIZE(ours); i++)
		if (strlen(ours[i]) == len && !strncasecmp(ours[i], name, len))
			return true;
	return false;
}

static bool http_is_printable(const char *text, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		if ((u8)text[i] < ' ' || text[i] == 0x7f)
			return false;
	return true;
}

/* Lines of "Name: value" and CR LF; a second answer cannot hide in it. @aged: nor a second Age. */
static bool http_headers_are_sound(const char *text, size_t len, bool aged)
{
	while (len) {
		const char *end = memchr(text, '\r', len), *colon;
		size_t line = end ? end - text : len;

		colon = memchr(text, ':', line);
		if (!colon || colon == text || line + 2 > len || text[line + 1] != '\n' ||
		    !http_is_printable(text, line) ||
		    afpa_name_length(text, line) != colon - text ||
		    http_field_is_ours(text, colon - text) ||
		    (aged && colon - text == 3 && !strncasecmp(text, "age", 3)))
			return false;
		text += line + 2;
		len -= line + 2;
	}
	return true;
}

static int http_make_head(const struct afpa_recipe *r, char *head, size_t room)
{
	int len;

	if (!http_headers_are_sound(r->headers, r->headers_len, r->aged))
		return -EINVAL;
	len = scnprintf(head, room, "Content-Length: %llu\r\n", r->body_len);
	if (r->type_len)
		len += scnprintf(head + len, room - len, "Content-Type: %.*s\r\n", r->type_len,
				 r->type);
	return len + scnprintf(head + len, room - len, "%.*s\r\n", r->headers_len, r->headers);
}

struct afpa_protocol afpa_http = {
	.name = "http",
	.request_size = AFPA_DATA_SIZE(struct afpa_request),
	.nr_states = HTTP_STATES,
	.states = http_states,
	.next = http_next,
	.key_is_sound = http_key_is_sound,
	.make_head = http_make_head,
};
