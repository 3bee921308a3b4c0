/* SPDX-License-Identifier: GPL-2.0 */
/* What others have named, in pages of lardd and of flash. */
#ifndef BASE_HTML_H
#define BASE_HTML_H

#include <stdio.h>

/* Nothing of @text is markup, also within quotes. */
void html_put(FILE *out, const char *text);

#endif
