// SPDX-License-Identifier: GPL-2.0
/* Requests: who sends them, what they are for, their bodies; the rest of HTTP is libmicrohttpd's. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include "door.h"
#include "tools/base/log.h"

/* The longest header, and what the library needs besides. */
#define HEADER_MAX	32768

/**
 * struct method - what may be done where
 * @body: bytes of the longest one, 0: none, SIZE_MAX: an object's
 */
static const struct method {
	enum route route;
	const char *name;
	enum MHD_Result (*run)(struct conn *conn);
	size_t body;
} methods[] = {
	{ ROUTE_OBJECT, "PUT", object_put, SIZE_MAX },
	{ ROUTE_OBJECT, "DELETE", take_delete, 0 },
	{ ROUTE_OBJECT, "GET", object_show, 0 },
	{ ROUTE_OBJECT, "HEAD", object_show, 0 },
	{ ROUTE_OBJECT, "PATCH", object_live, 0 },
	{ ROUTE_BAN, "POST", take_ban, 0 },
	{ ROUTE_FLUSH, "POST", take_flush, 0 },
	{ ROUTE_TICKET, "GET", show_ticket, 0 },
	{ ROUTE_STATUS, "GET", show_status, 0 },
	{ ROUTE_PEER, "POST", take_peer, PEER_BODY_MAX },
};

