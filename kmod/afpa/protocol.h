/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the bytes of a site's connections mean. HTTP is built in (http.c); others are modules of
 * their own, as memcached.c, which need this header and nothing else of the room.
 *
 * A protocol is states and a table. A state's function does its part for one request and says how
 * it went; the table alone says what comes next. So a function can be used by several protocols,
 * and another table makes another server of the same functions.
 *
 *	static const u8 next[][AFPA_RESULTS] = {
 *		[REQUEST] = { [AFPA_OK] = CACHED, [AFPA_MORE] = AFPA_AWAIT },
 *		[CACHED] = { [AFPA_HIT] = SEND, [AFPA_MISS] = AFPA_LEAVE },
 *		[SEND] = { [AFPA_SENT] = AFPA_NEXT, [AFPA_PENDING] = AFPA_AWAIT },
 *	};
 *
 * Global data of a protocol are its module's variables. Data of a connection and of a request are
 * the engine's to allocate: it gives them zeroed, a request's anew for each one.
 *
 * Lifetime: a site holds its protocol's module as long as a connection of it is there, so that
 * rmmod says EBUSY; "flotilla afpa site del" ends that. Objects outlive their protocol.
 */
#ifndef AFPA_PROTOCOL_H
#define AFPA_PROTOCOL_H

#include <linux/list.h>
#include <linux/types.h>

#include "object.h"

struct afpa_answer;
struct afpa_conn;
struct module;
struct sock;

#define AFPA_PROTOCOL_DATA	256	/* bytes of a connection's and a request's data together */
#define AFPA_PROTOCOL_STATES	16

/**
 * enum afpa_result - what a state's function says
 * @AFPA_OK:      a request has come as a whole
 * @AFPA_MORE:    it may become one: bytes are missing; with AFPA_REQUEST_MAX bytes it is foreign
 * @AFPA_FOREIGN: it is not for the cache
 * @AFPA_HIT:     there is an answer
 * @AFPA_MISS:    there is none
 * @AFPA_SENT:    TCP has all of the answer
 * @AFPA_PENDING: the rest of it has to wait
 * @AFPA_FAILED:  no memory, or the connection cannot send
 */
enum afpa_result {
	AFPA_OK,
	AFPA_MORE,
	AFPA_FOREIGN,
	AFPA_HIT,
	AFPA_MISS,
	AFPA_SENT,
	AFPA_PENDING,
	AFPA_FAILED,
	AFPA_RESULTS
};

/**
 * enum afpa_step - what a table may say besides a state; 0, as no state goes back to the first one
 * by itself, is AFPA_LEAVE
 * @AFPA_NEXT:  the next request, in the first state; this one was answered by afpa_act_send(), or
 *	       it is a mistake, which the log tells of, and AFPA_LEAVE
 * @AFPA_AWAIT: when something has happened (bytes, room, a work item) this state again if an answer
 *	       is under way; else the first one, with the request's data as they are
 * @AFPA_LEAVE: the connection is the server's, with all bytes that were not taken out
 */
enum afpa_step {
	AFPA_NEXT = 0xf0,
	AFPA_AWAIT,
	AFPA_LEAVE,
};

/**
 * struct afpa_turn - what a state's function is given
 * @conn:    the engine's
 * @sk:      the connection, locked
 * @answer:  the engine's; begun by afpa_turn_answer()
 * @data:    the protocol's of the connection
 * @request: the protocol's of the request
 * @bytes:   a copy of what has come, from the request's first byte on; may be written to, and may
 *	     be elsewhere, and longer, the next time
 * @len:     bytes there, at most AFPA_REQUEST_MAX
 * @used:    out, with AFPA_OK: bytes of the request, of @len
 * @where:   enum afpa_where
 * @result:  of the last function
 * @lacks:   the engine's: an object that afpa_turn_find() has found and that is not in memory
 * @reads:   the same: it is being read
 */
struct afpa_turn {
	struct afpa_conn *conn;
	struct sock *sk;
	struct afpa_answer *answer;
	void *data;
	void *request;
	char *bytes;
	u32 len;
	u32 used;
	u8 where;
	u8 result;
	struct afpa_object *lacks;
	bool reads;
};

/**
 * struct afpa_state - one of a protocol's states
 * @name: for people
 * @act:  its function
 *
 * Context of @act: the socket's lock, rcu_read_lock(), bottom halves off; in softirq, in accept(2)
 * or in a work item. It must not sleep, nor take anything from the socket's queues.
 */
