// SPDX-License-Identifier: GPL-2.0
/*
 * The sysfs class "flotilla", namespaced by network namespace, and its device
 * "dispatch": the parameters of request distribution (LARD, sections 3.1.4 and
 * 3.1.5). The kernel keeps them for whoever dispatches; a change is visible at
 * once, and announced to who polls the attribute and in the events group.
 */

#include <linux/capability.h>
#include <linux/device.h>
#include <linux/netdevice.h>
#include "compat/device.h"
#include "dispatch.h"
#include "event.h"
#include "table.h"

#define FLT_T_LOW_DEFAULT	25
#define FLT_T_HIGH_DEFAULT	65
#define FLT_REPLICATION_DEFAULT	20
#define FLT_LOAD_MAX		1000000
#define FLT_REPLICATION_MAX	(365 * 86400)
#define FLT_LIMIT_MAX		100000000

static const char *const flt_policies[] = { "wrr", "lb", "lard", "lard/r", "lc", "chbl" };

#define FLT_POLICY_DEFAULT	3	/* lard/r: the complete strategy */

static flt_class_ns *flt_class_namespace(const struct device *dev)
{
	const struct flt_net *fn = dev_get_drvdata(dev);

	return flt_compat_class_ns(fn->net);
}

static void flt_class_ownership(const struct device *dev, kuid_t *uid, kgid_t *gid)
{
	const struct flt_net *fn = dev_get_drvdata(dev);

	net_ns_get_ownership(fn->net, uid, gid);
}

const struct class flt_class = {
	.name		= "flotilla",
	.ns_type	= &net_ns_type_operations,
	.namespace	= flt_class_namespace,
	.get_ownership	= flt_class_ownership,
};

int flt_parse_uint(const char *text, unsigned int min, unsigned int max, unsigned int *value)
{
	unsigned int v;

	/* kstrtouint takes a sign; a number of connections has none. */
	if (!isdigit(*text) || kstrtouint(text, 10, &v) || v < min || v > max)
		return -EINVAL;
	*value = v;
	return 0;
}

bool flt_may_write(const struct device *dev)
{
	const struct flt_net *fn = dev_get_drvdata(dev);

	return ns_capable(fn->net->user_ns, CAP_NET_ADMIN);
}

static struct flt_dispatch *flt_dispatch(struct device *dev)
{
	struct flt_net *fn = dev_get_drvdata(dev);

	return &fn->dispatch;
}

/* S = (n - 1) * T_high + T_low - 1, unless the operator gave a number. */
static unsigned int flt_dispatch_limit(struct flt_net *fn)
{
	const struct flt_dispatch *d = &fn->dispatch;
	unsigned int limit = READ_ONCE(d->limit);
	unsigned int n;
	u64 s;

	if (limit)
		return limit;
	n = flt_node_count_ready(fn);
	if (!n)
		return 0;
	s = (u64)(n - 1) * READ_ONCE(d->t_high) + READ_ONCE(d->t_low) - 1;
	return min_t(u64, s, FLT_LIMIT_MAX);
}

void flt_dispatch_refresh(struct flt_net *fn)
{
	struct flt_dispatch *d = &fn->dispatch;
	unsigned int limit;
	bool changed;

	mutex_lock(&d->lock);
	limit = flt_dispatch_limit(fn);
	changed = d->dev && limit != d->shown;
	d->shown = limit;
	if (changed)
		sysfs_notify(&d->dev->kobj, NULL, "max_outstanding");
	mutex_unlock(&d->lock);
	if (changed)
		flt_event_dispatch(fn);
}

/* Says to everyone that @name was written, and what follows from it. */
static void flt_dispatch_changed(struct device *dev, const char *name)
{
	struct flt_net *fn = dev_get_drvdata(dev);

	sysfs_notify(&dev->kobj, NULL, name);
	flt_event_dispatch(fn);
	flt_dispatch_refresh(fn);
}

static ssize_t policy_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", flt_policies[READ_ONCE(flt_dispatch(dev)->policy)]);
}

static ssize_t policy_store(struct device *dev, struct device_attribute *attr, const char *buf,
			    size_t count)
{
	int i = sysfs_match_string(flt_policies, buf);

	if (!flt_may_write(dev))
		return -EPERM;
	if (i < 0)
		return i;
	WRITE_ONCE(flt_dispatch(dev)->policy, i);
	flt_dispatch_changed(dev, "policy");
	return count;
}
static DEVICE_ATTR_RW(policy);

static ssize_t available_policies_show(struct device *dev, struct device_attribute *attr,
				       char *buf)
{
	int i, n = 0;

	for (i = 0; i < ARRAY_SIZE(flt_policies); i++)
		n += sysfs_emit_at(buf, n, "%s%s", i ? " " : "", flt_policies[i]);
	return n + sysfs_emit_at(buf, n, "\n");
}
static DEVICE_ATTR_RO(available_policies);

