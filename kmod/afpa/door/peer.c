// SPDX-License-Identifier: GPL-2.0
#include "peer.h"
#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "crowd.h"
#include "mark.h"
#include "tools/base/log.h"

/* A peer that nothing is told to is asked so often whether it is there. */
#define HELLO_MS	2000
/* After a failure, doubled until the second. */
#define RETRY_MS	250
#define RETRY_MOST_MS	2000
#define BATCH_MAX	128
/* In place of a status: what answers is something else. */
#define NO_DOOR		1
/* Of an answer that is read. */
#define ANSWER_MAX	4096
/* Who waits, waits for two exchanges at most. */
#define WAIT_FACTOR	2

enum state { CATCHING, IN_STEP, AWAY, REFUSED, ITSELF };

static const char *const state_names[] = { "catching up", "in step", "away", "refuses", "itself" };

/**
 * struct item - a change that a peer has not confirmed
 */
struct item {
	struct item *next;
	struct peer_wait *wait;
	json_t *change;
};

/**
 * struct peer - one of them; all under the lock of peers but @curl, which is its thread's
 * @first, @last: what it lacks, @nr of them
 * @flying:       they have been taken from there, and it has not answered
 * @flush:        it lacks more than is known
 * @marked:       there is a file that says so
 * @retry:        milliseconds until the next attempt
 * @most:         changes of a message: fewer after one that was not answered in time
 */
struct peer {
	struct peers *peers;
	unsigned int index;
	const char *url;
	pthread_t thread;
	enum state state;
	struct item *first, **last;
	unsigned int nr;
	bool flush, marked, flying;
	unsigned int retry, most;
	uint64_t confirmed, flushes;
	CURL *curl;
};

struct peers {
	const struct config *config;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	atomic_bool stopping;
	char token[TOKEN_MOST + 1], id[64];
	unsigned int nr;
	struct peer peer[];
};

static void mark(struct peer *p)
{
	int err;

	if (p->marked)
		return;
	p->marked = true;
	err = mark_set(p->peers->config->state, p->url);
	if (err)
		log_error("mark", "peer=%s text=\"what it lacks is forgotten if this process ends: %s\"", p->url,
			  strerror(-err));
}

static void unmark(struct peer *p)
{
	if (p->marked)
		mark_clear(p->peers->config->state, p->url);
	p->marked = false;
}

static void answer(struct peer *p, struct item *item, char state)
{
	struct peer_wait *wait = item->wait;

	item->wait = NULL;
	if (!wait)
		return;
	wait->states[p->index] = state;
	if (!--wait->left)
		wait->resume(wait->arg);
}

static void free_item(struct item *item)
{
	json_decref(item->change);
	free(item);
}

static void drop_all(struct peer *p)
{
	struct item *item;

	while ((item = p->first)) {
		p->first = item->next;
		answer(p, item, PEER_PENDING);
		free_item(item);
	}
	p->last = &p->first;
	p->nr = 0;
}

static void give_up_waiting(struct peer *p, uint64_t now)
{
	struct item *item;

	for (item = p->first; item; item = item->next)
		if (item->wait && item->wait->until <= now) {
			mark(p);
			answer(p, item, PEER_PENDING);
		}
}

static void all_is_lost(struct peer *p, const char *why)
{
	mark(p);
	drop_all(p);
	if (!p->flush)
		log_warn("peer", "peer=%s text=\"it will be told to flush: %s\"", p->url, why);
	p->flush = true;
}

struct said {
	size_t len;
	char text[ANSWER_MAX];
};

/* The answer of the process that asks. */
static bool is_named(const struct said *said, const char *id)
{
	json_t *json = json_loadb(said->text, said->len, JSON_REJECT_DUPLICATES, NULL);
	const char *name = json_string_value(json_object_get(json, "id"));
	bool is_so = name && !strcmp(name, id);

	json_decref(json);
	return is_so;
}

static size_t take_answer(char *data, size_t size, size_t nr, void *arg)
{
	struct said *said = arg;

	if (size * nr > sizeof(said->text) - said->len)
		return 0;
	memcpy(said->text + said->len, data, size * nr);
	said->len += size * nr;
	return size * nr;
}

/* Whatever has got its port may answer with 200: a door says how much it has made. */
static bool has_made(const struct said *said, size_t nr)
{
	json_t *json = json_loadb(said->text, said->len, JSON_REJECT_DUPLICATES, NULL);
	const json_t *made = json_object_get(json, "made");
	bool is_so = json_is_integer(made) && json_integer_value(made) == (json_int_t)nr;

	json_decref(json);
	return is_so;
}

