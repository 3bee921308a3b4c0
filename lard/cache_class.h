/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The classes that an administrator's cache policy speaks of. A request says by its target of which ones
 * its answer may be, the answer of which it is.
 */
#ifndef LARD_CACHE_CLASS_H
#define LARD_CACHE_CLASS_H

#include <stdbool.h>
#include <stdint.h>
#include "message.h"

struct response;

enum cache_class { CLASS_STATIC, CLASS_IMAGE, CLASS_DYNAMIC, CACHE_CLASSES };

#define CACHE_PREFIXES_MAX	16
#define CACHE_PREFIX_SIZE	128

/**
 * struct cache_policy - what the configuration says of keeping answers
 * @classes:  by enum cache_class
 * @on:       it is kept: its requests are proxied, for else nobody sees the answers
 * @ttl_us:   for how long, where the answer does not say; 0: it must say
 * @grace_us: served after that while somebody fetches it anew, where the answer does not say
 * @if_error_us: the same while back-ends fail
 * @dynamic:  what paths of dynamic pages begin with
 */
struct cache_policy {
	struct {
		bool on;
		uint64_t ttl_us;
	} classes[CACHE_CLASSES];
	uint64_t grace_us;
	uint64_t if_error_us;
	char dynamic[CACHE_PREFIXES_MAX][CACHE_PREFIX_SIZE];
	unsigned int prefixes;
};

extern const char *const cache_class_names[CACHE_CLASSES];

/* A bit for each class that the answer may be of. */
unsigned int cache_class_of_target(const struct cache_policy *policy, struct span target);
/* One of them is kept. */
bool cache_class_is_kept(const struct cache_policy *policy, struct span target);
/* Of the answer to a request with @classes. */
enum cache_class cache_class_of_answer(unsigned int classes, const struct response *r);

#endif
