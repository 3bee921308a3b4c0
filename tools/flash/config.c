// SPDX-License-Identifier: GPL-2.0
/* Configuration: the table of directives and the file they come from. */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "https.h"
#include "lard/tls/tls.h"
#include "listener.h"
#include "message.h"
#include "mime.h"
#include "textfile.h"
#include "vhost.h"

const char *const architecture_names[] = { "amped", "sped", "mp", "mt", NULL };
const char *const event_backend_names[] = { "epoll", "io_uring", "uselect", NULL };
static const char *const transfer_names[] = { "sendfile", "mmap", "iolite", NULL };
static const char *const residency_names[] = { "auto", "preadv2", "cachestat", "mincore",
						"mlock", "clock", "off", NULL };
static const char *const helper_kind_names[] = { "threads", "processes", "io_uring", NULL };
static const char *const schedule_names[] = { "fifo", "small-first", NULL };
static const char *const log_format_names[] = { "combined", "json", NULL };

enum kind { FLAG, COUNT, SIZE, SECONDS, MILLISECONDS, TEXT, CHOICE, LISTEN, WORKERS, WORDS };

#define WORDS_MAX 8

static const struct directive {
	const char *name;
	enum kind kind;
	size_t offset;		/* in struct conf */
	bool wide;		/* what is there has 64 bits */
	uint64_t min, max;
	const char *const *choices;
	int (*set)(struct conf *conf, char **words, int n, char *why, size_t size);
	const char *help;
} directives[] = {
#define FIELD(field) .offset = offsetof(struct conf, field), \
		     .wide = sizeof(((struct conf *)NULL)->field) == sizeof(uint64_t)
#define RANGE(name, kind, field, least, most, text) \
	{ name, kind, FIELD(field), .min = least, .max = most, .help = text }
#define SWITCH(name, field, text)	{ name, FLAG, FIELD(field), .help = text }
#define STRING(name, field, text)	{ name, TEXT, FIELD(field), .help = text }
#define ONE_OF(name, field, names, text) \
	{ name, CHOICE, FIELD(field), .choices = names, .help = text }
#define SETTER(name, function, text)	{ name, WORDS, .set = function, .help = text }
#define NUMBER(name, ...)	RANGE(name, COUNT, __VA_ARGS__)
#define BYTES(name, ...)	RANGE(name, SIZE, __VA_ARGS__)
#define TIME(name, ...)		RANGE(name, SECONDS, __VA_ARGS__)
#define MILLIS(name, ...)	RANGE(name, MILLISECONDS, __VA_ARGS__)
	{ "listen", LISTEN, .help =
	  "address to listen on: PORT, ADDRESS:PORT, [V6]:PORT; \"ADDRESS tls\", \"ADDRESS tls http2\", \"ADDRESS redirect\"" },
	{ "port", LISTEN, .help = "the same as listen" },
	ONE_OF("architecture", architecture, architecture_names, "amped, sped, mp or mt"),
	ONE_OF("events", events, event_backend_names, "epoll, io_uring or uselect"),
	RANGE("workers", WORKERS, workers, 0, 256,
	      "event-loop processes (amped, sped); auto: one a CPU; 0: one, without a master"),
	NUMBER("processes", processes, 1, 1024, "processes of mp"),
	NUMBER("threads", threads, 1, 4096, "threads of mt"),
	NUMBER("helpers", helpers, 1, 256, "most helpers of a worker"),
	ONE_OF("helper_kind", helper_kind, helper_kind_names,
	       "threads, processes or io_uring (for reads; names by threads)"),
	SWITCH("reuseport", reuseport, "one listening socket a worker"),
	SWITCH("defer_accept", defer_accept, "accept a connection when its request has come"),
	NUMBER("backlog", backlog, 1, 65535, "listen queue"),
	BYTES("send_buffer", send_buffer, 0, 1 << 30, "socket send buffer; 0: automatic"),
	STRING("user", user, "user to run workers as"),
	STRING("group", group, "group to run workers as"),
	STRING("pidfile", pidfile, "file for the master's process id"),
	SETTER("certificate", https_set_certificate,
	       "CHAIN-FILE KEY-FILE [ocsp FILE], or a directory of certbot's; the first is the default"),
	SETTER("certificates", https_set_certificates, "directory with such directories"),
	SWITCH("ktls", ktls, "the kernel encrypts what is sent, where it can (module tls)"),
	STRING("ticket_keys", ticket_keys,
	       "file with the keys of session tickets, a line of 160 hexadecimal digits each"),
	TIME("ticket_rotation", ticket_rotation, 1, 30 * 86400,
	     "age at which a key of our own for tickets is followed by another"),
	TIME("handshake_timeout", handshake_timeout, 1, 86400, "for a TLS handshake"),
	NUMBER("http2_streams", http2_streams, 1, 1000,
	       "HTTP/2: most requests of a connection at a time"),
	NUMBER("max_handshakes", max_handshakes, 1, 1 << 20,
	       "most TLS handshakes at once, of all workers; the oldest goes"),
	SETTER("https_redirect", https_set_redirect,
	       "[status 301|308] [port N] [acme on|off]: how \"listen ADDRESS redirect\" leads to HTTPS"),
	SETTER("hsts", https_set_hsts,
	       "SECONDS [include-subdomains] [preload], or off: Strict-Transport-Security"),
	SWITCH("path_cache", path_cache, "keep translated path names"),
	SWITCH("header_cache", header_cache, "keep response headers"),
	SWITCH("map_cache", map_cache, "keep file contents and mappings"),
	NUMBER("path_entries", path_entries, 1, 10000000,
	       "most path names kept (mp: 200 unless told)"),
	BYTES("memory_cache", memory_cache, 0, 1ull << 40,
	      "most bytes of small files kept in memory"),
	BYTES("memory_file", memory_file, 0, 16 << 20, "largest file kept in memory"),
	BYTES("map_bytes", map_bytes, 1 << 16, 1ull << 40,
	      "most bytes mapped, for transfer mmap (mp: 4 MB unless told)"),
	BYTES("chunk", chunk, 4096, 16 << 20, "unit of residency test, mapping and sending"),
	NUMBER("open_files", open_files, 1, 1000000, "most file descriptors kept open"),
	MILLIS("revalidate", revalidate_ms, 0, 86400000,
	       "age at which a cached file is looked at again"),
	ONE_OF("transfer", transfer, transfer_names,
	       "how large files are sent: sendfile, mmap or iolite"),
	ONE_OF("residency", residency, residency_names,
	       "what tells that a part is in memory: auto, preadv2, cachestat, mincore, mlock, clock or off"),
	ONE_OF("schedule", schedule, schedule_names,
	       "order of helpers' reads: fifo or small-first (small files before large ones)"),
	SWITCH("header_align", header_align, "pad headers to a multiple of 32 bytes"),
	NUMBER("max_connections", max_connections, 1, 1000000, "most connections of a worker"),
	BYTES("max_line", max_line, 64, 65536, "longest request line (414)"),
	BYTES("max_header", max_header, 256, 65536, "largest request head (431)"),
	NUMBER("max_header_lines", max_header_lines, 1, 10000, "most header lines (431)"),
	BYTES("max_body", max_body, 0, 1ull << 40, "largest request body (413)"),
	BYTES("held_memory", held_memory, 1 << 20, 1ull << 40,
	      "most bytes of unfinished requests and untaken answers, of all workers (503; 128 MB or four times max_body unless told)"),
	TIME("header_timeout", header_timeout, 1, 86400, "for a whole request head"),
	TIME("body_timeout", body_timeout, 1, 86400, "between two pieces of a request body"),
	TIME("send_timeout", send_timeout, 1, 86400, "between two pieces of a response"),
	TIME("keepalive_timeout", keepalive_timeout, 1, 86400, "idle time of a connection"),
	TIME("app_timeout", app_timeout, 1, 86400, "silence of a CGI or FastCGI program (504)"),
	NUMBER("fastcgi_keep", fastcgi_keep, 0, 4096,
	       "idle connections a worker keeps to a FastCGI program it did not start"),
	TIME("fastcgi_idle", fastcgi_idle, 1, 86400, "how long one is kept"),
	NUMBER("fastcgi_connections", fastcgi_connections, 1, 65536,
	       "most connections of a worker to one FastCGI program; more requests wait"),
	NUMBER("cgi_processes", cgi_processes, 1, 65536,
	       "most requests of a worker that CGI processes work for; more wait"),
	TIME("drain_timeout", drain_timeout, 0, 86400, "time an old worker has to finish"),
	NUMBER("keepalive_requests", keepalive_requests, 0, 1000000000,
	       "requests of one connection; 0: any number"),
	STRING("hand_back", hand_back,
	       "node that gets a kept connection back when its next request is there, unread"),
	STRING("access_log", access_log, "file, - for standard output, off"),
	ONE_OF("log_format", log_format, log_format_names, "combined or json"),
	SWITCH("stall_histogram", stall_histogram,
	       "measure how long each turn of the event loop takes"),
	STRING("mime_file", mime_file, "types, in the form of mime.types"),
};

