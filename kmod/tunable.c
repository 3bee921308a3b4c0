// SPDX-License-Identifier: GPL-2.0
/* The sysfs device "links": tunables of a namespace's links. */

#include <linux/device.h>
#include <linux/module.h>
#include <linux/sizes.h>
#include "dispatch.h"
#include "link.h"
#include "tunable.h"

#define FLT_HEARTBEAT_DEFAULT	1000
#define FLT_HEARTBEAT_MIN	50
#define FLT_HEARTBEAT_MAX	60000
/*
 * Long enough for a machine that stood still for half a minute; who is really dead is as dead to
 * a client a minute later.
 */
#define FLT_GRACE_DEFAULT	60000
#define FLT_GRACE_MAX		3600000
#define FLT_QUEUE_DEFAULT	SZ_4M
#define FLT_QUEUE_MIN		SZ_64K
#define FLT_QUEUE_MAX		SZ_256M

void flt_tunable_reset(struct flt_net *fn)
{
	fn->heartbeat_ms = FLT_HEARTBEAT_DEFAULT;
	fn->grace_ms = FLT_GRACE_DEFAULT;
	fn->queue_max = FLT_QUEUE_DEFAULT;
}

static ssize_t heartbeat_ms_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct flt_net *fn = dev_get_drvdata(dev);

	return sysfs_emit(buf, "%u\n", READ_ONCE(fn->heartbeat_ms));
}

static ssize_t heartbeat_ms_store(struct device *dev, struct device_attribute *attr,
				  const char *buf, size_t count)
{
	struct flt_net *fn = dev_get_drvdata(dev);
	unsigned int v;
	int err;

	if (!flt_may_write(dev))
		return -EPERM;
	err = flt_parse_uint(buf, FLT_HEARTBEAT_MIN, FLT_HEARTBEAT_MAX, &v);
	if (err)
		return err;
	WRITE_ONCE(fn->heartbeat_ms, v);
	return count;
}
static DEVICE_ATTR_RW(heartbeat_ms);

unsigned int flt_grace_ms(const struct net *net)
{
	return READ_ONCE(flt_net(net)->grace_ms);
}
EXPORT_SYMBOL_GPL(flt_grace_ms);

static ssize_t grace_ms_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct flt_net *fn = dev_get_drvdata(dev);

	return sysfs_emit(buf, "%u\n", READ_ONCE(fn->grace_ms));
}

static ssize_t grace_ms_store(struct device *dev, struct device_attribute *attr,
			      const char *buf, size_t count)
{
	struct flt_net *fn = dev_get_drvdata(dev);
	unsigned int v;
	int err;

	if (!flt_may_write(dev))
		return -EPERM;
	err = flt_parse_uint(buf, 0, FLT_GRACE_MAX, &v);
	if (err)
		return err;
	WRITE_ONCE(fn->grace_ms, v);
	return count;
}
static DEVICE_ATTR_RW(grace_ms);

static ssize_t queue_bytes_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct flt_net *fn = dev_get_drvdata(dev);

	return sysfs_emit(buf, "%u\n", READ_ONCE(fn->queue_max));
}

static ssize_t queue_bytes_store(struct device *dev, struct device_attribute *attr,
				 const char *buf, size_t count)
{
	struct flt_net *fn = dev_get_drvdata(dev);
	unsigned int v;
	int err;

	if (!flt_may_write(dev))
		return -EPERM;
	err = flt_parse_uint(buf, FLT_QUEUE_MIN, FLT_QUEUE_MAX, &v);
	if (err)
		return err;
	WRITE_ONCE(fn->queue_max, v);
	return count;
}
static DEVICE_ATTR_RW(queue_bytes);

static struct attribute *flt_links_attrs[] = {
	&dev_attr_heartbeat_ms.attr,
	&dev_attr_grace_ms.attr,
	&dev_attr_queue_bytes.attr,
	NULL
};
ATTRIBUTE_GROUPS(flt_links);

int flt_tunable_enter(struct flt_net *fn)
{
	fn->links_dev = device_create_with_groups(&flt_class, NULL, MKDEV(0, 0), fn,
						  flt_links_groups, "links");
	return PTR_ERR_OR_ZERO(fn->links_dev);
}

void flt_tunable_leave(struct flt_net *fn)
{
	device_unregister(fn->links_dev);
}
