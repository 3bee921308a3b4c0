// SPDX-License-Identifier: GPL-2.0
/* What takes objects away, and what is shown of the door. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "change.h"
#include "door.h"

enum MHD_Result device_sorry(struct conn *conn, int err)
{
	switch (err) {
	case -ENOENT:
		return http_sorry(conn, 404, "the site has just gone");
	case -EINVAL:
		return http_sorry(conn, 422, "the kernel does not take a value of it");
	case -EFBIG:
		return http_sorry(conn, 413, "it is larger than max_object (flotilla afpa show)");
	case -ENOSPC:
		return http_sorry(conn, 507, "it does not fit into the budget (flotilla afpa show)");
	case -ESTALE:
		return http_sorry(conn, 409, "it was changed, deleted or banned after that ticket");
	case -EPERM:
		return http_sorry(conn, 500, "afpad lacks CAP_NET_ADMIN");
	case -ENOMEM:
		return http_sorry(conn, 503, "out of memory");
	default:
		return http_sorry(conn, 500, strerror(-err));
	}
}

static void pause_conn(void *arg)
{
	MHD_suspend_connection(((struct conn *)arg)->mhd);
}

static void resume_conn(void *arg)
{
	MHD_resume_connection(((struct conn *)arg)->mhd);
}

enum MHD_Result told(struct conn *conn)
{
	struct peers *peers = conn->door->peers;
	json_t *json = conn->answer;
	unsigned int status = conn->status;

	conn->answer = NULL;
	if (json)
		json_object_set_new(json, "peers", peers_said(peers, &conn->wait));
	if (status < 202 && !peers_all_said(peers, &conn->wait))
		status = 202;
	return http_answer(conn, status, json);
}

enum MHD_Result tell(struct conn *conn, const struct change *change, unsigned int status, json_t *json)
{
	if (!conn->door->config.nr_peers || conn->fields.alone)
		return http_answer(conn, status, json);
	conn->status = status;
	conn->answer = json;
	conn->waited = true;
	conn->wait = (struct peer_wait){ .pause = pause_conn, .resume = resume_conn, .arg = conn };
	if (peers_tell(conn->door->peers, change, &conn->wait, conn->fields.local))
		return MHD_YES;
	return told(conn);
}

/* Made here first: what is put or filled here after the answer is not taken away by it. */
static enum MHD_Result take_away(struct conn *conn, const struct change *change, uint16_t port, uint64_t *counter)
{
	const struct fields *f = &conn->fields;
	struct afpa_site sites[SITES_MAX];
	uint64_t objects;
	int nr, err;

	nr = sites_find(conn->door->dev, &conn->door->config, port, f->sited ? &f->site : NULL, sites);
	if (nr < 0)
		return device_sorry(conn, nr);
	/* Nothing is kept where there is no site; peers may have it. */
	if (!nr && (port || f->sited))
		return http_sorry(conn, 404, "there is no such site that this door is for");
	err = change_make(conn->door->dev, sites, nr, change, &objects);
	if (err)
		return device_sorry(conn, err);
	*counter += 1;
	return tell(conn, change, 200, json_pack("{s:I}", "deleted", (json_int_t)objects));
}

enum MHD_Result take_delete(struct conn *conn)
{
	struct change change = { .kind = CHANGE_DELETE, .port = conn->target.port };

	strcpy(change.host, conn->target.host);
	strcpy(change.text, conn->target.path);
	return take_away(conn, &change, change.port, &conn->door->counts.deletes);
}

/* By the words of xkey or Surrogate-Key, or by what paths begin with. */
enum MHD_Result take_ban(struct conn *conn)
{
	const struct target *t = &conn->target;
	struct change change = { .kind = CHANGE_BAN, .port = t->port };
	const char *tags = conn->fields.tags;

	if (*t->path) {
		if (*tags)
			return http_sorry(conn, 400, "a ban is by tag or by path");
		/* As on the command line: of every host. */
		strcpy(change.host, strcmp(t->host, "*") ? t->host : "");
		strcpy(change.text, t->path);
		return take_away(conn, &change, change.port, &conn->door->counts.bans);
	}
	if (!*tags || strchr(tags, ' '))
		return http_sorry(conn, 400, "a ban takes one tag in xkey or Surrogate-Key, or /v1/ban/HOST/PREFIX");
	change.kind = CHANGE_TAG;
	change.port = conn->fields.sited ? ntohs(conn->fields.site.port) : 0;
	strcpy(change.text, tags);
	return take_away(conn, &change, change.port, &conn->door->counts.bans);
}

