/* SPDX-License-Identifier: GPL-2.0 */
/*
 * From a name to a file: what a translation helper does (Pai, 4.4.1).
 *
 * The steps are tried on the loop first, with calls that fail instead of waiting for a disk
 * (openat2 with RESOLVE_CACHED, preadv2 with RWF_NOWAIT); a helper goes on from there.
 */
#ifndef FLASH_LOOKUP_H
#define FLASH_LOOKUP_H

#include "cache.h"

struct conf;
struct worker;

/**
 * lookup_path() - what does a request path stand for?
 * @w:      the worker
 * @vhost:  host of the request
 * @name:   path as sent
 * @hash:   its hash
 * @waiter: called later when the answer has to be waited for
 *
 * Return: an entry with a reference, or NULL: @waiter is queued and its @ready will be called,
 * or (@waiter not queued) memory is short.
 */
struct path *lookup_path(struct worker *w, const struct vhost *vhost, const struct slice *name,
			 uint32_t hash, struct waiter *waiter);

/*
 * In a helper process: looks the name up and reads what the loop would, so that the loop finds all
 * of it in memory. 0, also when there is no such file: that is for the loop to see.
 */
int lookup_warm(const struct conf *conf, int vhost, const char *name);

/* Is symlink-safe opening without waiting possible here? Decided once at start. */
void lookup_probe(void);

#endif
