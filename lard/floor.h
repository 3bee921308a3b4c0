/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ground floor, flotilla.ko: nodes by generic netlink, policy parameters by sysfs, both
 * watched. Without the module nothing here does anything but look again every few seconds.
 */
#ifndef LARD_FLOOR_H
#define LARD_FLOOR_H

#include <stdbool.h>
#include <stdint.h>

struct floor;
struct lardd;

struct floor *floor_new(struct lardd *lardd);
void floor_free(struct floor *floor);
bool floor_is_there(const struct floor *floor);
/* Are policy parameters ruled by sysfs (and not by the configuration file)? */
bool floor_rules(const struct floor *floor);
/* Once a second: the module may have come. */
void floor_tick(struct floor *floor);
/* Counters of all rooms that are loaded. 0 or -errno; -ENOENT: not even flotilla.ko is. */
int floor_stats_each(const struct floor *floor,
		     int (*fn)(const char *room, const char *name, uint64_t value, void *arg),
		     void *arg);

#endif
