// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/class/card: a directory for each disk ("card0") and each export ("export.data")
 * that has a policy, seen in its network namespace only.
 */

#include <linux/capability.h>
#include <linux/netdevice.h>

#include "kmod/compat/device.h"
#include "cache.h"
#include "rules.h"

#define CARD_EVICT_ALL	(BIT(CARD_CLASSES) - 1)

static const char *const card_actions[__CARD_ACTIONS] = {
	[CARD_ACTION_COOP] = "coop",
	[CARD_ACTION_DISK] = "disk",
	[CARD_ACTION_DISCARD] = "discard",
};

void card_rules_init(struct card_rules *rules)
{
	/* WebStone's classes. */
	rules->limit[0] = 1 << 10;
	rules->limit[1] = 10 << 10;
	rules->limit[2] = 100 << 10;
	rules->evict = CARD_EVICT_ALL;
	rules->depth = CARD_SAVE_DEPTH;
}

u8 card_rules_class(const struct card_rules *rules, const struct inode *inode)
{
	loff_t size;
	u8 i;

	if (!inode || !S_ISREG(inode->i_mode))
		return CARD_CLASS_NONE;
	size = i_size_read(inode);
	for (i = 0; i < ARRAY_SIZE(rules->limit); i++)
		if (size < rules->limit[i])
			break;
	return CARD_CLASS_0 + i;
}

static struct card_cache *card_rules_cache(struct device *dev)
{
	return dev_get_drvdata(dev);
}

/* As for commands. Who is root without it, in a container, owns the files all the same. */
static bool card_rules_may_write(void)
{
	return capable(CAP_SYS_ADMIN);
}

/* All of them as they were at one moment. */
static struct card_rules card_rules_now(struct device *dev)
{
	struct card_cache *cache = card_rules_cache(dev);
	struct card_rules rules;

	spin_lock_irq(&cache->lock);
	rules = cache->rules;
	spin_unlock_irq(&cache->lock);
	return rules;
}

static ssize_t class_limits_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct card_rules rules = card_rules_now(dev);

	return sysfs_emit(buf, "%llu %llu %llu\n", rules.limit[0], rules.limit[1], rules.limit[2]);
}

static ssize_t class_limits_store(struct device *dev, struct device_attribute *attr,
				  const char *buf, size_t len)
{
	struct card_cache *cache = card_rules_cache(dev);
	u64 limit[CARD_CLASSES - 2];
	int end = 0;

	if (!card_rules_may_write())
		return -EPERM;
	if (sscanf(buf, "%llu %llu %llu %n", &limit[0], &limit[1], &limit[2], &end) != 3 ||
	    end != len || !limit[0] || limit[1] <= limit[0] || limit[2] <= limit[1] ||
	    limit[2] > LLONG_MAX)
		return -EINVAL;
	spin_lock_irq(&cache->lock);
	memcpy(cache->rules.limit, limit, sizeof(limit));
	spin_unlock_irq(&cache->lock);
	return len;
}
static DEVICE_ATTR_RW(class_limits);

static ssize_t class_action_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct card_rules rules = card_rules_now(dev);

	return sysfs_emit(buf, "%s %s %s %s\n", card_actions[rules.action[CARD_CLASS_0]],
			  card_actions[rules.action[CARD_CLASS_1]],
			  card_actions[rules.action[CARD_CLASS_2]],
			  card_actions[rules.action[CARD_CLASS_3]]);
}

static ssize_t class_action_store(struct device *dev, struct device_attribute *attr,
				  const char *buf, size_t len)
{
	struct card_cache *cache = card_rules_cache(dev);
	char word[CARD_CLASSES - 1][8];
	u8 action[CARD_CLASSES - 1];
	int i, end = 0, which;

	if (!card_rules_may_write())
		return -EPERM;
	if (sscanf(buf, "%7s %7s %7s %7s %n", word[0], word[1], word[2], word[3], &end) !=
	    ARRAY_SIZE(word) || end != len)
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(word); i++) {
		which = match_string(card_actions, __CARD_ACTIONS, word[i]);
		if (which < 0)
			return -EINVAL;
		action[i] = which;
	}
	spin_lock_irq(&cache->lock);
	memcpy(&cache->rules.action[CARD_CLASS_0], action, sizeof(action));
	spin_unlock_irq(&cache->lock);
	return len;
}
static DEVICE_ATTR_RW(class_action);

