/* SPDX-License-Identifier: GPL-2.0 */
/* Nodes as Prometheus wants them. */
#ifndef FLOTILLA_METRIC_NODE_H
#define FLOTILLA_METRIC_NODE_H

#include "cli.h"

/**
 * struct node_list - nodes as they were when they were asked for
 */
struct node_list {
	struct flt_node_info *at;
	size_t nr;
};

/* 0 or -ENOMEM. */
int node_list_add(struct node_list *nodes, const struct flt_node_info *node);
void node_list_free(struct node_list *nodes);

/* Nothing if there are none. */
void node_metrics_write(FILE *out, const struct node_list *nodes);

#endif
