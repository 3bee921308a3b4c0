// SPDX-License-Identifier: GPL-2.0
/* Does a class name a device's namespace by its common part? */
#include <linux/device/class.h>

#ifndef FLT_PROBE_NOT
const struct ns_common *flt_probe(const struct device *dev);
#else
const void *flt_probe(const struct device *dev);
#endif
extern const struct class flt_probe_class;

const struct class flt_probe_class = {
	.namespace = flt_probe,
};
