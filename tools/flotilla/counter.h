/* SPDX-License-Identifier: GPL-2.0 */
/* The counters of all rooms that are loaded, however each tells them. */
#ifndef FLOTILLA_COUNTER_H
#define FLOTILLA_COUNTER_H

#include "cli.h"

/*
 * Those of this network namespace by generic netlink, and then those of iolite.ko, which needs no
 * flotilla.ko and has its counters, of the whole machine, in sysfs. @cli->client is NULL after it
 * if only iolite.ko is loaded. Returns an exit status, after a sentence.
 */
int counters_each(struct cli *cli, flt_stat_fn fn, void *arg);

/*
 * And neither coming nor going: who asks for a netlink family that is not there has the kernel load
 * its module.
 */
bool module_is_loaded(const char *module);

/* iolite's alone; 0, also without iolite.ko, or what @fn gave. */
int iolite_counters_each(flt_stat_fn fn, void *arg);

#endif
