// SPDX-License-Identifier: GPL-2.0
/* A proxied request and the cache. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "cache.h"
#include "cache_key.h"
#include "cacheable.h"
#include "caching.h"
#include "client.h"
#include "conn.h"
#include "dispatch.h"
#include "exchange.h"
#include "fetch.h"
#include "refresh.h"
#include "renew.h"
#include "request.h"
#include "response.h"
#include "worker.h"

#define FIELDS_MOST	(HEADER_SIZE - 512)	/* of a kept answer; the rest is for what we write */
#define ROOM_FIRST	8192	/* for a body whose length is not known, beside what is here */
#define RETRY_US	1000000			/* back-ends that have failed are left in peace, where something stale will do */
#define CHECK_US	86400000000	/* what can be asked for by condition stays for so long, if there is room */
#define FUTILE_US	120000000		/* what is not kept is not waited for; as Varnish's hit-for-miss */
#define PERSONAL	0x9e3779b97f4a7c15ULL	/* who shows a cookie gets other answers */

static struct cache *cache_of(const struct conn *conn)
{
	return conn->worker->lardd->cache;
}

/* As with a password: what was made for a certificate is for nobody else, unless the back-end says so. */
static enum cache_use use_of(const struct conn *conn, const struct request *r, bool *personal)
{
	enum cache_use use = cacheable_request(r, personal);

	*personal |= client_identity(conn) != NULL;
	return use != CACHE_CLEAR && cache_key_forwarded(conn, r) < 0 ? CACHE_PASS : use;
}

static bool make_key(struct exchange *ex, const struct request *r)
{
	char text[CACHE_KEY_SIZE], *key;
	struct span s = cache_key_print(ex->conn, r, text);

	key = malloc(s.len + CACHE_KEY_FORWARDED + VARIANT_SIZE);
	if (!key)
		return false;
	ex->key = (struct span){ memcpy(key, s.at, s.len), s.len };
	return true;
}

static uint64_t hash_of(const struct conn *conn, struct span key, bool personal)
{
	return cache_hash(cache_of(conn), key) ^ (personal ? PERSONAL : 0);
}

/*
 * The target's own, else the one for clients that can decode what this one can. Not what the kernel knows better
 * of. @name: NULL: it is made where it is needed.
 */
static struct entry *find(struct conn *conn, const struct request *r, struct span key,
			  const struct kernel_name *name)
{
	struct worker *w = conn->worker;
	unsigned int encodings = cacheable_encodings(r);
	struct entry *entry = cache_find(cache_of(conn), key, w->loop.now);
	struct kernel_name own = { NULL };
	bool holds = true;

	if (!entry && encodings != ENCODING_UNKNOWN)
		entry = cache_find(cache_of(conn), cache_variant(key, encodings), w->loop.now);
	if (entry && entry->copies[0].version) {
		if (!name)
			kernel_name_make(w->lardd->kernel, &own, r, conn->site, conn->port);
		holds = kernel_cache_holds(w->lardd->kernel, name ? name : &own, entry, w->loop.now);
		kernel_name_free(&own);
	}
	if (holds)
		return entry;
	cache_drop(cache_of(conn), entry);
	cache_put(cache_of(conn), entry);
	return NULL;
}

/* --- before a node is chosen --- */

static void wake(struct worker *w, uint64_t workers)
{
	for (; workers; workers &= workers - 1) {
		struct worker *other = w->lardd->worker[__builtin_ctzll(workers)];

		if (!other)
			continue;
		other->unpark = true;
		if (other != w)
			worker_wake(other);
	}
}

static void leave_fetch(struct conn *conn)
{
	struct worker *w = conn->worker;
	struct fetch *fetch = conn->fetch;

	conn->fetch = NULL;
	if (fetch && conn->asks)
		wake(w, fetch_end(w->lardd->fetches, fetch));
	else if (fetch)
		fetch_leave(w->lardd->fetches, fetch);
	conn->asks = false;
}