#define NR_DIRECTIVES (sizeof(directives) / sizeof(directives[0]))

static int complain(const char *where, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return message("%s: %s", where, text);
}

struct conf *config_new(void)
{
	struct conf *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->workers = 1;
	c->processes = 32;
	c->threads = 64;
	c->helpers = 16;
	c->reuseport = true;
	c->defer_accept = true;
	c->backlog = 4096;
	c->ktls = true;
	c->ticket_rotation = 3600;
	c->handshake_timeout = 10;
	c->max_handshakes = 2048;
	c->http2_streams = 100;
	c->redirect_status = 308;
	c->path_cache = true;
	c->header_cache = true;
	c->map_cache = true;
	c->memory_cache = 64 << 20;
	c->memory_file = 32 << 10;
	c->chunk = 128 << 10;
	c->open_files = 4000;
	c->revalidate_ms = 1000;
	c->header_align = true;
	c->max_connections = 20000;
	c->max_line = 8192;
	c->max_header = 16384;
	c->max_header_lines = 100;
	c->max_body = 1 << 20;
	c->header_timeout = 10;
	c->body_timeout = 30;
	c->send_timeout = 30;
	c->keepalive_timeout = 60;
	c->app_timeout = 60;
	c->drain_timeout = 30;
	c->fastcgi_idle = 10;
	c->fastcgi_connections = 64;
	c->cgi_processes = 64;
	c->vhosts = vhost_new(c);
	c->mime = mime_new();
	if (!c->vhosts || !c->mime) {
		config_free(c);
		return NULL;
	}
	return c;
}

