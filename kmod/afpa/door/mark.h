/* SPDX-License-Identifier: GPL-2.0 */
/* A file for each peer that lacks something: it outlives the process. */
#ifndef DOOR_MARK_H
#define DOOR_MARK_H

#include <stdbool.h>

/* All take the directory, "": none is kept. Whether there is a mark; true if that cannot be known. */
bool mark_is_set(const char *directory, const char *url);
/* 0 once it is on the disk, or a negative errno. */
int mark_set(const char *directory, const char *url);
void mark_clear(const char *directory, const char *url);
/* 0, or a negative errno: marks cannot be kept there. */
int mark_try(const char *directory);

#endif