void caching_leave(struct conn *conn)
{
	if (conn->entry)
		cache_put(cache_of(conn), conn->entry);
	conn->entry = NULL;
	conn->found = conn->checks = false;
	leave_fetch(conn);
}

static enum caching park(struct conn *conn)
{
	struct worker *w = conn->worker;

	count(w, COUNTER_CACHE_WAITED);
	if (!conn->patient_until)
		conn->patient_until = w->loop.now + w->config->cache_wait_us;
	conn_enter(conn, CONN_PARK);
	list_add_tail(&conn->link, &w->parked);
	timer_start(&w->loop, &w->park_timers, &conn->timer, conn->patient_until - w->loop.now);
	return CACHING_WAITS;
}

/* What is stale will do while another one asks, and for a moment after nobody has answered. */
static bool will_do(const struct conn *conn, const struct entry *entry)
{
	uint64_t now = conn->worker->loop.now;

	return entry_is_younger(entry, entry->stale_us, now) ||
	       (now < entry->retry_us && entry_is_younger(entry, entry->if_error_us, now));
}

static bool is_patient(const struct conn *conn)
{
	const struct worker *w = conn->worker;

	return w->config->cache_wait_us && (!conn->patient_until || w->loop.now < conn->patient_until);
}

/* Unless somebody does already. Who has asked now gets what is stale at once. */
static void ask_behind(struct conn *conn, struct span key, unsigned int encodings)
{
	struct worker *w = conn->worker;
	struct fetches *fetches = w->lardd->fetches;
	uint64_t hash = hash_of(conn, key, false);
	struct fetch *fetch;

	if (fetch_is_futile(fetches, hash, w->loop.now))
		return;
	if (!fetch_join(fetches, hash, w->index, &fetch)) {
		if (fetch)
			fetch_leave(fetches, fetch);
	} else if (!refresh_begin(conn, key, encodings, fetch)) {
		wake(w, fetch_end(fetches, fetch));
	}
}

/* Whoever asks for what is stale asks only whether it has changed, if the answer will be for all. */
static void check(struct conn *conn, bool personal)
{
	const struct entry *entry = conn->entry;

	conn->checks = conn->asks && entry && !personal && (entry->etag.len || entry->modified.len);
}

enum caching caching_first(struct conn *conn)
{
	struct worker *w = conn->worker;
	struct fetches *fetches = w->lardd->fetches;
	const struct request *r = &w->request;
	char text[CACHE_KEY_SIZE];
	enum cache_use use;
	bool personal = false;
	struct span key;
	uint64_t hash;

	if (!w->config->cache_size)
		return CACHING_GOES_ON;
	use = use_of(conn, r, &personal);
	if (use != CACHE_SERVE && use != CACHE_HEAD)
		return CACHING_GOES_ON;
	key = cache_key_print(conn, r, text);
	conn->entry = find(conn, r, key, NULL);
	if (conn->refreshes) {
		check(conn, false);
		return CACHING_GOES_ON;
	}
	if (conn->entry && (entry_is_fresh(conn->entry, w->loop.now) ||
			    w->loop.now < conn->entry->retry_us)) {
		conn->found = entry_is_fresh(conn->entry, w->loop.now) || will_do(conn, conn->entry);
		if (conn->found)
			return CACHING_FOUND;
	}
	hash = hash_of(conn, key, personal);
	if (use == CACHE_HEAD || fetch_is_futile(fetches, hash, w->loop.now))
		return CACHING_GOES_ON;
	if (conn->entry && entry_is_younger(conn->entry, conn->entry->stale_us, w->loop.now)) {
		ask_behind(conn, key, cacheable_encodings(r));
		conn->found = true;
		return CACHING_FOUND;
	}
	conn->asks = fetch_join(fetches, hash, w->index, &conn->fetch);
	check(conn, personal);
	if (conn->asks || !conn->fetch)
		return CACHING_GOES_ON;
	conn->found = conn->entry && will_do(conn, conn->entry);
	if (conn->found || !is_patient(conn)) {
		leave_fetch(conn);
		return conn->found ? CACHING_FOUND : CACHING_GOES_ON;
	}
	if (conn->entry)
		cache_put(cache_of(conn), conn->entry);
	conn->entry = NULL;
	return park(conn);
}

