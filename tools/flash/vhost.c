// SPDX-License-Identifier: GPL-2.0
/* Virtual hosts: what is served under a name, and how. */
#include "vhost.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "listener.h"
#include "message.h"

#define ERROR_PAGE_MAX (64 << 10)

static const char *const symlinks_names[] = { "beneath", "follow", "deny", NULL };

struct vhost *vhost_new(struct conf *conf)
{
	struct vhost *v = calloc(1, sizeof(*v)), **p;

	if (!v)
		return NULL;
	v->root_fd = -1;
	v->id = conf->nr_vhosts++;
	for (p = &conf->vhosts; *p; p = &(*p)->next)
		;
	*p = v;
	return v;
}

static void free_words(char **words)
{
	int i;

	for (i = 0; words && words[i]; i++)
		free(words[i]);
	free(words);
}

static char **copy_words(char **words, int n)
{
	char **copy = calloc(n + 1, sizeof(*copy));
	int i;

	for (i = 0; copy && i < n; i++) {
		copy[i] = strdup(words[i]);
		if (!copy[i]) {
			free_words(copy);
			return NULL;
		}
	}
	return copy;
}

struct vhost *vhost_add(struct conf *conf, char **names, int n)
{
	struct vhost *v = vhost_new(conf);
	const struct vhost *d = conf->vhosts;
	char *p;
	int i;

	if (!v)
		return NULL;
	v->listing = d->listing;
	v->precompressed = d->precompressed;
	v->symlinks = d->symlinks;
	v->names = copy_words(names, n);
	for (i = 0; v->names && i < n; i++)
		for (p = v->names[i]; *p; p++)
			*p = tolower((unsigned char)*p);
	return v->names ? v : NULL;
}

static int wrong(const char *where, const char *what, const char *value)
{
	return message("%s: %s%s%s", where, what, value ? ": " : "", value ? value : "");
}

/* All of it, and small: what would be cut off is not another number. 0: it is none. */
static int number(const char *text)
{
	size_t n = strlen(text);

	return n <= 4 && strspn(text, "0123456789") == n ? atoi(text) : 0;
}

static bool is_fastcgi_target(const char *text)
{
	const char *colon = strrchr(text, ':');

	return !strncmp(text, "unix:", 5) || !strncmp(text, "exec:", 5) ||
	       (colon && colon > text && listen_port_is_valid(colon + 1));
}

static int app_add(struct conf *conf, struct vhost *v, enum app_kind kind, char **words, int n,
		   const char *where)
{
	struct app *app, **p;
	const char *match = words[1];
	size_t len = strlen(match);

	if (match[0] != '*' && match[0] != '/')
		return wrong(where, "must begin with / or *.", match);
	if (kind == APP_CGI && (match[0] != '/' || match[len - 1] != '/'))
		return wrong(where, "cgi needs a prefix that begins and ends with /", match);
	if (kind == APP_FASTCGI && !is_fastcgi_target(words[2]))
		return wrong(where, "fastcgi needs unix:PATH, HOST:PORT or exec:PROGRAM", words[2]);
	app = calloc(1, sizeof(*app));
	if (!app)
		return -1;
	app->kind = kind;
	app->match = strdup(match);
	app->target = strdup(kind == APP_STATUS ? "" : words[2]);
	app->procs = n > 3 ? number(words[3]) : 1;
	app->index = conf->nr_apps++;
	conf->programs |= match[0] == '*' || kind == APP_CGI ||
			  (kind == APP_FASTCGI && !strncmp(words[2], "exec:", 5));
	for (p = &v->apps; *p; p = &(*p)->next)
		;
	*p = app;
	if (!app->match || !app->target)
		return -1;
	if (app->procs < 1 || app->procs > 256)
		return wrong(where, "number of processes must be from 1 to 256", words[3]);
	return 0;
}

static int error_page_add(struct vhost *v, char **words, const char *where)
{
	struct error_page *page = calloc(1, sizeof(*page));

	if (!page)
		return -1;
	page->next = v->error_pages;
	v->error_pages = page;
	page->status = number(words[1]);
	page->file = strdup(words[2]);
	if (!page->file)
		return -1;
	if (page->status < 400 || page->status > 599)
		return wrong(where, "error_page needs a status from 400 to 599", words[1]);
	return 0;
}

