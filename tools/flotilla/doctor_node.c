// SPDX-License-Identifier: GPL-2.0
/* flotilla doctor: this node's name, its peers, their links and the way to them. */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include "doctor.h"
#include "machine.h"

static void look_at_name(struct doctor *d)
{
	struct about about = { "", "" };
	char address[64], device[IF_NAMESIZE];
	bool up = false, here;

	if (!d->local.name[0]) {
		doctor_found(&about, "it has no name and no address yet");
		doctor_mend(&about, "# flotilla local set name NAME address ADDRESS");
		return doctor_say(d, FAULT, "local", &about);
	}
	address_text(&d->local.addr, address, sizeof(address));
	here = machine_has(&d->local.addr, device, &up);
	if (!here)
		doctor_found(&about, "no interface has its address %s", address);
	else if (!up)
		doctor_found(&about, "%s, which has its address %s, is down", device, address);
	else
		doctor_found(&about, "it is %s at %s on %s", d->local.name, address, device);
	if (!here)
		doctor_mend(&about, "# give %s to an interface, or flotilla local set address", address);
	else if (!up)
		doctor_mend(&about, "ip link set %s up", device);
	doctor_say(d, here && up ? FINE : FAULT, "local", &about);
}

static void look_at_trust(struct doctor *d)
{
	struct about insecure = { INSECURE_IS_ON, "flotilla local set insecure off" };
	struct about secure = { "connections are given and taken over authenticated links only", "" };

	doctor_say(d, d->local.insecure ? WARNING : FINE, "trust", d->local.insecure ? &insecure : &secure);
}

static void look_at_switch(struct doctor *d, const char *name, const char *what)
{
	struct about about = { "", "" };
	char path[64], subject[32];
	long value;

	snprintf(path, sizeof(path), "net/flotilla/%s", name);
	if (!machine_sysctl(path, &value) || value)
		return;
	snprintf(subject, sizeof(subject), "sysctl %s", name);
	doctor_found(&about, "this node %s: net.flotilla.%s is 0", what, name);
	doctor_mend(&about, "sysctl -w net.flotilla.%s=1", name);
	doctor_say(d, FAULT, subject, &about);
}

static void look_at_handoff(struct doctor *d)
{
	struct about loaded = { "handoff.ko is loaded", "" };
	struct about missing = { "handoff.ko is not loaded: connections neither leave nor come", "modprobe handoff" };
	long value;

	if (!machine_sysctl("net/flotilla/handoff", &value))
		return doctor_say(d, FAULT, "handoff", &missing);
	doctor_say(d, FINE, "handoff", &loaded);
	if (doctor_is_frontend(d))
		look_at_switch(d, "handoff", "gives nothing away");
	if (doctor_is_backend(d))
		look_at_switch(d, "adopt", "takes nothing");
}

void doctor_local(struct doctor *d)
{
	look_at_name(d);
	look_at_trust(d);
	look_at_handoff(d);
}

#define NO_AGENT "no TLS handshake agent (tlshd) runs here"

/* By what node show says of the link: what to do, NAME in place of %s. */
static const struct {
	const char *reason, *mend;
} mends[] = {
	{ "cannot connect", "# is flotilla.ko loaded on %s, and its port open for this node?" },
	{ "no HELLO came", "# does %s list this node, by the address that it comes from? There: flotilla node show" },
	{ "closed by the peer", "# %s knows why. There: flotilla node show" },
	{ "refused by the peer", "# %s knows why. There: flotilla node show" },
	{ "heartbeats stopped", "# is %s alive, and the network between?" },
	{ "the peer takes no more data", "# is %s alive, and the network between?" },
	{ "speaks another version of the protocol", "# install the same version on %s and here" },
	{ "its name is not the one it is listed by", "# list it by the name that it has. On %s: flotilla local show" },
	{ NO_AGENT, "systemctl enable --now tlshd" },
	{ "authentication failed", "# have %s and this node the same key? tlshd's log says more" },
	{ "neither authentication nor a privileged port", "# flotilla node del %s; flotilla node add ... auth psk key ..." },
};