static ssize_t evict_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct card_cache *cache = card_rules_cache(dev);
	u8 evict = READ_ONCE(cache->rules.evict), class;
	ssize_t len = 0;

	if (evict == CARD_EVICT_ALL)
		return sysfs_emit(buf, "all\n");
	if (!evict)
		return sysfs_emit(buf, "none\n");
	for (class = CARD_CLASS_0; class < CARD_CLASSES; class++)
		if (evict & BIT(class))
			len += sysfs_emit_at(buf, len, "%s%u", len ? "," : "",
					     class - CARD_CLASS_0);
	return len + sysfs_emit_at(buf, len, "\n");
}

/* Numbers of classes between commas; blocks that are of no class are then not meant. */
static int card_evict_parse(const char *buf, u8 *evict)
{
	*evict = 0;
	if (sysfs_streq(buf, "none"))
		return 0;
	*evict = CARD_EVICT_ALL;
	if (sysfs_streq(buf, "all"))
		return 0;
	*evict = 0;
	for (;; buf += 2) {
		u8 class = buf[0] - '0' + CARD_CLASS_0;

		if (buf[0] < '0' || class >= CARD_CLASSES)
			return -EINVAL;
		*evict |= BIT(class);
		if (!buf[1] || sysfs_streq(buf + 1, ""))
			return 0;
		if (buf[1] != ',')
			return -EINVAL;
	}
}

static ssize_t evict_store(struct device *dev, struct device_attribute *attr, const char *buf,
			   size_t len)
{
	struct card_cache *cache = card_rules_cache(dev);
	u8 evict;

	if (!card_rules_may_write())
		return -EPERM;
	if (card_evict_parse(buf, &evict))
		return -EINVAL;
	spin_lock_irq(&cache->lock);
	WRITE_ONCE(cache->rules.evict, evict);
	spin_unlock_irq(&cache->lock);
	return len;
}
static DEVICE_ATTR_RW(evict);

static ssize_t depth_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(card_rules_cache(dev)->rules.depth));
}

static ssize_t depth_store(struct device *dev, struct device_attribute *attr, const char *buf,
			   size_t len)
{
	struct card_cache *cache = card_rules_cache(dev);
	u8 depth;

	if (!card_rules_may_write())
		return -EPERM;
	if (!isdigit(buf[0]) || kstrtou8(buf, 10, &depth) || depth > CARD_DEPTH_MAX)
		return -EINVAL;
	spin_lock_irq(&cache->lock);
	WRITE_ONCE(cache->rules.depth, depth);
	spin_unlock_irq(&cache->lock);
	return len;
}
static DEVICE_ATTR_RW(depth);

static ssize_t home_shift_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", card_rules_cache(dev)->members->home_shift);
}
static DEVICE_ATTR_RO(home_shift);

/* The load table: blocks here by the place of their home, the exporter's first. */
static ssize_t load_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct card_cache *cache = card_rules_cache(dev);
	ssize_t len = 0;
	u16 place;

	for (place = 0; place < cache->nr; place++)
		len += sysfs_emit_at(buf, len, "%s%u", place ? " " : "",
				     READ_ONCE(cache->load[place]));
	return len + sysfs_emit_at(buf, len, "\n");
}
static DEVICE_ATTR_RO(load);

static struct attribute *card_rules_attrs[] = {
	&dev_attr_class_limits.attr,
	&dev_attr_class_action.attr,
	&dev_attr_evict.attr,
	&dev_attr_depth.attr,
	&dev_attr_home_shift.attr,
	&dev_attr_load.attr,
	NULL
};
ATTRIBUTE_GROUPS(card_rules);

static flt_class_ns *card_rules_namespace(const struct device *dev)
{
	const struct card_cache *cache = dev_get_drvdata(dev);

	return flt_compat_class_ns(cache->cn->net);
}

static const struct class card_rules_of_caches = {
	.name = "card",
	.ns_type = &net_ns_type_operations,
	.namespace = card_rules_namespace,
};

int card_rules_show(struct card_cache *cache, const char *name)
{
	struct device *dev = device_create_with_groups(&card_rules_of_caches, NULL, MKDEV(0, 0),
						       cache, card_rules_groups, "%s", name);

	if (IS_ERR(dev))
		return PTR_ERR(dev);
	cache->dir = dev;
	return 0;
}

void card_rules_hide(struct card_cache *cache)
{
	if (cache && cache->dir)
		device_unregister(cache->dir);	/* waits for those who read or write */
	if (cache)
		cache->dir = NULL;
}

int card_rules_register(void)
{
	return class_register(&card_rules_of_caches);
}

void card_rules_unregister(void)
{
	class_unregister(&card_rules_of_caches);
}