/* "64", "64k", "1M", "2g"; for times "10", "10s", "500ms", "5m", "1h". */
static int number(const struct directive *d, const char *text, uint64_t *out)
{
	char *end;
	uint64_t n, unit = 1;

	if (!isdigit((unsigned char)*text))
		return -1;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno)
		return -1;
	if (d->kind == SIZE) {
		switch (tolower((unsigned char)*end)) {
		case 'g':
			unit <<= 10;
			/* fall through */
		case 'm':
			unit <<= 10;
			/* fall through */
		case 'k':
			unit <<= 10;
			end++;
		}
	} else if (d->kind == SECONDS || d->kind == MILLISECONDS) {
		unit = 1000;
		if (!strcmp(end, "ms"))
			unit = 1;
		else if (!strcmp(end, "m"))
			unit = 60 * 1000;
		else if (!strcmp(end, "h"))
			unit = 3600 * 1000;
		else if (*end && strcmp(end, "s"))
			return -1;
		end = "";
	}
	if (*end || n > UINT64_MAX / unit)
		return -1;
	n *= unit;
	if (d->kind == SECONDS)
		n = (n + 999) / 1000;
	if (n < d->min || n > d->max)
		return -1;
	*out = n;
	return 0;
}

static int choose(const struct directive *d, const char *value)
{
	int i;

	for (i = 0; d->choices[i]; i++)
		if (!strcmp(d->choices[i], value))
			return i;
	return -1;
}

