/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What lardd's cache gives to afpa.ko: the kernel answers the next GET before lardd hears of it. A site is
 * a listening address in clear text. lardd adds those that are not there, and takes these away again.
 *
 * The kernel says what holds: what was deleted or banned there (`flotilla cache`) is not served here
 * either, as an entry knows the number that the kernel gave it.
 */
#ifndef LARD_KERNEL_CACHE_H
#define LARD_KERNEL_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "address.h"

struct config;
struct entry;
struct kernel_cache;
struct request;
struct worker;

#define KERNEL_SITES_MAX	64	/* addresses that were ever listened on; beyond, they are not filled */
#define KERNEL_SITE_NONE	0xff
#define KERNEL_COPIES		4	/* sites of one port that are filled at once */
#define KERNEL_TAG		"lardd"	/* of all that is put here */

/**
 * struct kernel_copy - where an answer has been put
 * @version: the kernel's number of it; 0: nowhere
 */
struct kernel_copy {
	uint64_t version;
	uint8_t site;
};

/**
 * struct kernel_name - a request's target, as afpa names it
 * @host:   without a port; NULL: the kernel would not answer it, or not here
 * @path:   in the same memory
 * @ticket: taken before the back-end was asked; 0: its answer is not for the kernel
 * @site:   of the connection
 */
struct kernel_name {
	char *host;
	const char *path;
	uint64_t ticket;
	uint8_t site;
};

struct kernel_cache *kernel_cache_new(void);
/* Sites that are ours go, unless a successor has them. */
void kernel_cache_free(struct kernel_cache *kc);

/* The number of an address, for as long as lardd runs; KERNEL_SITE_NONE: there are too many. */
uint8_t kernel_cache_site(struct kernel_cache *kc, const union address *address);
/*
 * Sites for the listeners of @config, which are there by now, and no others. Opens the device if it is not open,
 * which takes the user that lardd was started as.
 */
void kernel_cache_configure(struct kernel_cache *kc, const struct config *config);
/* What a predecessor says of its sites (kernel_cache_ours()): they are ours now. Before the first configuration. */
void kernel_cache_inherit(struct kernel_cache *kc, const char *names);
/* Names of our sites with a blank behind each; the caller's. A successor that has taken over has them. */
char *kernel_cache_ours(struct kernel_cache *kc);
void kernel_cache_give_away(struct kernel_cache *kc);

/* As afpa would read it; false, and nothing to be freed: it would not answer that. */
bool kernel_name_make(struct kernel_cache *kc, struct kernel_name *name, const struct request *r,
		      uint8_t site, uint16_t port);
void kernel_name_free(struct kernel_name *name);

/* Before a back-end is asked. */
void kernel_cache_ticket(struct kernel_cache *kc, struct kernel_name *name);
/*
 * To all sites of the connection's port. 0 with @entry->copies; -ESTALE: something was said of the page since the
 * ticket, and it is not to be kept anywhere; another -errno: the kernel does not have it.
 */
int kernel_cache_put(struct worker *w, const struct kernel_name *name, struct entry *entry,
		     uint64_t now_us);
/* Wherever @entry has been put it is still there; or, where that has expired, nobody has said that it should go. */
bool kernel_cache_holds(struct kernel_cache *kc, const struct kernel_name *name,
			const struct entry *entry, uint64_t now_us);
/* At all sites, whatever the port. */
void kernel_cache_forget(struct kernel_cache *kc, const struct kernel_name *name);

/* Of all sites: what has the @tag; or, with @host and @path instead, that. */
void kernel_cache_clear(struct kernel_cache *kc, const char *tag, const char *host, const char *path);

/* The kernel has answered on this connection: for so long it has been silent since, in microseconds. */
bool kernel_cache_spoke(int fd, uint64_t *silent_us);

struct kernel_cache_info {
	bool on;		/* there is a device, and the configuration says so */
	unsigned int sites;	/* that are filled */
	const char *why;	/* it is not */
};

/* Sites that are filled; needs no lock. */
unsigned int kernel_cache_filled(const struct kernel_cache *kc);
void kernel_cache_get_info(struct kernel_cache *kc, struct kernel_cache_info *info);

#endif
