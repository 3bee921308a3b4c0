// SPDX-License-Identifier: GPL-2.0
/* flotilla doctor: the services' addresses, who listens there, ARP, the way back, connection tracking. */
#include <ifaddrs.h>
#include <string.h>
#include "doctor.h"
#include "machine.h"

struct wanted {
	const struct sockaddr_storage *service;
	bool found;
};

static void is_wanted(const struct sockaddr_storage *at, void *arg)
{
	struct wanted *w = arg;
	uint16_t port = address_port(w->service);

	if (at->ss_family == w->service->ss_family && (!port || port == address_port(at)) &&
	    (same_address(at, w->service) || is_any_address(at)))
		w->found = true;
}

static void look_at_listener(struct doctor *d, const struct sockaddr_storage *service, const char *subject)
{
	struct about about = { "", "" };
	struct wanted w = { service, false };

	if (machine_listeners(AF_INET6, is_wanted, &w) ||
	    (service->ss_family == AF_INET && machine_listeners(AF_INET, is_wanted, &w)))
		return;
	if (w.found)
		doctor_found(&about, "a server listens");
	else
		doctor_found(&about, "nobody listens: what is given is refused");
	if (!w.found)
		doctor_mend(&about, "# start the server, on this address or on all");
	doctor_say(d, w.found ? FINE : FAULT, subject, &about);
}

static void look_at_arp(struct doctor *d, const char *device, const char *subject)
{
	struct about about = { "", "" };
	long ignore = machine_ipv4_conf(device, "arp_ignore"), announce = machine_ipv4_conf(device, "arp_announce");

	/* Of the values of arp_ignore only these keep still about an address of another interface. */
	if (ignore != 1 && ignore != 2 && ignore != 8) {
		doctor_found(&about, "this machine answers ARP for it on %s: clients' packets miss the front-end", device);
		doctor_mend(&about, "sysctl -w net.ipv4.conf.all.arp_ignore=1");
		doctor_say(d, FAULT, subject, &about);
	}
	if (announce < 2) {
		doctor_found(&about, "ARP requests on %s name it as their sender: neighbours learn it from them", device);
		doctor_mend(&about, "sysctl -w net.ipv4.conf.all.arp_announce=2");
		doctor_say(d, FAULT, subject, &about);
	}
}

/* On each interface that speaks ARP; of several with the same fault the first stands for all. */
static void look_at_neighbours(struct doctor *d, const char *subject)
{
	unsigned int faults = d->count[FAULT];
	struct ifaddrs *all, *i;

	if (getifaddrs(&all))
		return;
	for (i = all; i && d->count[FAULT] == faults; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_PACKET && i->ifa_flags & IFF_UP &&
		    machine_speaks_arp(i->ifa_name))
			look_at_arp(d, i->ifa_name, subject);
	freeifaddrs(all);
}

/* A back-end has it silently. */
static void look_at_address(struct doctor *d, const struct sockaddr_storage *service, const char *subject)
{
	struct about about = { "", "" };
	char address[64], device[IF_NAMESIZE];
	unsigned int bits = service->ss_family == AF_INET ? 32 : 128;
	bool up = false;

	address_text(service, address, sizeof(address));
	if (!machine_has(service, device, &up)) {
		doctor_found(&about, "no interface has its address: what is given is refused");
		doctor_mend(&about, "ip address add %s/%u dev lo", address, bits);
		return doctor_say(d, FAULT, subject, &about);
	}
	if (!doctor_is_backend(d))
		return;
	if (machine_speaks_arp(device) && !doctor_is_frontend(d)) {
		doctor_found(&about, "%s has its address, and answers for it as the front-end does", device);
		doctor_mend(&about, "# ip address del %s dev %s; ip address add %s/%u dev lo", address, device, address, bits);
		return doctor_say(d, WARNING, subject, &about);
	}
	if (!machine_speaks_arp(device) && service->ss_family == AF_INET)
		look_at_neighbours(d, subject);
}

void doctor_services(struct doctor *d)
{
	struct about none = { "no service is listed: nothing is taken from other nodes", "# flotilla service add ADDRESS:PORT" };
	char address[64], subject[96];
	size_t i;

	if (!d->nr_services && doctor_is_backend(d))
		doctor_say(d, FAULT, "services", &none);
	for (i = 0; i < d->nr_services; i++) {
		const struct sockaddr_storage *service = &d->services[i];
		uint16_t port = address_port(service);

		address_text(service, address, sizeof(address));
		if (port)
			snprintf(subject, sizeof(subject), service->ss_family == AF_INET6 ? "service [%s]:%u" : "service %s:%u",
				 address, port);
		else
			snprintf(subject, sizeof(subject), "service %s", address);
		look_at_address(d, service, subject);
		look_at_listener(d, service, subject);
	}
}

/* Answers go to clients by the default route, mostly; the front-end has no use for them. */
static void look_at_way_back(struct doctor *d, const struct flt_node_info *node, const struct route *back)
{
	struct about about = { "", "" };
	char subject[FLT_NAME_MAX + 8], gateway[64];
	struct route there;
	long filter;

	snprintf(subject, sizeof(subject), "node %s", node->name);
	if (same_address(&back->gateway, &node->addr)) {
		doctor_found(&about, "the default route leads through it: answers take the way that they should save");
		doctor_mend(&about, "# give this machine a default route that does not lead through %s",
			 address_text(&back->gateway, gateway, sizeof(gateway)));
		doctor_say(d, WARNING, subject, &about);
	}
	if (node->addr.ss_family != AF_INET || machine_route(&node->addr, &there))
		return;
	filter = machine_ipv4_conf(there.device, "rp_filter");
	if (filter != 1 || !strcmp(there.device, back->device))
		return;
	doctor_found(&about, "clients' packets come by %s, answers go by %s: the reverse path filter drops them",
		     there.device, back->device);
	/* With slashes, as the name of an interface may have dots. */
	doctor_mend(&about, "sysctl -w net/ipv4/conf/%s/rp_filter=2", there.device);
	doctor_say(d, FAULT, subject, &about);
}

static void look_at_tracking(struct doctor *d)
{
	struct about about = { "", "" };
	long count, max, loose;

	if (!machine_sysctl("net/netfilter/nf_conntrack_count", &count) ||
	    !machine_sysctl("net/netfilter/nf_conntrack_max", &max) || max <= 0)
		return;
	doctor_found(&about, "%ld of %ld connections are tracked", count, max);
	if (count >= max / 10 * 9)
		doctor_mend(&about, "sysctl -w net.netfilter.nf_conntrack_max=%ld", max * 2);
	doctor_say(d, count >= max / 10 * 9 ? FAULT : FINE, "conntrack", &about);
	if (!doctor_is_backend(d) || !machine_sysctl("net/netfilter/nf_conntrack_tcp_loose", &loose) || loose)
		return;
	doctor_found(&about, "connections that are seen from their middle on are invalid here, as all that are taken");
	doctor_mend(&about, "sysctl -w net.netfilter.nf_conntrack_tcp_loose=1");
	doctor_say(d, FAULT, "conntrack", &about);
}

void doctor_machine(struct doctor *d)
{
	struct route back;
	size_t i;

	for (i = 0; i < d->nr_nodes; i++)
		if (d->nodes[i].role == FLT_ROLE_FRONTEND &&
		    !machine_default_route(d->nodes[i].addr.ss_family, &back))
			look_at_way_back(d, &d->nodes[i], &back);
	look_at_tracking(d);
}