static int set_text(char **field, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -1;
	free(*field);
	*field = copy;
	return 0;
}

static int parse_flag(const char *value)
{
	if (!strcmp(value, "on"))
		return 1;
	return strcmp(value, "off") ? -1 : 0;
}

static int words_set(struct conf *conf, const struct directive *d, char **words, int n,
		     const char *where)
{
	char why[512];
	bool http2 = n > 1 && !strcmp(words[n - 1], "http2");
	int door;

	if (d->kind == WORDS)
		return d->set(conf, words, n, why, sizeof(why)) ? complain(where, "%s", why) : 0;
	door = https_door(words + 1, n - 1 - http2);
	if (http2 && door != DOOR_TLS)
		return complain(where, "%s: http2 needs tls before it", d->name);
	if (door < 0)
		return complain(where, "%s takes an address, and tls, tls http2 or redirect", d->name);
	if (listen_address_add(conf, words[0]))
		return complain(where, "%s is not an address to listen on", words[0]);
	conf->listens[conf->nr_listens - 1].door = door;
	conf->listens[conf->nr_listens - 1].http2 = http2;
	return 0;
}

static bool takes_words(const struct directive *d)
{
	return d->kind == LISTEN || d->kind == WORDS;
}

static int directive_set(struct conf *conf, const struct directive *d, const char *value,
			 const char *where)
{
	char *field = (char *)conf + d->offset;
	uint64_t n;
	int i;

	switch (d->kind) {
	case TEXT:
		return set_text((char **)field, value);
	case FLAG:
		i = parse_flag(value);
		if (i < 0)
			return complain(where, "%s must be on or off, not %s", d->name, value);
		*(bool *)field = i;
		return 0;
	case CHOICE:
		i = choose(d, value);
		if (i < 0)
			return complain(where, "%s cannot be %s: %s", d->name, value, d->help);
		*(unsigned int *)field = i;
		return 0;
	case WORKERS:
		if (!strcmp(value, "auto")) {
			long cpus = sysconf(_SC_NPROCESSORS_ONLN);

			*(unsigned int *)field = cpus > 0 ? (cpus > 256 ? 256 : cpus) : 1;
			return 0;
		}
		/* fall through */
	default:
		if (number(d, value, &n))
			return complain(where, "%s cannot be %s (from %llu to %llu)", d->name,
					value, (unsigned long long)d->min,
					(unsigned long long)d->max);
		if (d->wide)
			*(uint64_t *)field = n;
		else
			*(unsigned int *)field = n;
		return 0;
	}
}

/* Splits a line at white space; "double quotes" keep it. Returns the number of words or -1. */
static int split(char *line, char **words, int max)
{
	char *p = line, *o;
	int n = 0;

	for (;;) {
		while (isspace((unsigned char)*p))
			p++;
		if (!*p || *p == '#')
			return n;
		if (n == max)
			return -1;
		words[n++] = o = p;
		while (*p && !isspace((unsigned char)*p)) {
			if (*p == '"') {
				for (p++; *p && *p != '"'; )
					*o++ = *p++;
				if (*p++ != '"')
					return -1;
			} else {
				*o++ = *p++;
			}
		}
		if (*p)
			p++;
		*o = '\0';
	}
}

/* Several words in one, of the command line. */
static int one_word_set(struct conf *conf, const struct directive *d, const char *value,
			const char *where)
{
	char *copy = strdup(value), *words[WORDS_MAX];
	int n = copy ? split(copy, words, WORDS_MAX) : -1, err;

	err = n > 0 ? words_set(conf, d, words, n, where) :
		      complain(where, "%s cannot be \"%s\"", d->name, value);
	free(copy);
	return err;
}

