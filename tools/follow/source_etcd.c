// SPDX-License-Identifier: GPL-2.0
/* etcd:URL/PREFIX, each key below the prefix a node, its value an object of JSON as in what save prints. */
#include <stdlib.h>
#include <string.h>
#include "etcd.h"

#define VALUE_MAX	4096

struct etcd_source {
	struct etcd etcd;
	char revision[24];
};

static int source_etcd_open(struct source *s, const char *rest)
{
	struct etcd_source *e = calloc(1, sizeof(*e));
	int status;

	if (!e)
		return cli_fail(s->cli, "out of memory");
	s->data = e;
	status = etcd_open(&e->etcd, s->cli, s->access, rest);
	/* That a revision has been compacted, say: it goes on without a word. */
	e->etcd.http.last = "canceled\"";
	return status;
}

/* All keys that begin with the prefix: up to the prefix with its last byte one higher. */
static json_t *range(const struct etcd *etcd)
{
	size_t len = strlen(etcd->prefix);
	char end[PREFIX_MAX], *from, *to;
	json_t *request;

	strcpy(end, etcd->prefix);
	end[len - 1]++;
	from = base64_encode(etcd->prefix, len);
	to = base64_encode(end, len);
	request = json_pack("{s:s, s:s}", "key", from ? from : "", "range_end", to ? to : "");
	free(from);
	free(to);
	return request;
}

static const char *string_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static int take(struct source *s, struct config *answer, const json_t *pair)
{
	struct etcd_source *e = s->data;
	char key[PREFIX_MAX + FLT_NAME_MAX + 64], value[VALUE_MAX], place[PLACE_SIZE];
	ssize_t key_len = base64_decode(string_of(pair, "key"), key, sizeof(key) - 1);
	ssize_t len = base64_decode(string_of(pair, "value"), value, sizeof(value));
	size_t prefix = strlen(e->etcd.prefix);
	const char *name = key + prefix;
	json_error_t error;
	json_t *node;
	int status;

	source_place(s, answer, "");
	if (key_len < (ssize_t)prefix || memchr(key, 0, key_len) || strncmp(key, e->etcd.prefix, prefix))
		return cli_usage(s->cli, "a key of it is too long, or not below the prefix");
	key[key_len] = '\0';
	snprintf(place, sizeof(place), "%.50s: ", name);
	source_place(s, answer, place);
	node = len < 0 ? NULL : json_loadb(value, len, JSON_REJECT_DUPLICATES, &error);
	if (len < 0)
		status = cli_usage(s->cli, "its value is longer than %d bytes", VALUE_MAX);
	else if (!json_is_object(node))
		status = cli_usage(s->cli, "its value is not an object of JSON");
	else if (json_object_get(node, "name") && strcmp(string_of(node, "name"), name))
		status = cli_usage(s->cli, "its value has another name");
	else if (json_object_set_new(node, "name", json_string(name)))
		status = cli_usage(s->cli, "its name is not text");
	else
		status = config_json_node(s->cli, answer, place, node);
	json_decref(node);
	return status;
}

static int source_etcd_read(struct source *s, struct config *answer)
{
	struct etcd_source *e = s->data;
	const json_t *pairs, *pair;
	json_t *all;
	int status = CLI_OK;
	long code = 0;
	size_t i;

	*answer = (struct config){ .file = e->etcd.prefix, .max_nodes = s->max };
	e->revision[0] = '\0';
	source_place(s, answer, ": ");
	all = etcd_ask(&e->etcd, "/v3/kv/range", range(&e->etcd), &code);
	if (!all)
		return code == 200 ? CLI_USAGE : CLI_FAILED;
	pairs = json_object_get(all, "kvs");
	snprintf(e->revision, sizeof(e->revision), "%s", string_of(json_object_get(all, "header"), "revision"));
	/* Without keys there is no "kvs", but every answer of etcd has a revision. */
	if (!e->revision[0] || e->revision[strspn(e->revision, "0123456789")] || (pairs && !json_is_array(pairs)))
		status = cli_usage(s->cli, "this is not an answer of etcd");
	else if (json_is_true(json_object_get(all, "more")))
		status = cli_usage(s->cli, "its answer is not whole");
	json_array_foreach(pairs, i, pair)
		if (!status)
			status = take(s, answer, pair);
	json_decref(all);
	return status;
}

/* From the revision after the one that was read, so that nothing is missed in between. */
static void source_etcd_wait(struct source *s, int ms)
{
	struct etcd_source *e = s->data;
	char from[24], url[512];
	json_t *request;
	char *body;

	snprintf(from, sizeof(from), "%lld", strtoll(e->revision, NULL, 10) + 1);
	request = range(&e->etcd);
	json_object_set_new(request, "start_revision", json_string(from));
	request = json_pack("{s:o}", "create_request", request);
	body = json_dumps(request, 0);
	json_decref(request);
	snprintf(url, sizeof(url), "%s/v3/watch", e->etcd.hosts[e->etcd.at]);
	if (body && e->revision[0])
		http_watch(&e->etcd.http, url, body);
	free(body);
	http_wait(&e->etcd.http, ms);
}

static void source_etcd_close(struct source *s)
{
	struct etcd_source *e = s->data;

	if (!e)
		return;
	etcd_close(&e->etcd);
	free(e);
}

const struct source_kind source_etcd = {
	"etcd", source_etcd_open, source_etcd_read, source_etcd_wait, source_etcd_close
};