static ssize_t t_low_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(flt_dispatch(dev)->t_low));
}

static ssize_t t_low_store(struct device *dev, struct device_attribute *attr, const char *buf,
			   size_t count)
{
	struct flt_dispatch *d = flt_dispatch(dev);
	unsigned int v;
	int err;

	if (!flt_may_write(dev))
		return -EPERM;
	/* From 2 on: with 1 the limit of a single back-end would be no connection. */
	err = flt_parse_uint(buf, 2, FLT_LOAD_MAX, &v);
	if (err)
		return err;
	mutex_lock(&d->lock);
	if (v < d->t_high)
		WRITE_ONCE(d->t_low, v);
	else
		err = -EINVAL;
	mutex_unlock(&d->lock);
	if (err)
		return err;
	flt_dispatch_changed(dev, "t_low");
	return count;
}
static DEVICE_ATTR_RW(t_low);

static ssize_t t_high_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(flt_dispatch(dev)->t_high));
}

static ssize_t t_high_store(struct device *dev, struct device_attribute *attr, const char *buf,
			    size_t count)
{
	struct flt_dispatch *d = flt_dispatch(dev);
	unsigned int v;
	int err;

	if (!flt_may_write(dev))
		return -EPERM;
	err = flt_parse_uint(buf, 2, FLT_LOAD_MAX, &v);
	if (err)
		return err;
	mutex_lock(&d->lock);
	if (v > d->t_low)
		WRITE_ONCE(d->t_high, v);
	else
		err = -EINVAL;
	mutex_unlock(&d->lock);
	if (err)
		return err;
	flt_dispatch_changed(dev, "t_high");
	return count;
}
static DEVICE_ATTR_RW(t_high);

static ssize_t replication_seconds_show(struct device *dev, struct device_attribute *attr,
					char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(flt_dispatch(dev)->replication));
}

static ssize_t replication_seconds_store(struct device *dev, struct device_attribute *attr,
					 const char *buf, size_t count)
{
	unsigned int v;
	int err;

	if (!flt_may_write(dev))
		return -EPERM;
	err = flt_parse_uint(buf, 0, FLT_REPLICATION_MAX, &v);
	if (err)
		return err;
	WRITE_ONCE(flt_dispatch(dev)->replication, v);
	flt_dispatch_changed(dev, "replication_seconds");
	return count;
}
static DEVICE_ATTR_RW(replication_seconds);

static ssize_t max_outstanding_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", flt_dispatch_limit(dev_get_drvdata(dev)));
}

static ssize_t max_outstanding_store(struct device *dev, struct device_attribute *attr,
				     const char *buf, size_t count)
{
	unsigned int v = 0;
	int err;

	if (!flt_may_write(dev))
		return -EPERM;
	if (!sysfs_streq(buf, "auto")) {
		err = flt_parse_uint(buf, 0, FLT_LIMIT_MAX, &v);
		if (err)
			return err;
	}
	WRITE_ONCE(flt_dispatch(dev)->limit, v);
	flt_dispatch_changed(dev, "max_outstanding");
	return count;
}
static DEVICE_ATTR_RW(max_outstanding);

static struct attribute *flt_dispatch_attrs[] = {
	&dev_attr_policy.attr,
	&dev_attr_available_policies.attr,
	&dev_attr_t_low.attr,
	&dev_attr_t_high.attr,
	&dev_attr_replication_seconds.attr,
	&dev_attr_max_outstanding.attr,
	NULL
};
ATTRIBUTE_GROUPS(flt_dispatch);

int flt_dispatch_enter(struct flt_net *fn)
{
	struct flt_dispatch *d = &fn->dispatch;
	struct device *dev;

	mutex_init(&d->lock);
	d->policy = FLT_POLICY_DEFAULT;
	d->t_low = FLT_T_LOW_DEFAULT;
	d->t_high = FLT_T_HIGH_DEFAULT;
	d->replication = FLT_REPLICATION_DEFAULT;
	dev = device_create_with_groups(&flt_class, NULL, MKDEV(0, 0), fn, flt_dispatch_groups,
					"dispatch");
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	mutex_lock(&d->lock);
	d->dev = dev;
	mutex_unlock(&d->lock);
	return 0;
}

void flt_dispatch_leave(struct flt_net *fn)
{
	struct flt_dispatch *d = &fn->dispatch;
	struct device *dev;

	mutex_lock(&d->lock);
	dev = d->dev;
	d->dev = NULL;
	mutex_unlock(&d->lock);
	device_unregister(dev);
}

int __init flt_dispatch_init(void)
{
	return class_register(&flt_class);
}

void flt_dispatch_exit(void)
{
	class_unregister(&flt_class);
}
