// SPDX-License-Identifier: GPL-2.0
/*
 * A module that does one thing wrong when told to, so that tests can show that the harness notices:
 * echo warn|leak|overrun|sleep|lock|race >/sys/module/flt_faulty/parameters/fault
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

/* These protect nothing. */
static DEFINE_SPINLOCK(faulty_spin);
static DEFINE_MUTEX(faulty_first);
static DEFINE_MUTEX(faulty_second);

static void faulty_leak(void)
{
	int i;

	/* A stale copy of a pointer may hide one of them. */
	for (i = 0; i < 16; i++) {
		void *lost = kmalloc(123, GFP_KERNEL);

		OPTIMIZER_HIDE_VAR(lost);
	}
}

static void faulty_overrun(void)
{
	char *bytes = kmalloc(10, GFP_KERNEL);
	int past = 10;

	OPTIMIZER_HIDE_VAR(past);
	if (bytes)
		WRITE_ONCE(bytes[past], 1);
	kfree(bytes);
}

static void faulty_sleep(void)
{
	spin_lock(&faulty_spin);
	msleep(20);
	spin_unlock(&faulty_spin);
}

static void faulty_lock_order(void)
{
	mutex_lock(&faulty_first);
	mutex_lock(&faulty_second);
	mutex_unlock(&faulty_second);
	mutex_unlock(&faulty_first);
	mutex_lock(&faulty_second);
	mutex_lock(&faulty_first);
	mutex_unlock(&faulty_first);
	mutex_unlock(&faulty_second);
}

/* Not inlined: the report names it. */
static noinline void faulty_count(void)
{
	static unsigned long count;

	count++;
}

static int faulty_racer(void *unused)
{
	while (!kthread_should_stop()) {
		faulty_count();
		cond_resched();
	}
	return 0;
}

static int faulty_race(void)
{
	struct task_struct *racer = kthread_run(faulty_racer, NULL, "faulty_racer");
	unsigned long end = jiffies + HZ;

	if (IS_ERR(racer))
		return PTR_ERR(racer);
	while (time_before(jiffies, end)) {
		faulty_count();
		cond_resched();
	}
	return kthread_stop(racer);
}

static int faulty_set(const char *value, const struct kernel_param *param)
{
	if (sysfs_streq(value, "warn"))
		WARN(1, "asked to warn\n");
	else if (sysfs_streq(value, "leak"))
		faulty_leak();
	else if (sysfs_streq(value, "overrun"))
		faulty_overrun();
	else if (sysfs_streq(value, "sleep"))
		faulty_sleep();
	else if (sysfs_streq(value, "lock"))
		faulty_lock_order();
	else if (sysfs_streq(value, "race"))
		return faulty_race();
	else
		return -EINVAL;
	return 0;
}

static const struct kernel_param_ops faulty_ops = {
	.set = faulty_set,
};

module_param_cb(fault, &faulty_ops, NULL, 0200);
MODULE_PARM_DESC(fault, "what to do wrong now");

static int __init faulty_init(void)
{
	return 0;
}

static void __exit faulty_exit(void)
{
}

module_init(faulty_init);
module_exit(faulty_exit);
MODULE_DESCRIPTION("Does wrong what the test harness must notice");
MODULE_LICENSE("GPL");
