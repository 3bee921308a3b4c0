/* SPDX-License-Identifier: GPL-2.0 */
/* Classes of devices that are seen in one network namespace: what differs between kernels. */
#ifndef FLT_COMPAT_DEVICE_H
#define FLT_COMPAT_DEVICE_H

#include <linux/device/class.h>
#include <net/net_namespace.h>
#include <flt_compat_config.h>

/* What the class's namespace() points to for a device. */
#ifdef FLT_HAVE_CLASS_NS_COMMON
#define flt_class_ns	const struct ns_common

static inline flt_class_ns *flt_compat_class_ns(struct net *net)
{
	return to_ns_common(net);
}
#else
#define flt_class_ns	const void

static inline flt_class_ns *flt_compat_class_ns(struct net *net)
{
	return net;
}
#endif

#endif
