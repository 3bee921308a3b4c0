/* SPDX-License-Identifier: GPL-2.0 */
/* The sysfs device "links": tunables of a namespace's links. */
#ifndef FLT_TUNABLE_H
#define FLT_TUNABLE_H

#include "netns.h"

void flt_tunable_reset(struct flt_net *fn);
int flt_tunable_enter(struct flt_net *fn);
void flt_tunable_leave(struct flt_net *fn);

#endif
