// SPDX-License-Identifier: GPL-2.0
#include "message.h"

#include <stdarg.h>
#include <stdio.h>

#include "log.h"

#define TEXT_MAX 1024

int message(const char *fmt, ...)
{
	char text[TEXT_MAX], out[4 * TEXT_MAX + 16];
	struct slice s = { .p = text };
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0)
		return -1;
	s.len = n < TEXT_MAX ? n : TEXT_MAX - 1;
	*log_escape(out, out + sizeof(out) - 8, &s) = '\0';
	fprintf(stderr, "flash: %s%s\n", out, n < TEXT_MAX ? "" : "...");
	return -1;
}
