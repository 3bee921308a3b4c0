/* SPDX-License-Identifier: GPL-2.0 */
/* Epolls that sets watch: has anyone changed what they wait for? */
#ifndef USEL_WATCH_H
#define USEL_WATCH_H

#include <linux/compiler.h>

struct file;
struct usel_region;
struct usel_set;

/* For USEL_WATCH; 0 or an errno as in the uapi header. */
int usel_watch_begin(struct usel_set *set, unsigned int fd);
/* The set counts one more change, and no other after it. */
void usel_watch_end(struct usel_set *set);

/* Somebody, anybody, is about to change this epoll. */
void usel_watch_changed(const struct file *file);
/* A number of the region's table comes to name a file. Under RCU. */
void usel_watch_named(struct usel_region *region, unsigned int fd);

#endif
