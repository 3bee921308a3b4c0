// SPDX-License-Identifier: GPL-2.0
/* Addresses of sockets. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "address.h"

static int parse_port(const char *text, uint16_t *port)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || !n || n > 65535)
		return -EINVAL;
	*port = n;
	return 0;
}

int address_parse(const char *text, uint16_t port, union address *address)
{
	char host[INET6_ADDRSTRLEN];
	const char *end, *rest;
	size_t len;

	if (*text == '[') {
		end = strchr(++text, ']');
		rest = end ? end + 1 : NULL;
	} else {
		end = strrchr(text, ':');
		if (end && memchr(text, ':', end - text))
			end = NULL;	/* an IPv6 address without port */
		if (!end)
			end = text + strlen(text);
		rest = end;
	}
	if (!end || (*rest && *rest != ':'))
		return -EINVAL;
	if (*rest == ':' && parse_port(rest + 1, &port))
		return -EINVAL;
	len = end - text;
	if (!port || !len || len >= sizeof(host))
		return -EINVAL;
	memcpy(host, text, len);
	host[len] = '\0';

	memset(address, 0, sizeof(*address));
	if (!strcmp(host, "*"))
		strcpy(host, "0.0.0.0");
	if (inet_pton(AF_INET, host, &address->in.sin_addr) == 1)
		address->any.sa_family = AF_INET;
	else if (inet_pton(AF_INET6, host, &address->in6.sin6_addr) == 1)
		address->any.sa_family = AF_INET6;
	else
		return -EINVAL;
	address_set_port(address, port);
	return 0;
}

socklen_t address_len(const union address *address)
{
	return address->any.sa_family == AF_INET6 ? sizeof(address->in6) : sizeof(address->in);
}

/* The port is at the same place in both families. */
uint16_t address_port(const union address *address)
{
	return ntohs(address->in.sin_port);
}

void address_set_port(union address *address, uint16_t port)
{
	address->in.sin_port = htons(port);
}

const char *address_host(const union address *address, char *text, size_t size)
{
	const void *bytes = address->any.sa_family == AF_INET6 ?
			    (const void *)&address->in6.sin6_addr : &address->in.sin_addr;

	if (!inet_ntop(address->any.sa_family, bytes, text, size))
		snprintf(text, size, "?");
	return text;
}

const char *address_text(const union address *address, char *text, size_t size)
{
	char host[INET6_ADDRSTRLEN];
	int v6 = address->any.sa_family == AF_INET6;

	snprintf(text, size, "%s%s%s:%u", v6 ? "[" : "",
		 address_host(address, host, sizeof(host)), v6 ? "]" : "", address_port(address));
	return text;
}
