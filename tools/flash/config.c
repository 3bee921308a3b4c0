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

#define FIELD(name) offsetof(struct conf, name)

static int (*const setters[])(struct conf *conf, char **words, int n, char *why, size_t size) = {
	https_set_certificate, https_set_certificates, https_set_redirect, https_set_hsts,
};

static const struct directive {
	const char *name;
	enum kind kind;
	size_t offset;		/* WORDS: in setters */
	uint64_t min, max;
	const char *const *choices;
	bool wide;		/* the field has 64 bits */
	const char *help;
} directives[] = {
	{ "listen", LISTEN, 0, 0, 0, NULL, 0, "address to listen on: PORT, ADDRESS:PORT, [V6]:PORT; \"ADDRESS tls\", \"ADDRESS tls http2\", \"ADDRESS redirect\"" },
	{ "port", LISTEN, 0, 0, 0, NULL, 0, "the same as listen" },
	{ "architecture", CHOICE, FIELD(architecture), 0, 0, architecture_names, 0,
	  "amped, sped, mp or mt" },
	{ "events", CHOICE, FIELD(events), 0, 0, event_backend_names, 0, "epoll, io_uring or uselect" },
	{ "workers", WORKERS, FIELD(workers), 0, 256, NULL, 0,
	  "event-loop processes (amped, sped); auto: one a CPU; 0: one, without a master" },
	{ "processes", COUNT, FIELD(processes), 1, 1024, NULL, 0, "processes of mp" },
	{ "threads", COUNT, FIELD(threads), 1, 4096, NULL, 0, "threads of mt" },
	{ "helpers", COUNT, FIELD(helpers), 1, 256, NULL, 0, "most helpers of a worker" },
	{ "helper_kind", CHOICE, FIELD(helper_kind), 0, 0, helper_kind_names, 0,
	  "threads, processes or io_uring (for reads; names by threads)" },
	{ "reuseport", FLAG, FIELD(reuseport), 0, 0, NULL, 0, "one listening socket a worker" },
	{ "defer_accept", FLAG, FIELD(defer_accept), 0, 0, NULL, 0,
	  "accept a connection when its request has come" },
	{ "backlog", COUNT, FIELD(backlog), 1, 65535, NULL, 0, "listen queue" },
	{ "send_buffer", SIZE, FIELD(send_buffer), 0, 1 << 30, NULL, 0,
	  "socket send buffer; 0: automatic" },
	{ "user", TEXT, FIELD(user), 0, 0, NULL, 0, "user to run workers as" },
	{ "group", TEXT, FIELD(group), 0, 0, NULL, 0, "group to run workers as" },
	{ "pidfile", TEXT, FIELD(pidfile), 0, 0, NULL, 0, "file for the master's process id" },
	{ "certificate", WORDS, 0, 0, 0, NULL, 0,
	  "CHAIN-FILE KEY-FILE [ocsp FILE], or a directory of certbot's; the first is the default" },
	{ "certificates", WORDS, 1, 0, 0, NULL, 0, "directory with such directories" },
	{ "ktls", FLAG, FIELD(ktls), 0, 0, NULL, 0,
	  "the kernel encrypts what is sent, where it can (module tls)" },
	{ "ticket_keys", TEXT, FIELD(ticket_keys), 0, 0, NULL, 0,
	  "file with the keys of session tickets, a line of 160 hexadecimal digits each" },
	{ "ticket_rotation", SECONDS, FIELD(ticket_rotation), 1, 30 * 86400, NULL, 0,
	  "age at which a key of our own for tickets is followed by another" },
	{ "handshake_timeout", SECONDS, FIELD(handshake_timeout), 1, 86400, NULL, 0,
	  "for a TLS handshake" },
	{ "http2_streams", COUNT, FIELD(http2_streams), 1, 1000, NULL, 0,
	  "HTTP/2: most requests of a connection at a time" },
	{ "max_handshakes", COUNT, FIELD(max_handshakes), 1, 1 << 20, NULL, 0,
	  "most TLS handshakes at once, of all workers; the oldest goes" },
	{ "https_redirect", WORDS, 2, 0, 0, NULL, 0,
	  "[status 301|308] [port N] [acme on|off]: how \"listen ADDRESS redirect\" leads to HTTPS" },
	{ "hsts", WORDS, 3, 0, 0, NULL, 0,
	  "SECONDS [include-subdomains] [preload], or off: Strict-Transport-Security" },
	{ "path_cache", FLAG, FIELD(path_cache), 0, 0, NULL, 0, "keep translated path names" },
	{ "header_cache", FLAG, FIELD(header_cache), 0, 0, NULL, 0, "keep response headers" },
	{ "map_cache", FLAG, FIELD(map_cache), 0, 0, NULL, 0, "keep file contents and mappings" },
	{ "path_entries", COUNT, FIELD(path_entries), 1, 10000000, NULL, 0,
	  "most path names kept (mp: 200 unless told)" },
	{ "memory_cache", SIZE, FIELD(memory_cache), 0, 1ull << 40, NULL, 1,
	  "most bytes of small files kept in memory" },
	{ "memory_file", SIZE, FIELD(memory_file), 0, 16 << 20, NULL, 0,
	  "largest file kept in memory" },
	{ "map_bytes", SIZE, FIELD(map_bytes), 1 << 16, 1ull << 40, NULL, 1,
	  "most bytes mapped, for transfer mmap (mp: 4 MB unless told)" },
	{ "chunk", SIZE, FIELD(chunk), 4096, 16 << 20, NULL, 0,
	  "unit of residency test, mapping and sending" },
	{ "open_files", COUNT, FIELD(open_files), 1, 1000000, NULL, 0,
	  "most file descriptors kept open" },
	{ "revalidate", MILLISECONDS, FIELD(revalidate_ms), 0, 86400000, NULL, 0,
	  "age at which a cached file is looked at again" },
	{ "transfer", CHOICE, FIELD(transfer), 0, 0, transfer_names, 0,
	  "how large files are sent: sendfile, mmap or iolite" },
	{ "residency", CHOICE, FIELD(residency), 0, 0, residency_names, 0,
	  "what tells that a part is in memory: auto, preadv2, cachestat, mincore, mlock, clock or off" },
	{ "schedule", CHOICE, FIELD(schedule), 0, 0, schedule_names, 0,
	  "order of helpers' reads: fifo or small-first (small files before large ones)" },
	{ "header_align", FLAG, FIELD(header_align), 0, 0, NULL, 0,
	  "pad headers to a multiple of 32 bytes" },
	{ "max_connections", COUNT, FIELD(max_connections), 1, 1000000, NULL, 0,
	  "most connections of a worker" },
	{ "max_line", SIZE, FIELD(max_line), 64, 65536, NULL, 0, "longest request line (414)" },
	{ "max_header", SIZE, FIELD(max_header), 256, 65536, NULL, 0, "largest request head (431)" },
	{ "max_header_lines", COUNT, FIELD(max_header_lines), 1, 10000, NULL, 0,
	  "most header lines (431)" },
	{ "max_body", SIZE, FIELD(max_body), 0, 1ull << 40, NULL, 1, "largest request body (413)" },
	{ "held_memory", SIZE, FIELD(held_memory), 1 << 20, 1ull << 40, NULL, 1,
	  "most bytes of unfinished requests and untaken answers, of all workers (503; 128 MB or four times max_body unless told)" },
	{ "header_timeout", SECONDS, FIELD(header_timeout), 1, 86400, NULL, 0,
	  "for a whole request head" },
	{ "body_timeout", SECONDS, FIELD(body_timeout), 1, 86400, NULL, 0,
	  "between two pieces of a request body" },
	{ "send_timeout", SECONDS, FIELD(send_timeout), 1, 86400, NULL, 0,
	  "between two pieces of a response" },
	{ "keepalive_timeout", SECONDS, FIELD(keepalive_timeout), 1, 86400, NULL, 0,
	  "idle time of a connection" },
	{ "app_timeout", SECONDS, FIELD(app_timeout), 1, 86400, NULL, 0,
	  "silence of a CGI or FastCGI program (504)" },
	{ "fastcgi_keep", COUNT, FIELD(fastcgi_keep), 0, 4096, NULL, 0,
	  "idle connections a worker keeps to a FastCGI program it did not start" },
	{ "fastcgi_idle", SECONDS, FIELD(fastcgi_idle), 1, 86400, NULL, 0,
	  "how long one is kept" },
	{ "fastcgi_connections", COUNT, FIELD(fastcgi_connections), 1, 65536, NULL, 0,
	  "most connections of a worker to one FastCGI program; more requests wait" },
	{ "cgi_processes", COUNT, FIELD(cgi_processes), 1, 65536, NULL, 0,
	  "most requests of a worker that CGI processes work for; more wait" },
	{ "drain_timeout", SECONDS, FIELD(drain_timeout), 0, 86400, NULL, 0,
	  "time an old worker has to finish" },
	{ "keepalive_requests", COUNT, FIELD(keepalive_requests), 0, 1000000000, NULL, 0,
	  "requests of one connection; 0: any number" },
	{ "hand_back", TEXT, FIELD(hand_back), 0, 0, NULL, 0,
	  "node that gets a kept connection back when its next request is there, unread" },
	{ "access_log", TEXT, FIELD(access_log), 0, 0, NULL, 0, "file, - for standard output, off" },
	{ "log_format", CHOICE, FIELD(log_format), 0, 0, log_format_names, 0, "combined or json" },
	{ "stall_histogram", FLAG, FIELD(stall_histogram), 0, 0, NULL, 0,
	  "measure how long each turn of the event loop takes" },
	{ "mime_file", TEXT, FIELD(mime_file), 0, 0, NULL, 0, "types, in the form of mime.types" },
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
		return setters[d->offset](conf, words, n, why, sizeof(why)) ? complain(where, "%s", why) : 0;
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
