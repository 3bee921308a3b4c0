// SPDX-License-Identifier: GPL-2.0
/* Nodes as Prometheus wants them: a family at a time, all nodes in each. */
#include <errno.h>
#include <stdlib.h>
#include "metric_node.h"
#include "tools/base/metric.h"

int node_list_add(struct node_list *nodes, const struct flt_node_info *node)
{
	struct flt_node_info *at = realloc(nodes->at, (nodes->nr + 1) * sizeof(*at));

	if (!at)
		return -ENOMEM;
	nodes->at = at;
	at[nodes->nr++] = *node;
	return 0;
}

void node_list_free(struct node_list *nodes)
{
	free(nodes->at);
	*nodes = (struct node_list){ 0 };
}

static double node_up(const struct flt_node_info *node)
{
	return node->state == FLT_NODE_UP;
}

static double node_load(const struct flt_node_info *node)
{
	return node->load;
}

static double node_weight(const struct flt_node_info *node)
{
	return node->weight;
}

static double node_rtt(const struct flt_node_info *node)
{
	return node->rtt_us / 1e6;
}

static double node_reconnects(const struct flt_node_info *node)
{
	return node->reconnects;
}

static const struct {
	const char *name, *type, *help;
	double (*value)(const struct flt_node_info *node);
} node_families[] = {
	{ "flotilla_node_up", "gauge", "whether the link to the node is up", node_up },
	{ "flotilla_node_load", "gauge", "load that the node has", node_load },
	{ "flotilla_node_weight", "gauge", "the node's weight", node_weight },
	{ "flotilla_node_rtt_seconds", "gauge", "round trip of the last heartbeat to the node",
	  node_rtt },
	{ "flotilla_node_reconnects_total", "counter",
	  "times that the link to the node came up again", node_reconnects },
};

void node_metrics_write(FILE *out, const struct node_list *nodes)
{
	size_t i, n;

	if (!nodes->nr)
		return;
	metric_family(out, "flotilla_node_info", "gauge", "always 1; what the node is");
	for (n = 0; n < nodes->nr; n++) {
		metric_labels(out, "flotilla_node_info", "node", nodes->at[n].name,
			      "role", word_of(&node_roles, nodes->at[n].role),
			      "admin", word_of(&node_admins, nodes->at[n].admin),
			      "auth", word_of(&auths, nodes->at[n].auth), NULL);
		fputs("1\n", out);
	}
	for (i = 0; i < ARRAY_SIZE(node_families); i++) {
		metric_family(out, node_families[i].name, node_families[i].type,
			      node_families[i].help);
		for (n = 0; n < nodes->nr; n++) {
			metric_labels(out, node_families[i].name, "node", nodes->at[n].name, NULL);
			fprintf(out, "%.9g\n", node_families[i].value(&nodes->at[n]));
		}
	}
}
