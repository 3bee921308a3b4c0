/* SPDX-License-Identifier: GPL-2.0 */
/* What a request is about: its target, taken byte by byte, and the fields that say how. */
#ifndef DOOR_TARGET_H
#define DOOR_TARGET_H

#include <afpa.h>
#include <stdbool.h>

enum route {
	ROUTE_NONE,
	ROUTE_OBJECT,	/* /v1/object/HOST[:PORT]/PATH */
	ROUTE_BAN,	/* /v1/ban/HOST[:PORT]/PREFIX, /v1/ban */
	ROUTE_FLUSH,	/* /v1/flush */
	ROUTE_TICKET,	/* /v1/ticket */
	ROUTE_STATUS,	/* /v1/status */
	ROUTE_PEER,	/* /v1/peer */
};

/**
 * struct target - the object, or the beginning of several
 * @host: "*": with an object, that of any host; with a ban, those that were put so
 * @port: of the sites, 80 if none is named
 * @path: with its query, as it stands in requests; "": there is none
 */
struct target {
	enum route route;
	char host[AFPA_HOST_MAX + 1];
	uint16_t port;
	char path[AFPA_PATH_MAX + 1];
};

/**
 * target_parse() - the target of a request
 * @text:   as it came, nothing decoded
 * @target: out
 *
 * What follows the host is the path that clients ask for, with its query: no byte of it means
 * anything to the door. It is judged by the functions that the kernel judges requests by.
 *
 * Return: NULL, or a sentence; @target->route ROUTE_NONE: there is nothing of that name.
 */
const char *target_parse(const char *text, struct target *target);

/**
 * struct fields - what the header of a request says
 * @site:      of Afpa-Site, with @sited
 * @local:     Afpa-Wait: local, do not wait for peers
 * @alone:     Afpa-Peers: none, they are not told
 * @automatic: Afpa-Automatic: yes
 * @absent:    If-None-Match: *
 * @present:   If-Match: *
 * @lived:     a lifetime was given
 * @ttl_ms:    it, 0: unlimited
 * @since:     of Afpa-Since
 * @type:      Content-Type
 * @headers:   lines that clients get
 * @tags:      words
 */
struct fields {
	bool sited, local, alone, automatic, absent, present, lived;
	struct afpa_site site;
	uint32_t ttl_ms;
	uint64_t since;
	char type[AFPA_TYPE_MAX + 1], headers[AFPA_HEADERS_MAX + 1], tags[AFPA_TAGS_MAX + 1];
	/* Lifetimes by what says them; the first in this order counts. */
	unsigned int seen;
	bool given[3];
	uint32_t ms[3];
};

/**
 * fields_take() - one line of the header
 * @fields: of all lines so far; zero bytes at first
 * @name:   of the field
 * @value:  its value
 *
 * Return: NULL, or a sentence.
 */
const char *fields_take(struct fields *fields, const char *name, const char *value);

/* After the last line: NULL, or a sentence. */
const char *fields_end(struct fields *fields);

/* Words apart at blanks or commas are added to @tags. NULL, or a sentence. */
const char *tags_take(char tags[AFPA_TAGS_MAX + 1], const char *value);

#endif
