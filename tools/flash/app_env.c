// SPDX-License-Identifier: GPL-2.0
/* What a program is told about its request (RFC 3875 4.1). */
#include "app.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "file.h"

#define ENV_MAX (128 << 10)

static int grow(char **p, size_t *cap, size_t need, size_t max)
{
	size_t n = *cap ? *cap : 1024;
	char *grown;

	if (need <= *cap)
		return 0;
	if (need > max)
		return -1;
	while (n < need)
		n *= 2;
	grown = realloc(*p, n);
	if (!grown)
		return -1;
	*p = grown;
	*cap = n;
	return 0;
}

int app_env(struct app_run *run, const char *name, const char *value, size_t len)
{
	size_t name_len = strlen(name);
	char *o;

	if (memchr(value, '\0', len) ||
	    grow(&run->env, &run->env_cap, run->env_len + name_len + len + 2, ENV_MAX))
		return -1;
	o = run->env + run->env_len;
	memcpy(o, name, name_len);
	o[name_len] = '=';
	memcpy(o + name_len + 1, value, len);
	o[name_len + 1 + len] = '\0';
	run->env_len += name_len + len + 2;
	run->nr_env++;
	return 0;
}

/* Behind the value that was put last. */
static int env_more(struct app_run *run, const char *text, size_t len)
{
	if (memchr(text, '\0', len) || grow(&run->env, &run->env_cap, run->env_len + len, ENV_MAX))
		return -1;
	memcpy(run->env + run->env_len - 1, text, len);
	run->env_len += len;
	run->env[run->env_len - 1] = '\0';
	return 0;
}

static int env_text(struct app_run *run, const char *name, const char *value)
{
	return app_env(run, name, value, strlen(value));
}

static int env_slice(struct app_run *run, const char *name, const struct slice *s)
{
	return app_env(run, name, s->p ? s->p : "", s->len);
}

/*
 * "Accept-Language" -> HTTP_ACCEPT_LANGUAGE. Only names of letters, digits and '-': '_' and, to PHP,
 * '.' could pass for it, and others are no names to a shell. HTTP_PROXY would be taken for a proxy
 * setting by programs. These are left out.
 */
static bool env_name(char *var, size_t size, const struct slice *name)
{
	uint32_t i;

	if (name->len >= size || slice_is(name, "proxy") || slice_is(name, "content-length"))
		return false;
	for (i = 0; i < name->len; i++) {
		char c = name->p[i];

		if (c == '-')
			c = '_';
		else if (c >= 'a' && c <= 'z')
			c -= 32;
		else if (!(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9'))
			return false;
		var[i] = c;
	}
	var[i] = '\0';
	return true;
}

static bool same_header(const struct slice *a, const struct slice *b)
{
	return a->len == b->len && !strncasecmp(a->p, b->p, a->len);
}

/* Was there one of that name before it? */
static bool seen_before(const struct request *req, const struct slice *name)
{
	struct slice other, value;
	const char *pos = NULL;

	while (request_header_next(req, &pos, &other, &value) && other.p != name->p)
		if (same_header(&other, name))
			return true;
	return false;
}

/*
 * Several of one name are one value (RFC 3875 4.1.18): of two variables programs take the first or
 * the last, and a client's could stand for what a proxy has added.
 */
static int env_header(struct app_run *run, const struct request *req, const char *var,
		      const struct slice *name, const struct slice *value, const char *pos)
{
	const char *between = slice_is(name, "cookie") ? "; " : ", ";
	struct slice other, more;
	int err = env_slice(run, var, value);

	while (!err && request_header_next(req, &pos, &other, &more))
		if (same_header(&other, name))
			err = env_more(run, between, 2) || env_more(run, more.p, more.len);
	return err;
}

static int env_headers(struct app_run *run, const struct request *req)
{
	struct slice name, value;
	const char *pos = NULL;
	char var[128] = "HTTP_";
	int err = 0;

	while (!err && request_header_next(req, &pos, &name, &value))
		if (env_name(var + 5, sizeof(var) - 5, &name) && !seen_before(req, &name))
			err = env_header(run, req, strcmp(var, "HTTP_CONTENT_TYPE") ? var : var + 5,
					 &name, &value, pos);
	return err;
}

static int env_address(struct app_run *run)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	char port[8];

	if (getsockname(conn_socket(run->c), (struct sockaddr *)&addr, &len))
		return -1;
	snprintf(port, sizeof(port), "%d", ntohs(((struct sockaddr_in *)&addr)->sin_port));
	return (conn_is_secure(run->c) && env_text(run, "HTTPS", "on")) ||
	       env_text(run, "REQUEST_SCHEME", conn_is_secure(run->c) ? "https" : "http") ||
	       env_text(run, "SERVER_PORT", port) ||
	       env_text(run, "REMOTE_ADDR", conn_address(run->c));
}

/* What part of the path names the script, and the file it stands for. */
static int env_script(struct app_run *run, const struct path *p)
{
	const struct app *app = run->app;
	const char *path = p->app_path, *name, *end;
	char script_name[1024];

	if (app->match[0] == '*') {		/* by suffix: a file below the root */
		if (asprintf(&run->script, "%s%s", p->vhost->root, path) < 0)
			return -503;
		return env_text(run, "SCRIPT_NAME", path) || env_text(run, "PATH_INFO", "") ?
		       -431 : 0;
	}
	name = path + strlen(app->match);
	end = strchr(name, '/');
	if (!end)
		end = name + strlen(name);
	if (app->kind == APP_CGI) {
		if (end == name || *name == '.')
			return -404;
		if (asprintf(&run->script, "%s/%.*s", app->target, (int)(end - name), name) < 0)
			return -503;
	} else {
		end = path + strlen(app->match) - (app->match[strlen(app->match) - 1] == '/');
		if (asprintf(&run->script, "%s%s", p->vhost->root, path) < 0)
			return -503;
	}
	if (snprintf(script_name, sizeof(script_name), "%.*s", (int)(end - path), path) >=
	    (int)sizeof(script_name))
		return -414;
	return env_text(run, "SCRIPT_NAME", script_name) || env_text(run, "PATH_INFO", end) ?
	       -431 : 0;
}

int app_env_build(struct app_run *run, const struct request *req, const struct path *p)
{
	const char *protocol = run->c->stream ? "HTTP/2.0" : run->http10 ? "HTTP/1.0" : "HTTP/1.1";
	struct slice uri = { req->path.p, req->path.len };
	int err;

	if (req->query.p && req->query.p == uri.p + uri.len + 1)
		uri.len += 1 + req->query.len;
	err = env_script(run, p);
	if (err)
		return err;
	if (env_text(run, "GATEWAY_INTERFACE", "CGI/1.1") ||
	    env_text(run, "SERVER_SOFTWARE", "flash") ||
	    env_text(run, "SERVER_PROTOCOL", protocol) ||
	    env_slice(run, "SERVER_NAME", &req->host) ||
	    env_slice(run, "REQUEST_METHOD", &req->method_name) ||
	    env_slice(run, "QUERY_STRING", &req->query) || env_slice(run, "REQUEST_URI", &uri) ||
	    env_text(run, "DOCUMENT_ROOT", p->vhost->root) ||
	    env_text(run, "SCRIPT_FILENAME", run->script) || env_address(run) ||
	    env_headers(run, req))
		return -431;
	return 0;
}