/* An end does not wait for a peer. */
static int is_over(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	struct peers *peers = arg;

	(void)a, (void)b, (void)c, (void)d;
	return atomic_load(&peers->stopping);
}

/* What can be set once; false without memory. */
static bool prepare(struct peer *p)
{
	const struct config *config = p->peers->config;
	CURL *c = curl_easy_init();
	char url[URL_MAX + 16];

	p->curl = c;
	if (!c)
		return false;
	snprintf(url, sizeof(url), "%s/v1/peer", p->url);
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, strncmp(url, "https:", 6) ? "http" : "https");
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)config->peer_ms / 2 + 1);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)config->peer_ms);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_answer);
	curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, is_over);
	curl_easy_setopt(c, CURLOPT_XFERINFODATA, p->peers);
	curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	if (*config->peer_ca)
		curl_easy_setopt(c, CURLOPT_CAINFO, config->peer_ca);
	return true;
}

/* The status of its answer, or 0 after @why. */
static long post(struct peer *p, const char *body, const char *token, struct said *said, char *why, size_t size)
{
	struct curl_slist *fields = NULL;
	char line[TOKEN_MOST + 32];
	long status = 0;
	CURLcode err;

	snprintf(line, sizeof(line), "Authorization: Bearer %s", token);
	fields = curl_slist_append(fields, line);
	fields = curl_slist_append(fields, "Content-Type: application/json");
	fields = curl_slist_append(fields, "Expect:");
	curl_easy_setopt(p->curl, CURLOPT_HTTPHEADER, fields);
	curl_easy_setopt(p->curl, CURLOPT_POSTFIELDS, body);
	curl_easy_setopt(p->curl, CURLOPT_POSTFIELDSIZE, (long)strlen(body));
	curl_easy_setopt(p->curl, CURLOPT_WRITEDATA, said);
	err = curl_easy_perform(p->curl);
	if (err)
		snprintf(why, size, "%s", curl_easy_strerror(err));
	else
		curl_easy_getinfo(p->curl, CURLINFO_RESPONSE_CODE, &status);
	curl_slist_free_all(fields);
	explicit_bzero(line, sizeof(line));
	return status;
}

/* What is sent next; it leaves the queue. NULL without memory. */
static json_t *take_batch(struct peer *p, struct item **taken, bool *flush)
{
	static const struct change all = { .kind = CHANGE_FLUSH };
	json_t *changes = json_array();
	struct item **last = taken;
	unsigned int nr = 0;

	*taken = NULL;
	*flush = p->flush;
	p->flying = p->first || p->flush;
	if (*flush) {
		p->flush = false;
		json_array_append_new(changes, change_pack(&all));
	}
	while (!*flush && p->first && nr < p->most) {
		json_array_append(changes, p->first->change);
		*last = p->first;
		last = &p->first->next;
		p->first = p->first->next;
		nr++;
	}
	*last = NULL;
	if (!p->first)
		p->last = &p->first;
	p->nr -= nr;
	return json_pack("{s:s, s:o}", "from", p->peers->id, "changes", changes);
}

static void put_back(struct peer *p, struct item *taken, bool flush)
{
	struct item **end = &taken;

	p->flush |= flush;
	while (*end) {
		p->nr++;
		end = &(*end)->next;
	}
	*end = p->first;
	if (!p->first)
		p->last = end == &taken ? &p->first : end;
	p->first = taken;
}

static void set_state(struct peer *p, enum state state, const char *why)
{
	if (p->state == state)
		return;
	p->state = state;
	if (state == AWAY || state == REFUSED)
		log_warn("peer", "peer=%s state=\"%s\" text=\"%s\"", p->url, state_names[state], why);
	else if (state != CATCHING)
		log_info("peer", "peer=%s state=\"%s\"", p->url, state_names[state]);
}

static void confirmed(struct peer *p, struct item *taken, bool flush)
{
	struct item *item;

	p->flushes += flush;
	p->retry = 0;
	p->most = p->most < BATCH_MAX / 2 ? p->most * 2 : BATCH_MAX;
	while ((item = taken)) {
		taken = item->next;
		p->confirmed++;
		answer(p, item, PEER_CONFIRMED);
		free_item(item);
	}
	if (p->first || p->flush) {
		set_state(p, CATCHING, "");
		return;
	}
	set_state(p, IN_STEP, "");
	unmark(p);
}