static bool does_for_errors(const struct conn *conn)
{
	return conn->entry && entry_is_younger(conn->entry, conn->entry->if_error_us,
					       conn->worker->loop.now);
}

bool caching_will_do(struct conn *conn)
{
	conn->found = does_for_errors(conn);
	return conn->found;
}

void caching_batch_end(struct worker *w)
{
	while (atomic_exchange(&w->unpark, false)) {
		struct list *at, *next;

		for (at = w->parked.next; at != &w->parked; at = next) {
			struct conn *conn = container_of(at, struct conn, link);

			next = at->next;
			if (conn->fetch->over)
				dispatch_resume(conn);
		}
	}
}

bool caching_wants(const struct conn *conn)
{
	const struct worker *w = conn->worker;
	struct span host, target = request_origin_form(&w->request, &host);
	char text[CACHE_KEY_SIZE];
	bool personal = false;
	enum cache_use use;

	if (!w->config->cache_size || !cache_class_is_kept(&w->config->cache, target))
		return false;
	use = use_of(conn, &w->request, &personal);
	return use == CACHE_CLEAR ||
	       (use != CACHE_PASS &&
		!fetch_is_futile(w->lardd->fetches, hash_of(conn, cache_key_print(conn, &w->request, text), personal),
				 w->loop.now));
}

/* --- an exchange --- */

/* From its first byte on. False: its header has no room. */
static bool serve_whole(struct exchange *ex, const struct entry *entry, bool known)
{
	struct worker *w = ex->conn->worker;

	ex->client_keep = ex->client_keep && conn_may_stay(ex->conn);
	if (rewrite_hit(ex, entry, known, entry_age(entry, w->loop.now) / 1000000))
		return false;
	ex->status = known ? 304 : 200;
	ex->down_start = 0;
	ex->down_end = known || ex->head ? 0 : entry->length;
	ex->in_header = false;
	ex->complete = true;
	return true;
}

static bool serve(struct exchange *ex, struct entry *entry, bool known)
{
	struct worker *w = ex->conn->worker;

	if (!serve_whole(ex, entry, known))
		return false;
	ex->hit = entry;
	count(w, COUNTER_CACHE_HITS);
	if (known)
		count(w, COUNTER_CACHE_UNCHANGED);
	if (!entry_is_fresh(entry, w->loop.now))
		count(w, COUNTER_CACHE_STALE);
	return true;
}

static bool serve_found(struct exchange *ex, const struct request *r)
{
	struct conn *conn = ex->conn;
	struct entry *entry = conn->entry;

	/* Who has not been looked up for yet, as he might have been handed off, or has waited for room meanwhile. */
	if (!conn->found && !conn->asks) {
		if (entry)
			cache_put(cache_of(conn), entry);
		conn->entry = entry = find(conn, r, ex->key, &ex->kernel);
		conn->found = entry && entry_is_fresh(entry, conn->worker->loop.now);
	}
	if (!conn->found) {
		count(conn->worker, COUNTER_CACHE_MISSES);
		return false;
	}
	if (!serve(ex, entry, cacheable_matches(r, entry->etag, entry->modified)))
		return false;
	conn->entry = NULL;
	return true;
}