int config_set(struct conf *conf, const char *name, const char *value, const char *where)
{
	char *words[2] = { (char *)name, (char *)value };
	size_t i;
	int err;

	for (i = 0; i < NR_DIRECTIVES; i++)
		if (!strcmp(directives[i].name, name))
			return takes_words(&directives[i]) ?
			       one_word_set(conf, &directives[i], value, where) :
			       directive_set(conf, &directives[i], value, where);
	err = vhost_set(conf, conf->vhosts, words, 2, where);
	if (err > 0)
		return complain(where, "there is no setting called %s", name);
	return err;
}

int config_load(struct conf *conf, const char *path)
{
	struct vhost *vhost = NULL;
	char *line = NULL, *words[64], where[512];
	size_t cap = 0, i;
	int n, nr = 0, errors = 0, err, got;
	const char *why;
	FILE *f = textfile_open(path, &why);

	if (!f)
		return complain(path, "cannot be read: %s", why);
	while ((got = textfile_line(f, &line, &cap, &why)) > 0) {
		snprintf(where, sizeof(where), "%s:%d", path, ++nr);
		n = split(line, words, 64);
		if (n < 0) {
			errors += !!complain(where, "unbalanced quote or more than 64 words");
			continue;
		}
		if (!n)
			continue;
		if (!strcmp(words[0], "vhost")) {
			if (vhost || n < 3 || strcmp(words[n - 1], "{")) {
				errors += !!complain(where, "expected: vhost NAME... {");
				continue;
			}
			vhost = vhost_add(conf, words + 1, n - 2);
			if (!vhost)
				break;
			continue;
		}
		if (!strcmp(words[0], "}")) {
			if (!vhost)
				errors += !!complain(where, "} without vhost");
			vhost = NULL;
			continue;
		}
		err = vhost_set(conf, vhost ? vhost : conf->vhosts, words, n, where);
		if (err <= 0) {
			errors += !!err;
			continue;
		}
		for (i = 0; i < NR_DIRECTIVES && strcmp(directives[i].name, words[0]); i++)
			;
		if (i == NR_DIRECTIVES)
			errors += !!complain(where, "there is no setting called %s", words[0]);
		else if (vhost)
			errors += !!complain(where, "%s cannot stand in a vhost", words[0]);
		else if (takes_words(&directives[i]) && n > 1)
			errors += !!words_set(conf, &directives[i], words + 1, n - 1, where);
		else if (n != 2)
			errors += !!complain(where, "%s takes one value", words[0]);
		else
			errors += !!directive_set(conf, &directives[i], words[1], where);
	}
	if (got < 0)
		errors += !!complain(path, "cannot be read behind line %d: %s", nr, why);
	else if (vhost)
		errors += !!complain(path, "a vhost is not closed");
	free(line);
	fclose(f);
	return errors ? -1 : 0;
}