static int header_add(struct vhost *v, char **words, const char *where)
{
	char *p, *grown;
	const char *c;
	int len;

	for (c = words[1]; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("-_", *c))
			return wrong(where, "not a header name", words[1]);
	for (c = words[2]; *c; c++)
		if ((unsigned char)*c < ' ')
			return wrong(where, "control character in a header", words[1]);
	len = asprintf(&p, "%s: %s\r\n", words[1], words[2]);
	if (len < 0)
		return -1;
	grown = realloc(v->headers, v->headers_len + len + 1);
	if (!grown) {
		free(p);
		return -1;
	}
	memcpy(grown + v->headers_len, p, len + 1);
	v->headers = grown;
	v->headers_len += len;
	free(p);
	return v->headers_len > 2048 ? wrong(where, "more than 2048 bytes of headers", NULL) : 0;
}

static int set_flag(bool *field, const char *name, const char *value, const char *where)
{
	if (strcmp(value, "on") && strcmp(value, "off"))
		return wrong(where, name, "must be on or off");
	*field = !strcmp(value, "on");
	return 0;
}

static int set_words(char ***field, char **words, int n)
{
	free_words(*field);
	*field = copy_words(words, n);
	return *field ? 0 : -1;
}

static int set_symlinks(struct vhost *v, const char *value, const char *where)
{
	int i;

	for (i = 0; symlinks_names[i]; i++) {
		if (!strcmp(symlinks_names[i], value)) {
			v->symlinks = i;
			return 0;
		}
	}
	return wrong(where, "symlinks must be beneath, follow or deny", value);
}

enum directive { ROOT, INDEX, LISTING, PRECOMPRESSED, SYMLINKS, USERDIR, HEADER, ERROR_PAGE, CGI,
		 FASTCGI, STATUS };

static const struct {
	const char *name;
	int min, max;		/* words, with the name */
	const char *help;
} directives[] = {
	[ROOT] = { "root", 2, 2, "document root" },
	[INDEX] = { "index", 2, 16, "names tried for a directory [index.html]" },
	[LISTING] = { "listing", 2, 2, "list directories without an index [off]" },
	[PRECOMPRESSED] = { "precompressed", 2, 2, "send FILE.br or FILE.gz when it exists [off]" },
	[SYMLINKS] = { "symlinks", 2, 2, "beneath the root only, follow all, or deny [beneath]" },
	[USERDIR] = { "userdir", 2, 2, "directory of /~NAME/, with + for NAME: /home/+/public_html" },
	[HEADER] = { "header", 3, 3, "NAME VALUE: a header of every response with a file" },
	[ERROR_PAGE] = { "error_page", 3, 3, "STATUS FILE: body of an error response" },
	[CGI] = { "cgi", 3, 3, "/PREFIX/ DIRECTORY: programs run once a request" },
	[FASTCGI] = { "fastcgi", 3, 4,
		      "/PREFIX/ or *.SUFFIX, unix:PATH, HOST:PORT or exec:PROGRAM [processes]" },
	[STATUS] = { "status", 2, 2, "PATH: counters in JSON" },
};

int vhost_set(struct conf *conf, struct vhost *v, char **words, int n, const char *where)
{
	size_t i;

	for (i = 0; i < sizeof(directives) / sizeof(directives[0]); i++)
		if (!strcmp(words[0], directives[i].name))
			break;
	if (i == sizeof(directives) / sizeof(directives[0]))
		return 1;
	if (n < directives[i].min || n > directives[i].max)
		return wrong(where, words[0], directives[i].help);
	switch ((enum directive)i) {
	case ROOT:
		free(v->root);
		v->root = strdup(words[1]);
		return v->root ? 0 : -1;
	case INDEX:
		return set_words(&v->index, words + 1, n - 1);
	case LISTING:
		return set_flag(&v->listing, words[0], words[1], where);
	case PRECOMPRESSED:
		return set_flag(&v->precompressed, words[0], words[1], where);
	case SYMLINKS:
		return set_symlinks(v, words[1], where);
	case USERDIR:
		if (words[1][0] != '/' || !strchr(words[1], '+'))
			return wrong(where, "userdir needs an absolute path with a +", words[1]);
		free(v->userdir);
		v->userdir = strdup(words[1]);
		return v->userdir ? 0 : -1;
	case HEADER:
		return header_add(v, words, where);
	case ERROR_PAGE:
		return error_page_add(v, words, where);
	case CGI:
		return app_add(conf, v, APP_CGI, words, n, where);
	case FASTCGI:
		return app_add(conf, v, APP_FASTCGI, words, n, where);
	case STATUS:
		return app_add(conf, v, APP_STATUS, words, n, where);
	}
	return 1;
}

