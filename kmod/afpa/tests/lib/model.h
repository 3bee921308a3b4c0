/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the kernel is to answer to a stream of bytes: by the parsers that it is built of, and a
 * table of the objects that it has.
 */
#ifndef AFPA_MODEL_H
#define AFPA_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_KEYS	16	/* of one request */

/* The beginning of the site's objects' bodies, and all that is asked for. */
struct model_object {
	const char *host, *path, *type;
	const char *body;
	size_t len;
};

/**
 * struct model_answer - to one request
 * @of:     objects; one of HTTP, some of memcached
 * @nr:     of them
 * @head:   without the body
 * @closes: the connection ends with it
 * @says:   its field Connection, or ""
 * @end:    of the request, in the stream
 */
struct model_answer {
	const struct model_object *of[MODEL_KEYS];
	unsigned int nr;
	bool head, closes;
	const char *says;
	size_t end;
};

/**
 * struct model - a protocol
 * @mutate: a request that may be one, into MUTATE_ROOM bytes
 * @sound:  one that is
 * @next:   what is at @text: bytes of a request, with the answer; 0: more may make one of it;
 *	    -1: the server's
 * @check:  bytes of @got that are the answer; 0: there are too few; -1: they are something else
 */
struct model {
	const char *name;
	size_t (*mutate)(uint64_t *seed, char *text);
	size_t (*sound)(uint64_t *seed, char *text);
	long (*next)(const char *text, size_t len, struct model_answer *answer);
	long (*check)(const struct model_answer *answer, const char *got, size_t len);
	const struct model_object *objects;
	unsigned int nr;
};

/* NULL: there is no such protocol. */
const struct model *model_of(const char *name);

#endif