static void failed(struct peer *p, struct item *taken, bool flush, long status, const char *why)
{
	struct item *item;

	put_back(p, taken, flush);
	if (p->first || p->flush)
		mark(p);
	for (item = p->first; item; item = item->next)
		answer(p, item, PEER_PENDING);
	/* A newer one says so of what it does not know: then it is to keep nothing. */
	if (status == 400 || status == 413 || status == 422)
		all_is_lost(p, "it does not take what it was told");
	else if (p->nr > p->peers->config->queue)
		all_is_lost(p, "it lacks more than the queue holds");
	/* It may be there and need more time for so many: the same ones would come for ever. */
	if (!status && p->most > 1)
		p->most /= 2;
	set_state(p, status ? REFUSED : AWAY, why);
	p->retry = p->retry ? p->retry * 2 : RETRY_MS;
	if (p->retry > RETRY_MOST_MS)
		p->retry = RETRY_MOST_MS;
}

/* What was changed here was changed there. */
static void itself(struct peer *p)
{
	struct item *item;

	for (item = p->first; item; item = item->next)
		answer(p, item, PEER_CONFIRMED);
	drop_all(p);
	p->flush = false;
	unmark(p);
	set_state(p, ITSELF, "");
}

/* With the lock, which is given back meanwhile. */
static void exchange(struct peer *p)
{
	struct peers *peers = p->peers;
	char token[TOKEN_MOST + 1], why[160] = "";
	struct said said = { 0 };
	struct item *taken;
	char *body = NULL;
	long status = 0;
	json_t *json;
	size_t nr;
	bool flush;

	json = take_batch(p, &taken, &flush);
	nr = json_array_size(json_object_get(json, "changes"));
	memcpy(token, peers->token, sizeof(token));
	pthread_mutex_unlock(&peers->lock);
	if (json)
		body = json_dumps(json, JSON_COMPACT);
	json_decref(json);
	if (body)
		status = post(p, body, token, &said, why, sizeof(why));
	else
		snprintf(why, sizeof(why), "out of memory");
	free(body);
	explicit_bzero(token, sizeof(token));
	if (status && status != 200)
		snprintf(why, sizeof(why), "it answers with status %ld", status);
	if (status == 200 && !has_made(&said, nr)) {
		status = NO_DOOR;
		snprintf(why, sizeof(why), "it does not say what it has made: is it an afpad?");
	}
	pthread_mutex_lock(&peers->lock);
	p->flying = false;
	if (status == 200) {
		confirmed(p, taken, flush);
	} else if (status == 409 && is_named(&said, peers->id)) {
		put_back(p, taken, false);
		itself(p);
	} else {
		failed(p, taken, flush, status, why);
	}
}

static void sleep_ms(struct peers *peers, unsigned int ms)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += ms % 1000 * 1000000L;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	pthread_cond_timedwait(&peers->changed, &peers->lock, &t);
}

static void *run(void *arg)
{
	struct peer *p = arg;
	struct peers *peers = p->peers;
	uint64_t next;

	pthread_mutex_lock(&peers->lock);
	while (!peers->stopping && p->state != ITSELF) {
		exchange(p);
		give_up_waiting(p, crowd_now());
		next = crowd_now() + (p->retry ? p->retry : HELLO_MS);
		while (!peers->stopping && crowd_now() < next && (p->retry || (!p->first && !p->flush)))
			sleep_ms(peers, next - crowd_now());
	}
	/* What it still lacks, and did not wait for, it will lack when this program starts again. */
	if (p->first || p->flush)
		mark(p);
	drop_all(p);
	pthread_mutex_unlock(&peers->lock);
	return NULL;
}

static void enqueue(struct peer *p, json_t *change, struct peer_wait *wait, bool local)
{
	struct item *item;

	if (p->state == ITSELF) {
		wait->states[p->index] = PEER_CONFIRMED;
		return;
	}
	item = p->nr < p->peers->config->queue ? calloc(1, sizeof(*item)) : NULL;
	if (!item || !change) {
		free(item);
		all_is_lost(p, "it lacks more than the queue holds");
		return;
	}
	item->change = json_incref(change);
	*p->last = item;
	p->last = &item->next;
	p->nr++;
	if (local || (p->state != IN_STEP && p->state != CATCHING)) {
		mark(p);
		return;
	}
	item->wait = wait;
	wait->left++;
}

