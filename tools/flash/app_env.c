// SPDX-License-Identifier: GPL-2.0
/* What a program is told about its request (RFC 3875 4.1). */
#include "app.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static int env_text(struct app_run *run, const char *name, const char *value)
{
	return app_env(run, name, value, strlen(value));
}

static int env_slice(struct app_run *run, const char *name, const struct slice *s)
{
	return app_env(run, name, s->p ? s->p : "", s->len);
}

/*
 * "Accept-Language" -> HTTP_ACCEPT_LANGUAGE. A name with '_' could pass for another one with '-',
 * and HTTP_PROXY would be taken for a proxy setting by programs: both are left out.
 */
static int env_headers(struct app_run *run, const struct request *req)
{
	struct slice name, value;
	const char *pos = NULL;
	char var[128] = "HTTP_";
	uint32_t i;
	int err = 0;

	while (!err && request_header_next(req, &pos, &name, &value)) {
		if (memchr(name.p, '_', name.len) || name.len > sizeof(var) - 6 ||
		    slice_is(&name, "proxy") || slice_is(&name, "content-length"))
			continue;
		for (i = 0; i < name.len; i++) {
			char c = name.p[i];

			var[5 + i] = c == '-' ? '_' : c >= 'a' && c <= 'z' ? c - 32 : c;
		}
		var[5 + i] = '\0';
		err = env_slice(run, strcmp(var, "HTTP_CONTENT_TYPE") ? var : var + 5, &value);
	}
	return err;
}

static int env_address(struct app_run *run)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	char port[8];

	if (getsockname(run->c->watch.fd, (struct sockaddr *)&addr, &len))
		return -1;
	snprintf(port, sizeof(port), "%d", ntohs(((struct sockaddr_in *)&addr)->sin_port));
	return env_text(run, "SERVER_PORT", port) ||
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
	struct slice uri = { req->path.p, req->path.len };
	int err;

	if (req->query.p && req->query.p == uri.p + uri.len + 1)
		uri.len += 1 + req->query.len;
	err = env_script(run, p);
	if (err)
		return err;
	if (env_text(run, "GATEWAY_INTERFACE", "CGI/1.1") ||
	    env_text(run, "SERVER_SOFTWARE", "flash") ||
	    env_text(run, "SERVER_PROTOCOL", run->http10 ? "HTTP/1.0" : "HTTP/1.1") ||
	    env_slice(run, "SERVER_NAME", &req->host) ||
	    env_slice(run, "REQUEST_METHOD", &req->method_name) ||
	    env_slice(run, "QUERY_STRING", &req->query) || env_slice(run, "REQUEST_URI", &uri) ||
	    env_text(run, "DOCUMENT_ROOT", p->vhost->root) ||
	    env_text(run, "SCRIPT_FILENAME", run->script) || env_address(run) ||
	    env_headers(run, req))
		return -431;
	return 0;
}
