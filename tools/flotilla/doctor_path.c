// SPDX-License-Identifier: GPL-2.0
/* flotilla doctor: how large a packet reaches a node, and how large those are that are forwarded to it. */
#include <string.h>
#include "doctor.h"
#include "machine.h"

#define TRIES	3

static unsigned int overhead(const struct flt_node_info *node, const struct sockaddr_storage *to)
{
	if (node->forward == FLT_FORWARD_DIRECT)
		return 0;
	return (to->ss_family == AF_INET ? 20 : 40) + (node->forward == FLT_FORWARD_UDP ? 8 : 0);
}

/* Of the interface by which clients' packets come: that of a service, else of the way to everywhere. */
static unsigned int clients_mtu(const struct doctor *d, const char *otherwise)
{
	char device[IF_NAMESIZE];
	struct route route;
	bool up;
	size_t i;

	for (i = 0; i < d->nr_services; i++)
		if (machine_has(&d->services[i], device, &up) && machine_speaks_arp(device))
			return machine_mtu(device);
	if (!machine_default_route(AF_INET, &route) && route.device[0])
		return machine_mtu(route.device);
	return machine_mtu(otherwise);
}

/* The largest of some common sizes that passes where @size does not. */
static unsigned int passes(const struct sockaddr_storage *to, unsigned int size)
{
	static const unsigned int common[] = { 8000, 1500, 1492, 1480, 1472, 1450, 1420, 1400, 1280, 576 };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(common); i++)
		if (common[i] < size && machine_echo(to, common[i], 1) > 0)
			return common[i];
	return 0;
}

static void look_at_room(struct doctor *d, const struct flt_node_info *node, const struct route *route,
			 unsigned int needed, unsigned int mtu, const char *subject)
{
	struct about about = { "", "" };

	if (needed <= mtu)
		return;
	doctor_found(&about, "%s: clients' packets are forwarded as up to %u bytes, %s takes %u; each client has to learn it",
		     node->forward == FLT_FORWARD_DIRECT ? "forward direct" : "it is reached by a tunnel", needed,
		     route->device, mtu);
	doctor_mend(&about, "# if the network between takes it: ip link set %s mtu %u", route->device, needed);
	doctor_say(d, WARNING, subject, &about);
}

static void look_at_path(struct doctor *d, const struct flt_node_info *node)
{
	const struct sockaddr_storage *to = node->fwd_addr.ss_family ? &node->fwd_addr : &node->addr;
	unsigned int mtu, needed, size, less;
	struct about about = { "", "" };
	char subject[FLT_NAME_MAX + 8];
	struct route route;
	int got;

	if (machine_route(to, &route) || !route.device[0] || !strcmp(route.device, "lo"))
		return;
	mtu = machine_mtu(route.device);
	needed = clients_mtu(d, route.device) + overhead(node, to);
	size = needed < mtu ? needed : mtu;
	snprintf(subject, sizeof(subject), "node %s", node->name);
	look_at_room(d, node, &route, needed, mtu, subject);
	got = machine_echo(to, 64, TRIES);
	/* Nobody but root may ask, and not every node answers. */
	if (got <= 0 || !size)
		return;
	if (machine_echo(to, size, TRIES) > 0) {
		doctor_found(&about, "packets of %u bytes reach it", size);
		return doctor_say(d, FINE, subject, &about);
	}
	less = passes(to, size);
	doctor_found(&about, "small packets reach it, but not those of %u bytes, as clients send them; those of %u do", size,
		     less);
	doctor_mend(&about, "# raise the MTU of what is between, and on %s: ip link; or, here: ip link set %s mtu %u",
		    node->name, route.device, less);
	doctor_say(d, FAULT, subject, &about);
}

void doctor_paths(struct doctor *d)
{
	size_t i;

	for (i = 0; i < d->nr_nodes; i++)
		if (d->nodes[i].role != FLT_ROLE_FRONTEND && d->nodes[i].state == FLT_NODE_UP)
			look_at_path(d, &d->nodes[i]);
}