bool caching_request(struct exchange *ex, const struct request *r)
{
	struct conn *conn = ex->conn;
	struct worker *w = conn->worker;

	if (!w->config->cache_size)
		return false;
	ex->use = use_of(conn, r, &ex->personal);
	if (ex->use != CACHE_PASS && !make_key(ex, r))
		ex->use = CACHE_PASS;
	if (ex->use == CACHE_PASS)
		return false;
	ex->since = cache_since(cache_of(conn), ex->key);
	ex->classes = cache_class_of_target(&w->config->cache, r->target);
	ex->encodings = cacheable_encodings(r);
	kernel_name_make(w->lardd->kernel, &ex->kernel, r, conn->site, conn->port);
	if ((ex->use == CACHE_SERVE || ex->use == CACHE_HEAD) && serve_found(ex, r))
		return true;
	/* The kernel knows one page, whoever stands before us. */
	if ((ex->use == CACHE_FILL || ex->use == CACHE_SERVE) && !cache_key_forwarded(conn, r))
		kernel_cache_ticket(w->lardd->kernel, &ex->kernel);
	return false;
}

bool caching_may_rescue(const struct exchange *ex)
{
	return !ex->began && !ex->hit && !ex->fill && ex->body == FRAMING_NONE &&
	       (ex->use == CACHE_SERVE || ex->use == CACHE_HEAD) && does_for_errors(ex->conn);
}

void caching_rescue(struct exchange *ex)
{
	struct conn *conn = ex->conn;
	struct entry *entry = conn->entry;

	entry->retry_us = conn->worker->loop.now + RETRY_US;
	/* Never false: FIELDS_MOST. */
	serve(ex, entry, false);
	conn->entry = NULL;
	leave_fetch(conn);
}

static struct span moved(struct span s, const char *from, const char *to)
{
	return s.at ? (struct span){ to + (s.at - from), s.len } : s;
}