static void look_at_link(struct doctor *d, const struct flt_node_info *node, const char *subject)
{
	struct about about = { "", "" };
	size_t i;

	if (node->admin == FLT_ADMIN_MAINTENANCE) {
		doctor_found(&about, "it is in maintenance: its link is not watched");
		doctor_mend(&about, "flotilla node set %s admin active", node->name);
		return doctor_say(d, WARNING, subject, &about);
	}
	if (node->state == FLT_NODE_UP) {
		doctor_found(&about, "its link is up%s", node->proven ? " and authenticated" : "");
		return doctor_say(d, FINE, subject, &about);
	}
	doctor_found(&about, "its link is not up: %s",
		 node->reason[0] ? node->reason : "no attempt has ended yet");
	for (i = 0; i < ARRAY_SIZE(mends); i++)
		if (!strcmp(mends[i].reason, node->reason))
			doctor_mend(&about, mends[i].mend, node->name);
	if (!strcmp(node->reason, NO_AGENT) && !machine_has_program("tlshd"))
		doctor_mend(&about, "# install tlshd: package ktls-utils, or, on Debian 12, make deps-node");
	doctor_say(d, FAULT, subject, &about);
}

static void look_at_proof(struct doctor *d, const struct flt_node_info *node, const char *subject)
{
	struct about about = { "its link is not authenticated: no connection is given to it or taken from it",
			       "# flotilla auth key FILE makes and loads a key; node add ... auth psk key KEY, on both" };

	if (!d->local.insecure && node->auth == FLT_AUTH_NONE)
		doctor_say(d, FAULT, subject, &about);
}

static void look_at_what_it_gets(struct doctor *d, const struct flt_node_info *node, const char *subject)
{
	struct about about = { "", "" };

	doctor_found(&about, "it gets nothing new: %s",
		 node->admin == FLT_ADMIN_DRAIN ? "it is drained" : "its weight is 0");
	doctor_mend(&about, "flotilla node set %s %s", node->name,
		 node->admin == FLT_ADMIN_DRAIN ? "admin active" : "weight 100");
	if (node->admin == FLT_ADMIN_DRAIN || (!node->weight && node->role != FLT_ROLE_FRONTEND))
		doctor_say(d, WARNING, subject, &about);
}

static void look_at_features(struct doctor *d, const struct flt_node_info *node, const char *subject)
{
	struct about about = { "", "" };
	const struct feature *f;
	char lacks[128] = "";

	for (f = node_features; f->bit; f++)
		if (!(node->features & f->bit))
			snprintf(lacks + strlen(lacks), sizeof(lacks) - strlen(lacks), " %s", f->name);
	if (node->state != FLT_NODE_UP || !lacks[0])
		return;
	doctor_found(&about, "it is older than this node, or lacks:%s", lacks);
	doctor_mend(&about, "# install the same version on %s, and load handoff.ko there", node->name);
	doctor_say(d, WARNING, subject, &about);
}

/* Only who gives sends clients' packets there. */
static void look_at_way(struct doctor *d, const struct flt_node_info *node, const char *subject)
{
	const struct sockaddr_storage *to = node->fwd_addr.ss_family ? &node->fwd_addr : &node->addr;
	struct about about = { "", "" };
	char address[64], gateway[64];
	struct route route;
	int err = machine_route(to, &route);

	address_text(to, address, sizeof(address));
	if (err || route.type != RTN_UNICAST) {
		doctor_found(&about, "there is no way to %s: %s", address,
			 err ? strerror(-err) : route.type == RTN_LOCAL ? "it is this machine" : "the route refuses");
		doctor_mend(&about, "# ip route get %s", address);
		return doctor_say(d, FAULT, subject, &about);
	}
	if (node->role == FLT_ROLE_FRONTEND || node->forward != FLT_FORWARD_DIRECT)
		return;
	if (route.gateway.ss_family)
		doctor_found(&about, "it is behind the gateway %s, where forward direct does not reach",
			 address_text(&route.gateway, gateway, sizeof(gateway)));
	else if (!machine_speaks_arp(route.device))
		doctor_found(&about, "forward direct needs an Ethernet, and %s is none", route.device);
	else
		return;
	doctor_mend(&about, "flotilla node set %s forward ipip", node->name);
	doctor_say(d, FAULT, subject, &about);
}

void doctor_nodes(struct doctor *d)
{
	struct about none = { "no node is listed", "# flotilla node add NAME address ADDRESS auth psk key KEY" };
	char subject[FLT_NAME_MAX + 8];
	size_t i;

	if (!d->nr_nodes)
		doctor_say(d, FAULT, "nodes", &none);
	for (i = 0; i < d->nr_nodes; i++) {
		const struct flt_node_info *node = &d->nodes[i];

		snprintf(subject, sizeof(subject), "node %s", node->name);
		look_at_link(d, node, subject);
		look_at_proof(d, node, subject);
		look_at_what_it_gets(d, node, subject);
		look_at_features(d, node, subject);
		look_at_way(d, node, subject);
	}
}
