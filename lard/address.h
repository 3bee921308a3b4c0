/* SPDX-License-Identifier: GPL-2.0 */
/* Addresses of sockets, IPv4 and IPv6. */
#ifndef LARD_ADDRESS_H
#define LARD_ADDRESS_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* "10.0.0.1:80", "[fd00::1]:80", "*:80", "10.0.0.1" with @port != 0. 0 or -EINVAL. */
int address_parse(const char *text, uint16_t port, union address *address);
socklen_t address_len(const union address *address);
uint16_t address_port(const union address *address);
void address_set_port(union address *address, uint16_t port);

#define ADDRESS_TEXT 64
/* With the port; returns @text. */
const char *address_text(const union address *address, char *text, size_t size);
/* Without port and brackets. */
const char *address_host(const union address *address, char *text, size_t size);

#endif
