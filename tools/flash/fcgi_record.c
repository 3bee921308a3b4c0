// SPDX-License-Identifier: GPL-2.0
#include "fcgi_record.h"

#include <string.h>

char *put_record(char *o, int type, size_t len)
{
	o[0] = 1;
	o[1] = type;
	o[2] = 0;
	o[3] = 1;		/* request id */
	o[4] = len >> 8;
	o[5] = len;
	o[6] = 0;
	o[7] = 0;
	return o + HEADER;
}

static char *put_length(char *o, size_t len)
{
	if (len < 128) {
		*o++ = len;
		return o;
	}
	*o++ = len >> 24 | 0x80;
	*o++ = len >> 16;
	*o++ = len >> 8;
	*o++ = len;
	return o;
}

size_t put_params(char *out, const char *env, size_t len)
{
	const char *p = env, *end = env + len;
	char *o = out;

	while (p < end) {
		const char *eq = strchr(p, '=');
		size_t n = eq - p, v = strlen(eq + 1);

		o = put_length(o, n);
		o = put_length(o, v);
		memcpy(o, p, n);
		memcpy(o + n, eq + 1, v);
		o += n + v;
		p = eq + 1 + v + 1;
	}
	return o - out;
}