struct afpa_state {
	const char *name;
	enum afpa_result (*act)(struct afpa_turn *turn);
};

/**
 * struct afpa_protocol - what is registered
 * @list:         the registry's
 * @name:         lower-case letters and digits, less than AFPA_PROTOCOL_NAME of them
 * @owner:        module, which sites hold; NULL: this one, which needs no holding
 * @data_size:    bytes for a connection, a multiple of 8
 * @request_size: bytes for a request, a multiple of 8; both together at most AFPA_PROTOCOL_DATA
 * @nr_states:    at most AFPA_PROTOCOL_STATES
 * @states:       the first one is that of a request which begins
 * @next:         for each state, by enum afpa_result: a state but the first, or enum afpa_step
 * @tail:         bytes behind the body of each object, or NULL
 * @tail_len:     of @tail
 * @tail_last:    of these, those that only the last object of an answer has
 * @key_is_sound: could a request ask for this? Process context, may sleep. The host is "*" or sound
 * @make_head:    writes what is before the body of an object; -EINVAL: the recipe has what the
 *		  protocol has no place for. At most @room bytes. Process context, may sleep
 *
 * Constant but for @list, which is under the registry's mutex, a leaf. What its module exports may
 * be called until afpa_protocol_unregister().
 */
struct afpa_protocol {
	struct list_head list;
	const char *name;
	struct module *owner;
	u16 data_size;
	u16 request_size;
	u8 nr_states;
	const struct afpa_state *states;
	const u8 (*next)[AFPA_RESULTS];
	const char *tail;
	u8 tail_len;
	u8 tail_last;
	bool (*key_is_sound)(const struct afpa_key_ref *key);
	int (*make_head)(const struct afpa_recipe *recipe, char *head, size_t room);
};

/* So much of a protocol's data is a @type. */
#define AFPA_DATA_SIZE(type)	ALIGN(sizeof(type), sizeof(u64))

/**
 * afpa_protocol_register() - sites may have this protocol from now on
 * @protocol: stays as it is until afpa_protocol_unregister()
 *
 * The last thing in a module's init, as what may fail behind it frees what sites hold.
 *
 * Context: process; may sleep.
 * Return: 0; -EBUSY: the name is taken (not -EEXIST: from a module's init, modprobe takes that for
 * success); -EINVAL: a name, size or table that breaks the rules, or a state without a row.
 */
int afpa_protocol_register(struct afpa_protocol *protocol);

/**
 * afpa_protocol_unregister() - from a module's exit
 * @protocol: no site has it, as each one holds the module
 *
 * Context: process; may sleep.
 */
void afpa_protocol_unregister(struct afpa_protocol *protocol);

/**
 * afpa_turn_find() - the object for a request
 * @turn: of the function
 * @key:  but for the site, which is the turn's
 *
 * Context: as struct afpa_state.
 * Return: with a reference, which afpa_turn_answer() or afpa_object_put() takes; NULL, also for a
 * file that is not in memory: the function returns AFPA_MISS, and perhaps sees the request again.
 */
struct afpa_object *afpa_turn_find(struct afpa_turn *turn, struct afpa_key_ref *key);

/**
 * afpa_turn_answer() - the request's answer is this
 * @turn: of the function, which returns AFPA_HIT
 * @objs: one after the other; the references are the answer's from here on, and the array must
 *	  stay: in @turn->data, unless it is one
 * @nr:   of @objs, at least 1
 *
 * Context: as struct afpa_state.
 */
void afpa_turn_answer(struct afpa_turn *turn, struct afpa_object **objs, unsigned int nr);

/**
 * afpa_act_send() - a state for all protocols: the answer goes to TCP, and the request is taken out
 * @turn: with an answer
 *
 * Chunks, their order and the end of a connection are its business; counters and the log, too.
 *
 * Return: AFPA_SENT, AFPA_PENDING, AFPA_FAILED.
 */
enum afpa_result afpa_act_send(struct afpa_turn *turn);

/* For this module: by name, with a reference on its owner; ERR_PTR(-EPROTONOSUPPORT). May sleep. */
const struct afpa_protocol *afpa_protocol_get(const char *name);
/* Any context. */
void afpa_protocol_hold(const struct afpa_protocol *protocol);
void afpa_protocol_put(const struct afpa_protocol *protocol);

extern struct afpa_protocol afpa_http;
enum afpa_result afpa_http_request(struct afpa_turn *turn);
enum afpa_result afpa_http_cached(struct afpa_turn *turn);

#endif
