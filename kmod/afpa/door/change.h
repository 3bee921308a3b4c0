/* SPDX-License-Identifier: GPL-2.0 */
/* What takes objects away, here and at peers. */
#ifndef DOOR_CHANGE_H
#define DOOR_CHANGE_H

#include <jansson.h>
#include "config.h"

enum change_kind { CHANGE_DELETE, CHANGE_BAN, CHANGE_TAG, CHANGE_FLUSH };

/**
 * struct change - one of them
 * @port: of which sites, 0: of all
 * @host: "": of whatever host
 * @text: path, prefix or tag
 */
struct change {
	enum change_kind kind;
	uint16_t port;
	char host[AFPA_HOST_MAX + 1];
	char text[AFPA_PATH_MAX + 1];
};

#define SITES_MAX	1024

/**
 * sites_find() - the sites that the door may touch
 * @dev:    the device
 * @config: which are named there, and the control address, which is never one
 * @port:   those at this port, 0: all
 * @only:   NULL, or this one
 * @sites:  out
 *
 * Return: how many, or a negative errno.
 */
int sites_find(int dev, const struct config *config, uint16_t port, const struct afpa_site *only,
	       struct afpa_site sites[SITES_MAX]);

/**
 * change_make() - let it happen here
 * @dev:     the device
 * @sites:   where
 * @nr:      of @sites
 * @change:  what
 * @objects: out: how many went
 *
 * That there was nothing to take away is no error.
 *
 * Return: 0 or a negative errno.
 */
int change_make(int dev, const struct afpa_site *sites, unsigned int nr, const struct change *change,
		uint64_t *objects);

/* As peers are told; NULL without memory. */
json_t *change_pack(const struct change *change);

/* What a peer says, which is judged as what a client says. NULL, or a sentence. */
const char *change_parse(json_t *json, struct change *change);

#endif
