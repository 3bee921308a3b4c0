// SPDX-License-Identifier: GPL-2.0
/* Addresses: how near they are, and whether they are a site's. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include "config.h"

static bool v4_is_near(uint32_t a)
{
	return a >> 24 == 127 || a >> 24 == 10 || a >> 20 == (172 << 4 | 1) || a >> 16 == (192 << 8 | 168) ||
	       a >> 16 == (169 << 8 | 254);
}

bool address_is_near(const struct sockaddr_storage *address)
{
	const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
	uint32_t v4;

	if (address->ss_family == AF_INET)
		return v4_is_near(ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr));
	if (IN6_IS_ADDR_V4MAPPED(v6)) {
		memcpy(&v4, v6->s6_addr + 12, sizeof(v4));
		return v4_is_near(ntohl(v4));
	}
	return IN6_IS_ADDR_LOOPBACK(v6) || IN6_IS_ADDR_LINKLOCAL(v6) || (v6->s6_addr[0] & 0xfe) == 0xfc;
}

const char *address_text(const struct sockaddr_storage *address, char text[AFPA_SITE_TEXT])
{
	struct afpa_site site;

	if (afpa_site_of(&site, (const struct sockaddr *)address))
		strcpy(text, "an address without a port");
	else
		afpa_site_name(&site, text);
	return text;
}

bool address_is_of_site(const struct sockaddr_storage *address, const struct afpa_site *site)
{
	static const unsigned char any[16];
	struct afpa_site own;

	if (afpa_site_of(&own, (const struct sockaddr *)address) || own.port != site->port)
		return false;
	/* A listener on [::] may have the other family's port, too. */
	return !memcmp(own.addr, any, 16) || !memcmp(site->addr, any, 16) ||
	       (own.family == site->family && !memcmp(own.addr, site->addr, 16));
}
