// SPDX-License-Identifier: GPL-2.0
/*
 * Counters per CPU, read as /sys/class/misc/iolite/counters/NAME, by anybody, and all together as
 * /sys/kernel/debug/iolite/counters; writing 0 there starts them anew.
 */
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/sysfs.h>

#include "counter.h"

DEFINE_PER_CPU(struct iol_counters, iol_counters);

static const char *const iol_counter_names[IOL_COUNTER_MAX] = {
	[IOL_CHUNKS_MADE] = "ChunksMade",
	[IOL_CHUNKS_FREED] = "ChunksFreed",
	[IOL_PAGES_SHED] = "PagesShed",
	[IOL_PAGES_FILLED] = "PagesFilled",
	[IOL_BUFFERS_MADE] = "BuffersMade",
	[IOL_BUFFERS_RECYCLED] = "BuffersRecycled",
	[IOL_BUFFERS_FREED] = "BuffersFreed",
	[IOL_BUFFERS_LIMBO] = "BuffersLimbo",
	[IOL_BUFFERS_REOPENED] = "BuffersReopened",
	[IOL_SEALS] = "Seals",
	[IOL_WRITE_REVOKES] = "WriteRevokes",
	[IOL_PTES_READ] = "PtesRead",
	[IOL_PTES_FILL] = "PtesFill",
	[IOL_ZAPS] = "Zaps",
	[IOL_FAULTS_REFUSED] = "FaultsRefused",
	[IOL_GRANTS] = "Grants",
	[IOL_SLICES_REFUSED] = "SlicesRefused",
	[IOL_QUOTA_REFUSED] = "QuotaRefused",
	[IOL_USER_QUOTA_REFUSED] = "UserQuotaRefused",
	[IOL_BYTES_BY_REFERENCE] = "BytesByReference",
	[IOL_BYTES_INLINE] = "BytesCopiedInline",
	[IOL_BYTES_COPIED_RECEIVE] = "BytesCopiedReceive",
	[IOL_BYTES_COPIED_SEND] = "BytesCopiedSend",
	[IOL_BYTES_COPIED_FILE] = "BytesCopiedFile",
	[IOL_FILE_HITS] = "FileHits",
	[IOL_FILE_MISSES] = "FileMisses",
	[IOL_FILE_BYPASSES] = "FileBypasses",
	[IOL_FILE_INVALIDATED] = "FileInvalidated",
	[IOL_FILE_EVICTED] = "FileEvicted",
	[IOL_FILE_EVICTED_REFERENCED] = "FileEvictedReferenced",
	[IOL_FILE_EVICTED_CHOSEN] = "FileEvictedChosen",
	[IOL_RECLAIM_LOOKED] = "ReclaimLooked",
	[IOL_RECLAIM_ASKED] = "ReclaimAsked",
	[IOL_RECLAIM_DECLINED] = "ReclaimDeclined",
	[IOL_BYTES_SUMMED] = "BytesSummed",
	[IOL_BYTES_SUMMED_CACHED] = "BytesSummedFromCache",
	[IOL_PACKETS_SUMMED] = "PacketsSummed",
	[IOL_PACKETS_NOT_SUMMED] = "PacketsNotSummed",
};

static struct device_attribute iol_counter_attrs[IOL_COUNTER_MAX];
static struct attribute *iol_counter_list[IOL_COUNTER_MAX + 1];
static const struct attribute_group iol_counter_group = {
	.name = "counters",
	.attrs = iol_counter_list,
};

const struct attribute_group *iol_counter_groups[] = { &iol_counter_group, NULL };

static struct dentry *iol_debugfs;

static u64 iol_counter_sum(unsigned int id)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu(iol_counters, cpu).value[id]);
	return sum;
}

static ssize_t iol_counter_show(struct device *dev, struct device_attribute *attr, char *text)
{
	return sysfs_emit(text, "%llu\n", iol_counter_sum(attr - iol_counter_attrs));
}

static int iol_counters_show(struct seq_file *seq, void *unused)
{
	unsigned int id;

	for (id = 0; id < IOL_COUNTER_MAX; id++)
		seq_printf(seq, "%s %llu\n", iol_counter_names[id], iol_counter_sum(id));
	return 0;
}

static int iol_counters_open(struct inode *inode, struct file *file)
{
	return single_open(file, iol_counters_show, NULL);
}

/* Counts of other CPUs that are under way may survive; this is for people who measure. */
static ssize_t iol_counters_reset(struct file *file, const char __user *from, size_t len,
				  loff_t *pos)
{
	int cpu;

	for_each_possible_cpu(cpu)
		memset(&per_cpu(iol_counters, cpu), 0, sizeof(struct iol_counters));
	return len;
}

static const struct file_operations iol_counters_fops = {
	.owner = THIS_MODULE,
	.open = iol_counters_open,
	.read = seq_read,
	.write = iol_counters_reset,
	.llseek = seq_lseek,
	.release = single_release,
};

void iol_counters_init(void)
{
	unsigned int id;

	for (id = 0; id < IOL_COUNTER_MAX; id++) {
		iol_counter_attrs[id].attr.name = iol_counter_names[id];
		iol_counter_attrs[id].attr.mode = 0444;
		iol_counter_attrs[id].show = iol_counter_show;
		iol_counter_list[id] = &iol_counter_attrs[id].attr;
	}
	iol_debugfs = debugfs_create_dir("iolite", NULL);
	debugfs_create_file("counters", 0600, iol_debugfs, NULL, &iol_counters_fops);
}

void iol_counters_exit(void)
{
	debugfs_remove_recursive(iol_debugfs);
}