static struct conn *conn_of(struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

enum MHD_Result http_answer(struct conn *conn, unsigned int status, json_t *json)
{
	struct counts *counts = &conn->door->counts;
	struct MHD_Response *response = NULL;
	enum MHD_Result done = MHD_NO;
	char *text = json ? json_dumps(json, JSON_INDENT(1)) : NULL, *line;
	const char *version = json_string_value(json_object_get(json, "etag"));

	counts->wrong += status >= 400 && status < 500;
	counts->failed += status >= 500;
	/* Who takes the answer has as long as who asked. */
	crowd_begin(&conn->door->crowd, conn);
	if (text && asprintf(&line, "%s\n", text) >= 0)
		response = MHD_create_response_from_buffer(strlen(line), line, MHD_RESPMEM_MUST_FREE);
	if (response) {
		MHD_add_response_header(response, "Content-Type", "application/json");
		MHD_add_response_header(response, "Cache-Control", "no-store");
		if (status == 401)
			MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
		if (version)
			MHD_add_response_header(response, "ETag", version);
		/* What has not been read of a body would be the next request. */
		if (status >= 400)
			MHD_add_response_header(response, "Connection", "close");
		done = MHD_queue_response(conn->mhd, status, response);
		MHD_destroy_response(response);
	}
	free(text);
	json_decref(json);
	return done;
}

enum MHD_Result http_sorry(struct conn *conn, unsigned int status, const char *why)
{
	return http_answer(conn, status, json_pack("{s:s}", "error", why));
}

/* Whose token it is. */
static bool is_known(struct conn *conn)
{
	const char *shown = MHD_lookup_connection_value(conn->mhd, MHD_HEADER_KIND, "Authorization");
	struct door *door = conn->door;
	bool client, peer;

	if (!shown || strncasecmp(shown, "Bearer ", 7))
		return false;
	shown += 7 + strspn(shown + 7, " ");
	pthread_mutex_lock(&door->lock);
	client = tokens_have(&door->tokens, shown);
	peer = tokens_have(&door->peer_tokens, shown);
	pthread_mutex_unlock(&door->lock);
	conn->as_peer = peer && !client;
	return client || peer;
}

struct reading {
	struct conn *conn;
	const char *why;
};

static enum MHD_Result read_field(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct reading *r = cls;

	(void)kind;
	r->why = fields_take(&r->conn->fields, name, value ? value : "");
	return r->why ? MHD_NO : MHD_YES;
}

static const struct method *find_method(const struct conn *conn, const char *name)
{
	unsigned int i;

	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (methods[i].route == conn->target.route && !strcmp(methods[i].name, name))
			return &methods[i];
	return NULL;
}

static size_t body_most(const struct conn *conn, const struct method *method)
{
	return method->body == SIZE_MAX ? conn->door->config.body_max : method->body;
}

/* Memory for so many bytes in all; false: there is none. */
static bool have_room(struct conn *conn, size_t room)
{
	struct door *door = conn->door;
	char *more;

	if (room <= conn->room)
		return true;
	if (door->memory + (room - conn->counted) > door->config.memory)
		return false;
	more = realloc(conn->body, room + 1);
	if (!more)
		return false;
	door->memory += room - conn->counted;
	conn->counted = room;
	conn->body = more;
	conn->room = room;
	return true;
}

static enum MHD_Result judge_body(struct conn *conn, const struct method *method)
{
	const char *length = MHD_lookup_connection_value(conn->mhd, MHD_HEADER_KIND, "Content-Length");
	bool chunked = MHD_lookup_connection_value(conn->mhd, MHD_HEADER_KIND, "Transfer-Encoding");
	unsigned long long bytes = 0;
	char *end = NULL;

	if (length) {
		errno = 0;
		bytes = strtoull(length, &end, 10);
		if (*length < '0' || *length > '9' || *end || errno || chunked)
			return http_sorry(conn, 400, "Content-Length is not a number, or not alone");
	}
	if (!method->body && (bytes || chunked))
		return http_sorry(conn, 400, "there is a body where none belongs");
	if (method->body && !length && !chunked)
		return http_sorry(conn, 411, "there is no body, and not even an empty one");
	if (bytes > body_most(conn, method))
		return http_sorry(conn, 413, "the body is longer than max-body");
	if (method->body && !have_room(conn, bytes))
		return http_sorry(conn, 503, "too much is being put at the same time; try again");
	return MHD_YES;
}

/*
 * The library has made strings of the request line where it stands: behind the target's end is the version, unless
 * there was a NUL before.
 */
static bool is_whole(const struct conn *conn, const char *version)
{
	return version == conn->target_end + 1;
}

static enum MHD_Result judge(struct conn *conn, const char *name, const char *version)
{
	struct reading r = { .conn = conn };
	const struct method *method;
	const char *why;

	conn->door->counts.requests++;
	if (!is_known(conn)) {
		conn->door->counts.refused++;
		return http_sorry(conn, 401, "there is no token, or not one of those that count");
	}
	conn->known = true;
	if (!conn->has_target || conn->target_long)
		return http_sorry(conn, 414, "the target is too long");
	if (!is_whole(conn, version))
		return http_sorry(conn, 400, "there is a NUL in the target");
	why = target_parse(conn->target_text, &conn->target);
	if (why)
		return http_sorry(conn, conn->target.route == ROUTE_NONE ? 404 : 400, why);
	if (conn->as_peer != (conn->target.route == ROUTE_PEER))
		return http_sorry(conn, 403, "that token is not for this");
	method = find_method(conn, name);
	if (!method)
		return http_sorry(conn, 405, "that cannot be done here; see afpad(8)");
	MHD_get_connection_values(conn->mhd, MHD_HEADER_KIND, read_field, &r);
	if (!r.why)
		r.why = fields_end(&conn->fields);
	if (r.why)
		return http_sorry(conn, 400, r.why);
	return judge_body(conn, method);
}

/* MHD_NO ends the connection: the library takes no answer amid a body. */
static enum MHD_Result take_bytes(struct conn *conn, const char *name, const char *data, size_t *size)
{
	const struct method *method = find_method(conn, name);
	size_t len = conn->len + *size, room = conn->room;

	if (!method || len > body_most(conn, method))
		return MHD_NO;
	if (len > room)
		room = len < body_most(conn, method) / 2 ? len * 2 : body_most(conn, method);
	if (!have_room(conn, room))
		return MHD_NO;
	memcpy(conn->body + conn->len, data, *size);
	conn->len = len;
	crowd_grown(&conn->door->crowd, conn, *size);
	*size = 0;
	return MHD_YES;
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *mhd, const char *url, const char *name,
			      const char *version, const char *data, size_t *size, void **context)
{
	struct conn *conn = conn_of(mhd);
	const struct method *method;

	(void)cls;
	(void)url;
	*context = conn;
	if (!conn)
		return MHD_NO;
	if (!conn->seen) {
		conn->seen = true;
		return judge(conn, name, version);
	}
	if (*size)
		return take_bytes(conn, name, data, size);
	crowd_here(&conn->door->crowd, conn);
	if (conn->waited)
		return told(conn);
	method = find_method(conn, name);
	return method ? method->run(conn) : MHD_NO;
}

/* The first that is known of a request: its target, before anything is decoded. */
static void *begin(void *cls, const char *uri, struct MHD_Connection *mhd)
{
	struct conn *conn = conn_of(mhd);
	size_t len = strlen(uri);

	(void)cls;
	if (!conn)
		return NULL;
	conn_clear(conn);
	conn->has_target = true;
	conn->target_end = uri + len;
	conn->target_long = len >= sizeof(conn->target_text);
	if (!conn->target_long)
		memcpy(conn->target_text, uri, len + 1);
	return conn;
}

static void completed(void *cls, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode code)
{
	struct conn *conn = conn_of(mhd);

	(void)cls;
	(void)code;
	*context = NULL;
	if (!conn)
		return;
	conn_clear(conn);
	crowd_begin(&conn->door->crowd, conn);
}

/* Nothing is decoded: what a path means is the server's. */
static size_t as_it_is(void *cls, struct MHD_Connection *mhd, char *text)
{
	(void)cls;
	(void)mhd;
	return strlen(text);
}

static void library_says(void *cls, const char *format, va_list args)
{
	char text[256], quoted[512];

	(void)cls;
	vsnprintf(text, sizeof(text), format, args);
	log_client("http", "text=%s", log_quote(text, strlen(text), quoted, sizeof(quoted)));
}

int http_start(struct door *door, int socket)
{
	const struct config *c = &door->config;
	unsigned int flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC |
			     MHD_USE_ERROR_LOG | (door->certificate ? MHD_USE_TLS : 0);
	struct MHD_OptionItem tls[] = {
		{ MHD_OPTION_HTTPS_MEM_CERT, 0, door->certificate },
		{ MHD_OPTION_HTTPS_MEM_KEY, 0, door->key },
		{ MHD_OPTION_HTTPS_PRIORITIES, 0, "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2" },
		{ MHD_OPTION_END, 0, NULL },
	};

	door->http = MHD_start_daemon(flags, 0, NULL, NULL, handle, door,
				      MHD_OPTION_EXTERNAL_LOGGER, library_says, NULL,
				      MHD_OPTION_LISTEN_SOCKET, socket,
				      MHD_OPTION_CONNECTION_LIMIT, c->connections,
				      MHD_OPTION_PER_IP_CONNECTION_LIMIT, c->connections_address,
				      MHD_OPTION_CONNECTION_TIMEOUT, (c->timeout_ms + 999) / 1000,
				      MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_MAX,
				      MHD_OPTION_STRICT_FOR_CLIENT, 1,
				      MHD_OPTION_NOTIFY_CONNECTION, crowd_notify, door,
				      MHD_OPTION_NOTIFY_COMPLETED, completed, door,
				      MHD_OPTION_URI_LOG_CALLBACK, begin, door,
				      MHD_OPTION_UNESCAPE_CALLBACK, as_it_is, door,
				      MHD_OPTION_ARRAY, door->certificate ? tls : tls + 3,
				      MHD_OPTION_END);
	return door->http ? 0 : -EIO;
}

void http_stop(struct door *door)
{
	MHD_socket socket = MHD_quiesce_daemon(door->http);

	if (socket != MHD_INVALID_SOCKET)
		close(socket);
	/* A suspended connection must not be there when it stops. */
	peers_stop(door->peers);
	MHD_stop_daemon(door->http);
}