int config_finish(struct conf *conf)
{
	const char *why;

	if (conf->access_log && !strcmp(conf->access_log, "off")) {
		free(conf->access_log);
		conf->access_log = NULL;
	}
	if (!conf->path_entries)
		conf->path_entries = conf->architecture == ARCH_MP ? 200 : 6000;
	if (!conf->map_bytes)
		conf->map_bytes = conf->architecture == ARCH_MP ? 4 << 20 : 128 << 20;
	if (!conf->held_memory)
		conf->held_memory = conf->max_body > 32 << 20 ? 4 * conf->max_body : 128 << 20;
	/* Beside its largest body a request has a head. */
	if (conf->max_body + (1 << 19) > conf->held_memory)
		return complain("held_memory", "has no room for a body of max_body and its head");
	conf->chunk &= ~4095u;
	if (conf->max_line > conf->max_header)
		return complain("max_line", "cannot be larger than max_header");
	if ((conf->residency == RESIDENCY_MLOCK || conf->residency == RESIDENCY_CLOCK) &&
	    conf->transfer != TRANSFER_MMAP)
		return complain("residency", "%s needs transfer mmap",
				residency_names[conf->residency]);
	if (conf->residency == RESIDENCY_MLOCK && conf->helper_kind == HELPERS_PROCESSES)
		return complain("residency", "helpers that are processes cannot mlock");
	if (conf->helper_kind == HELPERS_IO_URING &&
	    (conf->residency == RESIDENCY_MLOCK || conf->residency == RESIDENCY_CLOCK))
		return complain("residency", "reads by io_uring do not lock, nor tell what was in memory");
	if (conf->transfer == TRANSFER_IOLITE && conf->helper_kind != HELPERS_THREADS)
		return complain("transfer", "only helper threads can fill iolite's cache for the worker");
	/* Others hold the sockets they watch, and what two hold cannot be given away. */
	if (conf->hand_back && (conf->architecture > ARCH_SPED || conf->events != EVENTS_EPOLL))
		return complain("hand_back", "needs architecture amped or sped, and events epoll");
	if (!conf->nr_listens && listen_address_add(conf, "8080"))
		return -1;
	why = https_check(conf);
	if (why)
		return complain("listen", "%s", why);
	if (conf->mime_file && mime_load(conf->mime, conf->mime_file, &why))
		return complain(conf->mime_file, "cannot be read: %s", why);
	return vhost_finish(conf) || check_user(conf) ? -1 : 0;
}

void config_free(struct conf *conf)
{
	unsigned int i;

	if (!conf)
		return;
	for (i = 0; i < conf->nr_listens; i++)
		free(conf->listens[i].text);
	free(conf->listens);
	vhost_free_all(conf);
	tls_site_put(conf->tls);
	mime_free(conf->mime);
	free(conf->ticket_keys);
	free(conf->user);
	free(conf->group);
	free(conf->pidfile);
	free(conf->access_log);
	free(conf->hand_back);
	free(conf->mime_file);
	free(conf);
}

static void value_format(const struct conf *conf, const struct directive *d, char *buf, size_t size)
{
	const char *field = (const char *)conf + d->offset;

	switch (d->kind) {
	case FLAG:
		snprintf(buf, size, "%s", *(const bool *)field ? "on" : "off");
		break;
	case CHOICE:
		snprintf(buf, size, "%s", d->choices[*(const unsigned int *)field]);
		break;
	case TEXT:
		snprintf(buf, size, "%s", *(char *const *)field ? *(char *const *)field : "");
		break;
	case LISTEN:
	case WORDS:
		*buf = '\0';
		break;
	default:
		snprintf(buf, size, "%llu%s",
			 d->wide ? (unsigned long long)*(const uint64_t *)field
				 : *(const unsigned int *)field,
			 d->kind == SECONDS ? "s" : d->kind == MILLISECONDS ? "ms" : "");
	}
}

void config_help(FILE *out)
{
	struct conf *conf = config_new();
	char value[64];
	size_t i;

	if (!conf)
		return;
	for (i = 0; i < NR_DIRECTIVES; i++) {
		value_format(conf, &directives[i], value, sizeof(value));
		fprintf(out, "  %-19s %s%s%s%s\n", directives[i].name, directives[i].help,
			*value ? " [" : "", value, *value ? "]" : "");
	}
	config_free(conf);
	vhost_help(out);
}

void config_show(const struct conf *conf, FILE *out)
{
	char value[4096];
	size_t i;

	for (i = 0; i < conf->nr_listens; i++)
		fprintf(out, "listen %s%s%s%s\n", conf->listens[i].text,
			conf->listens[i].door ? " " : "", https_door_text(conf->listens[i].door),
			conf->listens[i].http2 ? " http2" : "");
	https_show(conf, out);
	for (i = 0; i < NR_DIRECTIVES; i++) {
		value_format(conf, &directives[i], value, sizeof(value));
		if (*value)
			fprintf(out, "%s %s\n", directives[i].name, value);
	}
	vhost_show(conf, out);
}
