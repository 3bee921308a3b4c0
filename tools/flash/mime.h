/* SPDX-License-Identifier: GPL-2.0 */
#ifndef FLASH_MIME_H
#define FLASH_MIME_H

struct mime_map;

struct mime_map *mime_new(void);
/* Adds the types of a file in the form of /etc/mime.types; later ones win. -1, and *@why. */
int mime_load(struct mime_map *map, const char *path, const char **why);
void mime_free(struct mime_map *map);

/* By the extension of @name; never NULL. Equal types are the same pointer. */
const char *mime_type(const struct mime_map *map, const char *name);

#endif
