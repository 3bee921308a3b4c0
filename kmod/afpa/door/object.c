// SPDX-License-Identifier: GPL-2.0
/* One object: put, shown, given a new lifetime. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "change.h"
#include "door.h"

#define TRIES	3

/* The sites that the request is for, or 0 after an answer. */
static int find(struct conn *conn, struct afpa_site sites[SITES_MAX], enum MHD_Result *answered)
{
	const struct fields *f = &conn->fields;
	char text[96];
	int nr = sites_find(conn->door->dev, &conn->door->config, conn->target.port, f->sited ? &f->site : NULL, sites);

	if (nr > 0)
		return nr;
	if (nr < 0) {
		*answered = device_sorry(conn, nr);
		return 0;
	}
	snprintf(text, sizeof(text), "there is no site %sat port %u that this door is for",
		 f->sited ? "of that name " : "", conn->target.port);
	*answered = http_sorry(conn, 404, text);
	return 0;
}

/**
 * put_at() - put the body of a request at one site
 *
 * Only what is not there: between the look and the put nobody else may put it, which the ticket says. It may also
 * say so of others that have the same hash, so it is tried again.
 *
 * Return: 0, 1 if there was none before, or a negative errno: EEXIST, ENOENT and ESTALE are the conditions.
 */
static int put_at(struct conn *conn, const struct afpa_site *site, uint64_t *version)
{
	const struct fields *f = &conn->fields;
	const struct target *t = &conn->target;
	struct afpa_object object = {
		.type = *f->type ? f->type : NULL,
		.headers = f->headers,
		.body = conn->body,
		.body_len = conn->len,
		.ttl_ms = f->ttl_ms,
		.flags = f->automatic ? AFPA_PUT_AUTOMATIC : 0,
		.tags = f->tags,
		.since = f->since,
	};
	int dev = conn->door->dev, err = 0, tries;
	struct afpa_key key;
	bool there;

	for (tries = 0; tries < TRIES; tries++) {
		if (f->absent && !f->since)
			err = afpa_ticket(dev, &object.since);
		if (err)
			return err;
		there = !afpa_query(dev, site, t->host, t->path, &key);
		if (there && f->absent)
			return -EEXIST;
		err = f->present ? afpa_update(dev, site, t->host, t->path, &object, version) :
				   afpa_put(dev, site, t->host, t->path, &object, version);
		if (err != -ESTALE || !f->absent || f->since)
			break;
		err = tries + 1 < TRIES ? 0 : err;
	}
	return err ? err : !there;
}

static enum MHD_Result put_sorry(struct conn *conn, int err)
{
	if (err == -EEXIST)
		return http_sorry(conn, 412, "it is there already");
	if (err == -ENOENT && conn->fields.present)
		return http_sorry(conn, 412, "it is not there");
	return device_sorry(conn, err);
}

enum MHD_Result object_put(struct conn *conn)
{
	struct change change = { .kind = CHANGE_DELETE, .port = conn->target.port };
	struct afpa_site sites[SITES_MAX];
	char name[AFPA_SITE_TEXT], etag[32];
	enum MHD_Result answered = MHD_NO;
	int nr = find(conn, sites, &answered), i, was, err = 0, put = 0;
	json_t *at;
	bool fresh = false;
	uint64_t version = 0;

	if (!nr)
		return answered;
	at = json_array();
	for (i = 0; i < nr; i++) {
		was = put_at(conn, &sites[i], &version);
		if (was < 0) {
			err = err ? err : was;
			continue;
		}
		put++;
		fresh |= was;
		json_array_append_new(at, json_pack("{s:s, s:I}", "site", afpa_site_name(&sites[i], name), "version",
						    (json_int_t)version));
	}
	conn->door->counts.puts += put;
	if (!put) {
		json_decref(at);
		return put_sorry(conn, err);
	}
	strcpy(change.host, conn->target.host);
	strcpy(change.text, conn->target.path);
	snprintf(etag, sizeof(etag), "\"%llu\"", (unsigned long long)version);
	at = json_pack("{s:s, s:o}", "etag", etag, "put", at);
	if (err)
		json_object_set_new(at, "error", json_string("not at all sites of that port"));
	/* What can be had again is nothing new, and peers may have it, too. */
	conn->fields.alone |= conn->fields.automatic;
	return tell(conn, &change, err ? 207 : fresh ? 201 : 200, at);
}

enum MHD_Result object_show(struct conn *conn)
{
	const struct target *t = &conn->target;
	struct afpa_site sites[SITES_MAX];
	char name[AFPA_SITE_TEXT], etag[32];
	enum MHD_Result answered = MHD_NO;
	int nr = find(conn, sites, &answered), i;
	struct afpa_key key;
	json_t *at;

	if (!nr)
		return answered;
	at = json_array();
	for (i = 0; i < nr; i++) {
		if (afpa_query(conn->door->dev, &sites[i], t->host, t->path, &key))
			continue;
		snprintf(etag, sizeof(etag), "\"%llu\"", (unsigned long long)key.version);
		json_array_append_new(at, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "site",
						    afpa_site_name(&sites[i], name), "version", (json_int_t)key.version,
						    "bytes", (json_int_t)key.body_len, "charged", (json_int_t)key.charged,
						    "hits", (json_int_t)key.hits, "age_ms", (json_int_t)key.age_ms,
						    "left_ms", (json_int_t)key.left_ms, "automatic",
						    key.flags & AFPA_PUT_AUTOMATIC));
	}
	if (!json_array_size(at)) {
		json_decref(at);
		return http_sorry(conn, 404, "there is no such object");
	}
	return http_answer(conn, 200, json_pack("{s:s, s:s, s:s, s:o}", "etag", etag, "host", t->host, "path", t->path,
						"at", at));
}

enum MHD_Result object_live(struct conn *conn)
{
	struct afpa_site sites[SITES_MAX];
	enum MHD_Result answered = MHD_NO;
	int nr, i, err, done = 0, worst = 0;

	if (!conn->fields.lived)
		return http_sorry(conn, 400, "there is no Afpa-TTL, Surrogate-Control or Cache-Control with a lifetime");
	nr = find(conn, sites, &answered);
	if (!nr)
		return answered;
	for (i = 0; i < nr; i++) {
		err = afpa_ttl(conn->door->dev, &sites[i], conn->target.host, conn->target.path, conn->fields.ttl_ms);
		done += !err;
		if (err && err != -ENOENT)
			worst = err;
	}
	if (worst)
		return device_sorry(conn, worst);
	if (!done)
		return http_sorry(conn, 404, "there is no such object");
	return http_answer(conn, 200, json_pack("{s:I}", "left_ms", (json_int_t)conn->fields.ttl_ms));
}