bool peers_tell(struct peers *peers, const struct change *change, struct peer_wait *wait, bool local)
{
	json_t *json = change_pack(change);
	unsigned int i;
	bool waits;

	pthread_mutex_lock(&peers->lock);
	wait->until = crowd_now() + WAIT_FACTOR * peers->config->peer_ms;
	wait->left = 0;
	memset(wait->states, PEER_PENDING, sizeof(wait->states));
	for (i = 0; i < peers->nr; i++)
		enqueue(&peers->peer[i], json, wait, local || peers->stopping);
	waits = wait->left;
	if (waits)
		wait->pause(wait->arg);
	pthread_cond_broadcast(&peers->changed);
	json_decref(json);
	pthread_mutex_unlock(&peers->lock);
	return waits;
}

json_t *peers_said(struct peers *peers, const struct peer_wait *wait)
{
	json_t *said = json_object();
	unsigned int i;

	for (i = 0; i < peers->nr; i++)
		json_object_set_new(said, peers->peer[i].url,
				    json_string(wait->states[i] == PEER_CONFIRMED ? "confirmed" : "pending"));
	return said;
}

bool peers_all_said(struct peers *peers, const struct peer_wait *wait)
{
	unsigned int i;

	for (i = 0; i < peers->nr; i++)
		if (wait->states[i] != PEER_CONFIRMED)
			return false;
	return true;
}

json_t *peers_show(struct peers *peers)
{
	json_t *all = json_array();
	unsigned int i;

	pthread_mutex_lock(&peers->lock);
	for (i = 0; i < peers->nr; i++) {
		const struct peer *p = &peers->peer[i];
		bool behind = p->state == IN_STEP && (p->first || p->flying);

		json_array_append_new(all, json_pack("{s:s, s:s, s:i, s:b, s:I, s:I}", "url", p->url, "state",
						     state_names[behind ? CATCHING : p->state], "lacks", p->nr, "flush", p->flush, "confirmed",
						     (json_int_t)p->confirmed, "flushes", (json_int_t)p->flushes));
	}
	pthread_mutex_unlock(&peers->lock);
	return all;
}

void peers_token(struct peers *peers, const char *token)
{
	pthread_mutex_lock(&peers->lock);
	snprintf(peers->token, sizeof(peers->token), "%s", token);
	pthread_mutex_unlock(&peers->lock);
}

/* Threads of all peers but the first @nr have not begun. */
static void join(struct peers *peers, unsigned int nr)
{
	unsigned int i;

	pthread_mutex_lock(&peers->lock);
	peers->stopping = true;
	pthread_cond_broadcast(&peers->changed);
	pthread_mutex_unlock(&peers->lock);
	for (i = 0; i < nr; i++)
		pthread_join(peers->peer[i].thread, NULL);
}

void peers_stop(struct peers *peers)
{
	join(peers, peers->nr);
}

void peers_free(struct peers *peers)
{
	unsigned int i;

	for (i = 0; i < peers->nr; i++) {
		if (peers->peer[i].curl)
			curl_easy_cleanup(peers->peer[i].curl);
		if (peers->peer[i].last)
			drop_all(&peers->peer[i]);
	}
	explicit_bzero(peers->token, sizeof(peers->token));
	free(peers);
}

struct peers *peers_start(const struct config *config, const char *token, const char *id, char *error, size_t size)
{
	struct peers *peers = calloc(1, sizeof(*peers) + config->nr_peers * sizeof(peers->peer[0]));
	pthread_condattr_t monotonic;
	unsigned int i;

	snprintf(error, size, "out of memory");
	if (!peers)
		return NULL;
	peers->config = config;
	peers->nr = config->nr_peers;
	snprintf(peers->id, sizeof(peers->id), "%s", id);
	snprintf(peers->token, sizeof(peers->token), "%s", token);
	pthread_mutex_init(&peers->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&peers->changed, &monotonic);
	for (i = 0; i < peers->nr; i++) {
		struct peer *p = &peers->peer[i];

		*p = (struct peer){ .peers = peers, .index = i, .url = config->peers[i], .last = &p->first,
				     .most = BATCH_MAX };
		p->marked = mark_is_set(config->state, p->url);
		p->flush = p->marked;
		if (!prepare(p) || pthread_create(&p->thread, NULL, run, p)) {
			join(peers, i);
			peers_free(peers);
			return NULL;
		}
	}
	return peers;
}