static int error_page_read(struct error_page *page)
{
	int fd = open(page->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	ssize_t n = -1;

	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size <= ERROR_PAGE_MAX) {
		page->body = malloc(st.st_size + 1);
		if (page->body)
			n = read(fd, page->body, st.st_size);
	}
	if (fd >= 0)
		close(fd);
	if (n < 0)
		return wrong(page->file, "not a readable file of at most 64 KB", NULL);
	page->len = n;
	return 0;
}

/* By the name that it has without links. */
static bool is_program_file(const struct conf *conf, const char *file)
{
	char *name = realpath(file, NULL);
	struct stat st;
	bool is = name && !stat(name, &st) &&
		  (vhost_program_text(conf, name) || vhost_program_place(conf, name, st.st_mode));

	free(name);
	return is;
}

/* Index names lead below their directory, as names in requests do. */
static int index_check(const struct vhost *v)
{
	const char *p;
	int i;

	for (i = 0; v->index[i]; i++) {
		p = v->index[i];
		if (!*p || *p == '/')
			return wrong(p, "cannot be an index", "not a name below the directory");
		for (; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
			if (!strncmp(p, "..", 2) && (!p[2] || p[2] == '/'))
				return wrong(v->index[i], "cannot be an index", "it climbs");
	}
	return 0;
}

static bool is_below(const char *name, const char *place)
{
	size_t n = strlen(place);

	return !strncmp(name, place, n) && (!name[n] || name[n] == '/' || place[n - 1] == '/');
}

/* Where programs lie, and whether documents lie there, too. */
static int find_programs(struct conf *conf)
{
	struct vhost *v, *other;
	struct app *app;
	char *root;

	for (v = conf->vhosts; v; v = v->next) {
		for (app = v->apps; app; app = app->next) {
			free(app->place);
			app->place = NULL;
			errno = 0;
			if (app->kind == APP_CGI)
				app->place = realpath(app->target, NULL);
			else if (app->kind == APP_FASTCGI && !strncmp(app->target, "exec:", 5))
				app->place = realpath(app->target + 5, NULL);
			if (!app->place && errno == ENOMEM)
				return -1;
			for (other = conf->vhosts; app->place && other; other = other->next) {
				root = realpath(other->root, NULL);
				app->shared |= root && is_below(root, app->place);
				free(root);
			}
		}
	}
	return 0;
}

int vhost_finish(struct conf *conf)
{
	static char *index[] = { "index.html" };
	struct vhost *v, *d = conf->vhosts;
	struct error_page *page;
	struct stat st;

	for (v = d; v; v = v->next) {
		if (!v->root)
			v->root = strdup(d->root ? d->root : ".");
		if (!v->root)
			return -1;
		if (stat(v->root, &st) || !S_ISDIR(st.st_mode))
			return wrong(v->root, "cannot be the document root",
				     errno ? strerror(errno) : "not a directory");
		if (!v->index && v != d && d->index)
			v->index = d->index;
		if (!v->index)
			v->index = copy_words(index, 1);
		if (!v->index)
			return -1;
		if (index_check(v))
			return -1;
	}
	if (find_programs(conf))
		return -1;
	for (v = d; v; v = v->next) {
		for (page = v->error_pages; page; page = page->next) {
			/* It is sent as it is. */
			if (vhost_program_text(conf, page->file) || is_program_file(conf, page->file))
				return wrong(page->file, "is a program, not an error page", NULL);
			if (!page->body && error_page_read(page))
				return -1;
		}
	}
	return 0;
}

void vhost_free_all(struct conf *conf)
{
	struct vhost *v, *d = conf->vhosts;

	while ((v = conf->vhosts)) {
		conf->vhosts = v->next;
		while (v->apps) {
			struct app *app = v->apps;

			v->apps = app->next;
			free(app->match);
			free(app->target);
			free(app->place);
			free(app);
		}
		while (v->error_pages) {
			struct error_page *page = v->error_pages;

			v->error_pages = page->next;
			free(page->file);
			free(page->body);
			free(page);
		}
		if (v->root_fd >= 0)
			close(v->root_fd);
		free_words(v->names);
		if (v == d || v->index != d->index)
			free_words(v->index);
		free(v->root);
		free(v->userdir);
		free(v->headers);
		if (v != d)
			free(v);
	}
	free(d);
}

void vhost_help(FILE *out)
{
	size_t i;

	fputs("\nOf a virtual host (vhost NAME... { }), or of the default one:\n", out);
	for (i = 0; i < sizeof(directives) / sizeof(directives[0]); i++)
		fprintf(out, "  %-19s %s\n", directives[i].name, directives[i].help);
}

void vhost_show(const struct conf *conf, FILE *out)
{
	const struct vhost *v;
	const struct app *app;
	int i;

	for (v = conf->vhosts; v; v = v->next) {
		fputs("vhost", out);
		for (i = 0; v->names && v->names[i]; i++)
			fprintf(out, " %s", v->names[i]);
		fprintf(out, "%s {\n\troot %s\n\tindex", v->names ? "" : " *", v->root);
		for (i = 0; v->index[i]; i++)
			fprintf(out, " %s", v->index[i]);
		fprintf(out, "\n\tlisting %s\n\tprecompressed %s\n\tsymlinks %s\n",
			v->listing ? "on" : "off", v->precompressed ? "on" : "off",
			symlinks_names[v->symlinks]);
		for (app = v->apps; app; app = app->next)
			fprintf(out, "\t%s %s %s\n",
				app->kind == APP_CGI ? "cgi" :
				app->kind == APP_STATUS ? "status" : "fastcgi",
				app->match, app->target);
		fputs("}\n", out);
	}
}

const struct error_page *vhost_error_page(const struct vhost *vhost, int status)
{
	const struct error_page *page;

	for (page = vhost->error_pages; page; page = page->next)
		if (page->status == status)
			return page;
	return NULL;
}

/* Suffixes in either case, as file systems that fold it would find the file. */
static bool has_suffix(const char *name, size_t n, const char *suffix)
{
	size_t len = strlen(suffix);

	return n >= len && !strncasecmp(name + n - len, suffix, len);
}

const struct app *vhost_app(const struct vhost *vhost, const char *name)
{
	const struct app *app;

	for (app = vhost->apps; app; app = app->next) {
		if (app->match[0] == '*' ? has_suffix(name, strlen(name), app->match + 1) :
		    app->kind == APP_STATUS ? !strcmp(name, app->match) :
					      !strncmp(name, app->match, strlen(app->match)))
			return app;
	}
	return NULL;
}

bool vhost_program_text(const struct conf *conf, const char *name)
{
	const struct vhost *v;
	const struct app *app;
	size_t n = strlen(name);

	while (n && (name[n - 1] == '.' || name[n - 1] == ' '))
		n--;
	for (v = conf->vhosts; v; v = v->next)
		for (app = v->apps; app; app = app->next)
			if (app->match[0] == '*' && has_suffix(name, n, app->match + 1))
				return true;
	return false;
}

bool vhost_program_place(const struct conf *conf, const char *name, unsigned int mode)
{
	const struct vhost *v;
	const struct app *app;

	for (v = conf->vhosts; v; v = v->next)
		for (app = v->apps; app; app = app->next)
			if (app->place && is_below(name, app->place) && (!app->shared || mode & 0111))
				return true;
	return false;
}

static bool name_matches(const char *name, const char *host, size_t len)
{
	size_t n = strlen(name);

	if (name[0] == '*' && name[1] == '.') {
		name++;
		n--;
		if (len <= n)
			return false;
		host += len - n;
		len = n;
	}
	return n == len && !strncasecmp(name, host, n);
}

/* A trailing dot makes the name absolute and means the same host. */
const struct vhost *vhost_find(const struct conf *conf, const char *host, size_t len)
{
	const struct vhost *v, *wild = NULL;
	int i;

	if (len && host[len - 1] == '.')
		len--;
	for (v = conf->vhosts->next; v; v = v->next) {
		for (i = 0; v->names[i]; i++) {
			if (!name_matches(v->names[i], host, len))
				continue;
			if (v->names[i][0] != '*')
				return v;
			if (!wild)
				wild = v;
		}
	}
	return wild ? wild : conf->vhosts;
}
