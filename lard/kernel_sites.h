/* SPDX-License-Identifier: GPL-2.0 */
/* What kernel_cache.c and kernel_sites.c share, and nobody else: the device and the sites there. */
#ifndef LARD_KERNEL_SITES_H
#define LARD_KERNEL_SITES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "kernel_cache.h"
#include "kmod/afpa/lib/afpa.h"

/**
 * struct site - an address that was listened on
 * @on:   it is filled
 * @ours: it was not there before us: it goes with us
 */
struct site {
	struct afpa_site name;
	_Atomic bool on;
	bool ours;
};

/**
 * struct kernel_cache - see kernel_cache.h
 * @lock:    for reading as long as @device is used: it may be closed by a reload. A leaf
 * @device:  -1: there is none
 * @given:   to a successor
 * @why:     it is not used
 * @told:    failures that the log has, a bit for each errno
 */
struct kernel_cache {
	pthread_rwlock_t lock;
	int device;
	bool given;
	_Atomic unsigned int count;
	struct site sites[KERNEL_SITES_MAX];
	const char *why;
	_Atomic uint64_t told;
};

static inline bool kernel_site_is_on(const struct kernel_cache *kc, unsigned int site)
{
	return site < KERNEL_SITES_MAX && kc->sites[site].on;
}

#endif
