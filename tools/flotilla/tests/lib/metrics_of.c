// SPDX-License-Identifier: GPL-2.0
/*
 * flotilla_metrics_of: "+ ROOM NAME VALUE" a line to what Prometheus gets; "-" in front: not asked
 * for. A line "n node NAME LOAD" is a node.
 */
#include <inttypes.h>
#include <string.h>
#include "tools/flotilla/metric.h"
#include "tools/flotilla/metric_node.h"

static int add_node(struct node_list *nodes, const char *name, uint64_t load)
{
	struct flt_node_info node = { .load = load };

	snprintf(node.name, sizeof(node.name), "%.31s", name);
	return node_list_add(nodes, &node);
}

int main(void)
{
	struct samples samples = { 0 };
	struct node_list nodes = { 0 };
	char what, room[32], name[64];
	uint64_t value;

	while (scanf("%c %31s %63s %" SCNu64 "\n", &what, room, name, &value) == 4)
		if (what == 'n' ? add_node(&nodes, name, value) :
				  samples_add(&samples, room, name, value, what == '-'))
			return 1;
	metrics_write(stdout, &samples);
	node_metrics_write(stdout, &nodes);
	samples_free(&samples);
	node_list_free(&nodes);
	return 0;
}
