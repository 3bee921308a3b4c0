// SPDX-License-Identifier: GPL-2.0
#include "tools/base/html.h"

void html_put(FILE *out, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		case '\'':
			fputs("&#39;", out);
			break;
		default:
			/* A control character is no text, in XML not even when escaped. */
			fputc((unsigned char)*text < ' ' ? '?' : *text, out);
		}
	}
}
