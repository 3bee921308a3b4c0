/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The text format of Prometheus: a family is begun once, then come its samples.
 *
 *	metric_family(out, "lard_node_up", "gauge", "whether the node is up");
 *	metric_labels(out, "lard_node_up", "node", name, NULL);
 *	fprintf(out, "%d\n", up);
 */
#ifndef BASE_METRIC_H
#define BASE_METRIC_H

#include <stdio.h>

void metric_family(FILE *out, const char *name, const char *type, const char *help);
/* "NAME{label="value",...} ", with pairs of label and value up to NULL; values are escaped. */
void metric_labels(FILE *out, const char *name, ...) __attribute__((sentinel));

#endif
