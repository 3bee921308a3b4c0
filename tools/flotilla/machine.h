/* SPDX-License-Identifier: GPL-2.0 */
/* What the kernel says of this machine's network: addresses, routes, listeners, sysctls. */
#ifndef FLOTILLA_MACHINE_H
#define FLOTILLA_MACHINE_H

#include <net/if.h>
#include <stdbool.h>
#include <sys/socket.h>

/**
 * struct route - where packets to an address go
 * @type:    RTN_UNICAST, RTN_LOCAL, ...
 * @gateway: ss_family 0: the address is on the segment
 * @device:  the interface, or ""
 */
struct route {
	unsigned char type;
	struct sockaddr_storage gateway;
	char device[IF_NAMESIZE];
};

/* 0, or a negative errno: -ENETUNREACH and the like where there is no route. */
int machine_route(const struct sockaddr_storage *to, struct route *route);
/* The route of packets to nowhere in particular. -ENETUNREACH: there is none. */
int machine_default_route(int family, struct route *route);

typedef void (*machine_listener_fn)(const struct sockaddr_storage *at, void *arg);
/* Each address and port that TCP connections are accepted at; one for both families comes once for each. */
int machine_listeners(int family, machine_listener_fn fn, void *arg);

/* The interface that has the address, up or not; false: none. */
bool machine_has(const struct sockaddr_storage *address, char device[IF_NAMESIZE], bool *up);
/* An Ethernet whose neighbours are found by ARP, as dummy interfaces' are not. */
bool machine_speaks_arp(const char *device);

/* Bytes of the largest packet that the interface takes; 0: there is no such one. */
unsigned int machine_mtu(const char *device);
/*
 * Whether an echo request of @size bytes, with its IP header and not to be fragmented, is answered: one of @tries, each
 * of which waits a second. -1: this user may not ask.
 */
int machine_echo(const struct sockaddr_storage *to, unsigned int size, unsigned int tries);

/* First line of a small file without its newline; false when it cannot be read. */
bool first_line(const char *path, char *text, size_t size);
/* A sysctl by its path below /proc/sys. False: there is no such one, or it cannot be read. */
bool machine_sysctl(const char *path, long *value);
/* Whether a program is installed where a server's is. */
bool machine_has_program(const char *name);
/* net.ipv4.conf.DEVICE.NAME as it counts: the larger of the one and "all". */
long machine_ipv4_conf(const char *device, const char *name);

bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
bool is_any_address(const struct sockaddr_storage *a);

#endif
