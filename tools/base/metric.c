// SPDX-License-Identifier: GPL-2.0
/* The text format of Prometheus; the command line writes it, too. */
#include <stdarg.h>
#include "tools/base/metric.h"

void metric_family(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/*
 * Names are ASCII. A byte of another kind need not be UTF-8, for which Prometheus would refuse the whole page.
 */
static void put_value(FILE *out, const char *value)
{
	for (; *value; value++) {
		if (*value == '\n')
			fputs("\\n", out);
		else if (*value == '"' || *value == '\\')
			fprintf(out, "\\%c", *value);
		else if (*value & 0x80)
			fprintf(out, "\\\\x%02x", (unsigned char)*value);
		else
			fputc(*value, out);
	}
}

void metric_labels(FILE *out, const char *name, ...)
{
	const char *label;
	va_list pairs;
	char sep = '{';

	fputs(name, out);
	va_start(pairs, name);
	while ((label = va_arg(pairs, const char *))) {
		fprintf(out, "%c%s=\"", sep, label);
		put_value(out, va_arg(pairs, const char *));
		fputc('"', out);
		sep = ',';
	}
	va_end(pairs);
	fputs(sep == '{' ? " " : "} ", out);
}
