/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The HTTP parser library: llhttp where the distribution has it, else its predecessor http_parser.
 * Only header.c and chunks.c include this.
 */
#ifndef LARD_HTTPLIB_H
#define LARD_HTTPLIB_H

#include <stddef.h>

#if __has_include(<llhttp.h>)
#include <llhttp.h>

typedef llhttp_t http_parser;
typedef llhttp_settings_t http_settings;

static inline void http_init(http_parser *p, http_settings *settings, int response)
{
	llhttp_init(p, response ? HTTP_RESPONSE : HTTP_REQUEST, settings);
}

/* Bytes consumed, with the one that led to a pause; *error: NULL or a sentence. */
static inline size_t http_feed(http_parser *p, http_settings *settings, const char *data, size_t len,
			       const char **error)
{
	llhttp_errno_t err = llhttp_execute(p, data, len);

	(void)settings;
	*error = NULL;
	if (err == HPE_OK)
		return len;
	if (err != HPE_PAUSED && err != HPE_PAUSED_UPGRADE)
		*error = llhttp_get_error_reason(p);
	return llhttp_get_error_pos(p) - data;
}

/* What a callback returns to stop the parser after it. */
static inline int http_pause(http_parser *p)
{
	(void)p;
	return HPE_PAUSED;
}

#else
#include <http_parser.h>

typedef http_parser_settings http_settings;

static inline void http_init(http_parser *p, http_settings *settings, int response)
{
	(void)settings;
	http_parser_init(p, response ? HTTP_RESPONSE : HTTP_REQUEST);
}

static inline size_t http_feed(http_parser *p, http_settings *settings, const char *data, size_t len,
			       const char **error)
{
	size_t used = http_parser_execute(p, settings, data, len);
	enum http_errno err = HTTP_PARSER_ERRNO(p);

	*error = err == HPE_OK || err == HPE_PAUSED ? NULL : http_errno_description(err);
	return used;
}

static inline int http_pause(http_parser *p)
{
	http_parser_pause(p, 1);
	return 0;
}
#endif

#endif
