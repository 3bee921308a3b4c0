// SPDX-License-Identifier: GPL-2.0
#include "target.h"
#include <stdio.h>
#include <string.h>
#include "kmod/afpa/request.h"

static const char *take_host(struct target *target, const char *text, size_t len)
{
	char host[AFPA_HOST_MAX + sizeof(":65535")];
	__u16 port = 0;
	size_t name;

	if (!len || len >= sizeof(host))
		return "the host is missing or too long";
	memcpy(host, text, len);
	host[len] = '\0';
	/* It stands for any, and may have a port, too. */
	if (host[0] == '*' && (len == 1 || host[1] == ':'))
		host[0] = 'x';
	name = afpa_host_length(host, len, &port);
	if (!name)
		return "the host is not a name or an address, perhaps with a port";
	memcpy(target->host, text, name);
	target->host[name] = '\0';
	target->port = port ? port : 80;
	return NULL;
}

static const char *take_page(struct target *target, const char *text)
{
	size_t host = strcspn(text, "/?#"), path = strlen(text + host);
	const char *why = take_host(target, text, host);

	if (why)
		return why;
	if (path > AFPA_PATH_MAX)
		return "the path is too long";
	if (!afpa_path_is_sound(text + host, path))
		return "the path is not encoded as in requests, or has a segment of dots";
	memcpy(target->path, text + host, path + 1);
	return NULL;
}

const char *target_parse(const char *text, struct target *target)
{
	static const struct {
		const char *name;
		enum route route;
		bool page;
	} routes[] = {
		{ "/v1/object/", ROUTE_OBJECT, true }, { "/v1/ban/", ROUTE_BAN, true },
		{ "/v1/ban", ROUTE_BAN, false }, { "/v1/flush", ROUTE_FLUSH, false },
		{ "/v1/ticket", ROUTE_TICKET, false }, { "/v1/status", ROUTE_STATUS, false },
		{ "/v1/peer", ROUTE_PEER, false },
	};
	unsigned int i;
	size_t len;

	memset(target, 0, sizeof(*target));
	for (i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		len = strlen(routes[i].name);
		if (strncmp(text, routes[i].name, len) || (!routes[i].page && text[len]))
			continue;
		target->route = routes[i].route;
		return routes[i].page ? take_page(target, text + len) : NULL;
	}
	return "there is nothing of that name; see afpad(8)";
}
