/* SPDX-License-Identifier: GPL-2.0 */
/* The sysfs class "flotilla" and its device "dispatch", one in each namespace. */
#ifndef FLT_DISPATCH_H
#define FLT_DISPATCH_H

#include "netns.h"

extern const struct class flt_class;

int flt_dispatch_enter(struct flt_net *fn);
void flt_dispatch_leave(struct flt_net *fn);

/* A node came, went or changed: the automatic limit may be another one. */
void flt_dispatch_refresh(struct flt_net *fn);

int flt_dispatch_init(void);
void flt_dispatch_exit(void);

/*
 * Whether the caller may change the namespace: the files' mode lets root of a
 * container write that has given CAP_NET_ADMIN away.
 */
bool flt_may_write(const struct device *dev);

/* An unsigned number of @min to @max, nothing else; -EINVAL. */
int flt_parse_uint(const char *text, unsigned int min, unsigned int max, unsigned int *value);

#endif