enum MHD_Result take_flush(struct conn *conn)
{
	struct change change = { .kind = CHANGE_FLUSH };

	change.port = conn->fields.sited ? ntohs(conn->fields.site.port) : 0;
	return take_away(conn, &change, change.port, &conn->door->counts.flushes);
}

/* What a peer says is made here and told to nobody: a change goes one hop. */
enum MHD_Result take_peer(struct conn *conn)
{
	static struct change changes[PEER_CHANGES_MAX];	/* one thread answers */
	struct afpa_site sites[SITES_MAX];
	struct door *door = conn->door;
	json_t *json = json_loadb(conn->body, conn->len, JSON_REJECT_DUPLICATES, NULL);
	const char *from = json_string_value(json_object_get(json, "from")), *why = NULL;
	json_t *list = json_object_get(json, "changes");
	size_t nr = json_array_size(list), i;
	uint64_t objects;
	int found, err = 0;

	if (!from || !json_is_array(list) || nr > PEER_CHANGES_MAX)
		why = "it is not {\"from\": ..., \"changes\": [...]}";
	for (i = 0; !why && i < nr; i++)
		why = change_parse(json_array_get(list, i), &changes[i]);
	if (!why && !strcmp(from, door->id)) {
		json_decref(json);
		return http_answer(conn, 409, json_pack("{s:s, s:s}", "error", "this is the same afpad", "id", door->id));
	}
	json_decref(json);
	if (why)
		return http_sorry(conn, 400, why);
	for (i = 0; !err && i < nr; i++) {
		found = sites_find(door->dev, &door->config, changes[i].port, NULL, sites);
		err = found < 0 ? found : change_make(door->dev, sites, found, &changes[i], &objects);
		door->counts.told += !err;
	}
	/* Not a word that would mean that the message is wrong: it is to come again. */
	if (err)
		return http_sorry(conn, 500, strerror(-err));
	return http_answer(conn, 200, json_pack("{s:I}", "made", (json_int_t)nr));
}

enum MHD_Result show_ticket(struct conn *conn)
{
	uint64_t ticket;
	int err = afpa_ticket(conn->door->dev, &ticket);

	return err ? device_sorry(conn, err) : http_answer(conn, 200, json_pack("{s:I}", "ticket", (json_int_t)ticket));
}

static json_t *show_counts(const struct door *door)
{
	const struct counts *c = &door->counts;

	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "requests",
			 (json_int_t)c->requests, "refused", (json_int_t)c->refused, "wrong", (json_int_t)c->wrong,
			 "failed", (json_int_t)c->failed, "put", (json_int_t)c->puts, "deleted", (json_int_t)c->deletes,
			 "banned", (json_int_t)c->bans, "flushed", (json_int_t)c->flushes, "told",
			 (json_int_t)c->told, "late", (json_int_t)door->crowd.late, "thrown_out",
			 (json_int_t)door->crowd.thrown_out);
}

enum MHD_Result show_status(struct conn *conn)
{
	struct door *door = conn->door;
	struct afpa_site sites[SITES_MAX];
	int nr = sites_find(door->dev, &door->config, 0, NULL, sites), i, err;
	char name[AFPA_SITE_TEXT];
	struct afpa_info info;
	json_t *list;

	err = nr < 0 ? nr : afpa_info(door->dev, &info);
	if (err)
		return device_sorry(conn, err);
	list = json_array();
	for (i = 0; i < nr; i++)
		json_array_append_new(list, json_string(afpa_site_name(&sites[i], name)));
	return http_answer(conn, 200, json_pack("{s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "version",
						FLT_VERSION, "up_s", (json_int_t)((crowd_now() - door->started) / 1000),
						"mode", afpa_mode_name(info.mode), "budget", (json_int_t)info.budget,
						"used", (json_int_t)info.used, "max_object", (json_int_t)info.max_object,
						"objects", (json_int_t)info.objects, "sites", list, "peers",
						peers_show(door->peers), "counters", show_counts(door)));
}