static uint64_t longest(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void set_times(struct entry *entry, const struct keeping *k, uint64_t now)
{
	entry->born_us = now - k->age * 1000000;
	entry->fresh_us = k->fresh * 1000000;
	entry->stale_us = entry->fresh_us + k->stale * 1000000;
	entry->if_error_us = entry->fresh_us + k->if_error * 1000000;
	entry->keep_us = longest(entry->stale_us, entry->if_error_us);
	if (entry->etag.len || entry->modified.len)
		entry->keep_us = longest(entry->keep_us, entry->fresh_us + CHECK_US);
}

/* How long an answer that is not kept says that the next one will not be: only for a moment if the request is to blame. */
static uint64_t futile_us(const struct exchange *ex, const struct response *r)
{
	bool is_gone = r->status == 404 || r->status == 410;
	bool is_odd = r->status == 304 || (r->status >= 400 && !is_gone) || ex->encodings == ENCODING_UNKNOWN;

	return is_odd ? RETRY_US : FUTILE_US;
}

/* For how long nobody need wait for another one's answer, as it is not kept for *@why; 0: it will be kept. */
static uint64_t begin_fill(struct exchange *ex, const struct response *r, enum cache_not *why)
{
	struct worker *w = ex->conn->worker;
	struct span etag = { NULL, 0 }, modified = { NULL, 0 };
	char text[HEADER_SIZE];
	struct keeping k;
	struct entry *entry;
	ssize_t len;

	if (!cacheable_answer(r, &w->config->cache, cache_class_of_answer(ex->classes, r), ex->personal,
			      ex->encodings, time(NULL), &k)) {
		*why = k.why;
		return futile_us(ex, r);
	}
	*why = NOT_KEPT_LARGE;
	if (r->framing == FRAMING_LENGTH && r->content_length > w->config->cache_object_max)
		return futile_us(ex, r);
	/* Who asks by HTTP/1.0 could have others keep one that was cut: to him alone it says not where it ends. */
	if (r->framing == FRAMING_EOF && r->minor && !ex->minor) {
		*why = NOT_KEPT_ROOM;
		return RETRY_US;
	}
	len = rewrite_fields(w->config, r, text, sizeof(text), &etag, &modified);
	if (len < 0 || len > FIELDS_MOST)
		return futile_us(ex, r);
	*why = NOT_KEPT_ROOM;
	entry = cache_reserve(cache_of(ex->conn), k.by_encoding ? cache_variant(ex->key, ex->encodings) :
			      ex->key, (struct span){ text, len },
			      r->framing == FRAMING_LENGTH ? r->content_length : SIZE_MAX, ex->since);
	if (entry && entry->open && !cache_resize(cache_of(ex->conn), entry, ex->down_end - r->length + ROOM_FIRST)) {
		cache_end_fill(cache_of(ex->conn), entry);
		entry = NULL;
	}
	/* There is no room, now. */
	if (!entry)
		return RETRY_US;
	entry->etag = moved(etag, text, entry->fields.at);
	entry->modified = moved(modified, text, entry->fields.at);
	set_times(entry, &k, w->loop.now);
	ex->fill = entry;
	/* The kernel does not look at what a client can decode. */
	if (k.by_encoding || cacheable_field(&r->fields, "content-encoding").at)
		ex->kernel.ticket = 0;
	*why = NOT_KEPT_NONE;
	return 0;
}

/* However its clients came to whoever is before us. */
static void forget_all(struct exchange *ex)
{
	struct span key = ex->key;
	char *end = (char *)key.at + key.len;

	/* In one that says so these are no part of a target. */
	if (end[-2] == ' ' && (end[-1] == 's' || end[-1] == 'p')) {
		key.len -= CACHE_KEY_FORWARDED;
		end -= CACHE_KEY_FORWARDED;
	}
	cache_forget(cache_of(ex->conn), key);
	key.len += CACHE_KEY_FORWARDED;
	end[0] = ' ';
	for (end[1] = 'p'; end[1]; end[1] = end[1] == 'p' ? 's' : '\0')
		cache_forget(cache_of(ex->conn), key);
}

static bool is_stored(const struct exchange *ex)
{
	struct cache *cache = cache_of(ex->conn);
	uint64_t now = ex->conn->worker->loop.now;
	struct entry *entry = cache_find(cache, ex->key, now);

	if (!entry && ex->encodings != ENCODING_UNKNOWN)
		entry = cache_find(cache, cache_variant(ex->key, ex->encodings), now);
	if (entry)
		cache_put(cache, entry);
	return entry;
}

void caching_answer(struct exchange *ex, const struct response *r)
{
	struct worker *w = ex->conn->worker;
	enum cache_not why;
	uint64_t futile;

	if (ex->use == CACHE_CLEAR && r->status >= 200 && r->status < 400) {
		forget_all(ex);
		kernel_cache_forget(w->lardd->kernel, &ex->kernel);
	}
	if (ex->use != CACHE_FILL && ex->use != CACHE_SERVE)
		return;
	futile = begin_fill(ex, r, &why);
	/* Who asks past what is stored is to blame himself for what is not kept. */
	if (!futile || ex->use == CACHE_SERVE || !is_stored(ex))
		fetch_note(w->lardd->fetches, hash_of(ex->conn, ex->key, ex->personal),
			   futile ? w->loop.now + futile : 0, why);
	/* What was is over, and not to be served as stale when that has been forgotten. */
	if (futile == FUTILE_US && ex->conn->asks && ex->conn->entry)
		cache_drop(cache_of(ex->conn), ex->conn->entry);
	if (!ex->fill)
		leave_fetch(ex->conn);
}

bool caching_is_full(const struct exchange *ex)
{
	return ex->fill && !ex->fill->open && ex->fill->have == ex->fill->length;
}

/* The kernel first: what it refuses as out of date is not kept here. */
static bool keep(struct exchange *ex)
{
	struct worker *w = ex->conn->worker;

	if (ex->kernel.ticket && kernel_cache_put(w, &ex->kernel, ex->fill, w->loop.now) == -ESTALE)
		return false;
	/* What was for all before is not any more. */
	if (ex->fill->key.len != ex->key.len)
		cache_remove(cache_of(ex->conn), ex->key);
	return true;
}

void caching_doubt(struct exchange *ex)
{
	struct conn *conn = ex->conn;

	if (conn->refreshes)
		return;
	/* His own question is answered. */
	leave_fetch(conn);
	ask_behind(conn, ex->key, ex->encodings);
}

bool caching_unchanged(struct exchange *ex, const struct response *r)
{
	struct conn *conn = ex->conn;
	struct entry *entry = conn->entry;
	struct span etag = cacheable_field(&r->fields, "etag");
	char text[2 * HEADER_SIZE];
	struct response whole;

	if (etag.at && entry->etag.len && !cacheable_same(etag, entry->etag)) {
		cache_drop(cache_of(conn), entry);
		return false;
	}
	conn->checks = false;
	if (renew_answer(r, entry, text, sizeof(text), &whole))
		caching_answer(ex, &whole);
	if (!ex->fill) {
		/* It is not to be kept any longer, but it is what the back-end has. */
		cache_drop(cache_of(conn), entry);
		serve(ex, entry, false);
		conn->entry = NULL;
		return true;
	}
	count(conn->worker, COUNTER_CACHE_REVALIDATED);
	memcpy(ex->fill->body, entry->body, entry->length);
	ex->fill->have = entry->length;
	ex->ended = true;
	caching_filled(ex);
	serve_whole(ex, ex->fill, false);
	return true;
}

void caching_filled(struct exchange *ex)
{
	bool kept = caching_is_full(ex) && keep(ex) && cache_store(cache_of(ex->conn), ex->fill);

	count(ex->conn->worker, kept ? COUNTER_CACHE_STORED : COUNTER_CACHE_DROPPED);
	ex->filled = true;
	leave_fetch(ex->conn);
}

void caching_spoil(struct exchange *ex, bool large)
{
	struct worker *w = ex->conn->worker;

	fetch_note(w->lardd->fetches, hash_of(ex->conn, ex->key, ex->personal),
		   w->loop.now + (large ? FUTILE_US : RETRY_US), large ? NOT_KEPT_LARGE : NOT_KEPT_ROOM);
	count(w, COUNTER_CACHE_DROPPED);
	ex->filled = true;
	leave_fetch(ex->conn);
}

void caching_unfill(struct exchange *ex)
{
	if (ex->fill)
		cache_end_fill(cache_of(ex->conn), ex->fill);
	ex->fill = NULL;
	ex->filled = ex->ended = ex->chunk_open = false;
}

void caching_end(struct exchange *ex)
{
	struct conn *conn = ex->conn;

	if (ex->hit)
		cache_put(cache_of(conn), ex->hit);
	if (ex->fill && !ex->filled)
		caching_filled(ex);
	if (ex->fill)
		cache_end_fill(cache_of(conn), ex->fill);
	caching_leave(conn);
	kernel_name_free(&ex->kernel);
	free((char *)ex->key.at);
	ex->hit = ex->fill = NULL;
	ex->key = (struct span){ NULL, 0 };
}

/* Of whoever shows cookies, too: what is known of those who show none says more. */
static bool noted(struct lardd *lardd, uint64_t hash, unsigned int *why)
{
	uint64_t until_us;

	return fetch_noted(lardd->fetches, hash, &until_us, why) ||
	       fetch_noted(lardd->fetches, hash ^ PERSONAL, &until_us, why);
}

void caching_explain(struct lardd *lardd, const struct cache_target *of, uint64_t now_us, struct cache_said *said)
{
	char text[CACHE_KEY_SIZE];
	struct span key = cache_key_of(of, text);
	struct entry *entry = cache_find(lardd->cache, key, now_us);
	unsigned int why = NOT_KEPT_NONE;

	*said = (struct cache_said){ .is_there = entry };
	if (entry) {
		said->is_fresh = entry_is_fresh(entry, now_us);
		said->in_kernel = entry->copies[0].version;
		said->age_us = entry_age(entry, now_us);
		said->fresh_us = entry->fresh_us;
		cache_put(lardd->cache, entry);
	}
	said->is_noted = noted(lardd, cache_hash(lardd->cache, key), &why);
	said->why = why;
}
