// SPDX-License-Identifier: GPL-2.0
/* /dev/uselect: see the uapi header for the contract. */

#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/resource.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "kmod/param.h"

#include "counter.h"
#include "device.h"
#include "fd.h"
#include "move.h"
#include "region.h"
#include "set.h"
#include "watch.h"

static bool enabled = true;
module_param(enabled, admin_bool, 0644);
MODULE_PARM_DESC(enabled, "accept new registrations (those that exist go on)");

/* private_data: NULL, then a set for good. */
static struct usel_set *usel_device_set(struct file *file)
{
	/* Pairs with cmpxchg() in usel_device_setup(). */
	return smp_load_acquire((struct usel_set **)&file->private_data);
}

static int usel_device_check(struct usel_setup *setup)
{
	static const u32 zero[ARRAY_SIZE(setup->reserved)];
	unsigned long limit = min_t(unsigned long, rlimit_max(RLIMIT_NOFILE), USEL_NFDS_MAX);

	if (setup->abi != USEL_ABI)
		return -EPROTO;
	if (setup->flags & ~(USEL_SETUP_BYTES | USEL_SETUP_THRESHOLD | USEL_SETUP_EDGES))
		return -EOPNOTSUPP;
	if ((setup->flags & USEL_SETUP_EDGES) && (setup->flags & USEL_SETUP_BYTES))
		return -EINVAL;
	if ((setup->flags & USEL_SETUP_THRESHOLD) && !(setup->flags & USEL_SETUP_BYTES))
		return -EINVAL;
	if (memcmp(setup->reserved, zero, sizeof(zero)))
		return -EINVAL;
	if (!setup->nfds)
		setup->nfds = min_t(unsigned long, limit, USEL_NFDS_DEFAULT);
	if (!setup->ring)
		setup->ring = USEL_RING_DEFAULT;
	if (setup->nfds > USEL_NFDS_MAX || setup->ring > USEL_RING_MAX)
		return -EINVAL;
	setup->nfds = round_up(setup->nfds, USEL_NFDS_ALIGN);
	return 0;
}

static int usel_device_setup(struct file *file, struct usel_setup __user *arg)
{
	struct usel_setup setup;
	struct usel_set *set;
	int err;

	if (copy_from_user(&setup, arg, sizeof(setup)))
		return -EFAULT;
	err = usel_device_check(&setup);
	if (err)
		return err;
	if (usel_device_set(file))
		return -EBUSY;
	if (!READ_ONCE(enabled))
		return -ENODEV;
	set = usel_set_open(&setup);
	if (IS_ERR(set))
		return PTR_ERR(set);
	setup.features = USEL_FEATURE_BYTES | USEL_FEATURE_EDGES | USEL_FEATURE_MOVE |
			 (set->region->traced ? USEL_FEATURE_TRACE_FD | USEL_FEATURE_WATCH : 0);
	if (copy_to_user(arg, &setup, sizeof(setup))) {
		usel_set_close(set);
		return -EFAULT;
	}
	/* Two threads on one descriptor: the later one has made a set for nothing. */
	if (cmpxchg((struct usel_set **)&file->private_data, NULL, set)) {
		usel_set_close(set);
		return -EBUSY;
	}
	/* Closed meanwhile: its flush() saw no set, and there will be no other. */
	if (!usel_fd_names(file)) {
		usel_region_leave(set);
		return -EBADF;
	}
	return 0;
}

static long usel_device_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct usel_set *set = usel_device_set(file);
	s32 fd;
	long err;

	switch (cmd) {
	case USEL_SETUP:
		err = usel_device_setup(file, (struct usel_setup __user *)arg);
		if (err)
			usel_count(current->nsproxy->net_ns, USEL_STAT_SETUPS_REFUSED);
		return err;
	case USEL_TRACK:
	case USEL_FORGET:
	case USEL_WATCH:
		if (!set)
			return -EINVAL;
		if (get_user(fd, (s32 __user *)arg))
			return -EFAULT;
		if (fd < 0)
			return -EBADF;
		if (cmd == USEL_WATCH)
			return usel_watch_begin(set, fd);
		return cmd == USEL_TRACK ? usel_fd_track(set->region, fd) :
					   usel_fd_forget(set->region, fd);
	case USEL_MOVE:
		return !set ? -EINVAL : usel_move_all((const struct usel_moves __user *)arg);
	case USEL_KICK:
		if (!set)
			return -EINVAL;
		usel_set_wake(set);
		return 0;
	default:
		return -ENOTTY;
	}
}

static int usel_device_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct usel_set *set = usel_device_set(file);

	if (!set)
		return -EINVAL;
	/* Whoever else has the file, by fork() or from hand to hand, has none of what is in it. */
	if (!usel_region_is_current(set->region))
		return -EXDEV;
	switch (vma->vm_pgoff << PAGE_SHIFT) {
	case USEL_MAP_REGION:
		return usel_pinned_mmap(&set->region->mem, vma, false);
	case USEL_MAP_SET:
		return usel_pinned_mmap(&set->out, vma, false);
	case USEL_MAP_WANT:
		return usel_pinned_mmap(&set->in, vma, true);
	default:
		return -EINVAL;
	}
}

static __poll_t usel_device_poll(struct file *file, struct poll_table_struct *wait)
{
	struct usel_set *set = usel_device_set(file);

	return set ? usel_set_poll(set, file, wait) : EPOLLERR;
}

/*
 * Called for each close() of a descriptor, by the end of a process too, with the table
 * that it was in: the one moment when a region's owner can be told from its children.
 */
static int usel_device_flush(struct file *file, fl_owner_t table)
{
	struct usel_set *set = usel_device_set(file);

	if (set && (const struct files_struct *)table == set->region->files)
		usel_region_leave(set);
	return 0;
}

static int usel_device_release(struct inode *inode, struct file *file)
{
	struct usel_set *set = usel_device_set(file);

	if (set)
		usel_set_close(set);
	return 0;
}

static int usel_device_open(struct inode *inode, struct file *file)
{
	file->private_data = NULL;	/* the misc device's own */
	return nonseekable_open(inode, file);
}

static const struct file_operations usel_device_fops = {
	.owner		= THIS_MODULE,
	.open		= usel_device_open,
	.release	= usel_device_release,
	.flush		= usel_device_flush,
	.unlocked_ioctl	= usel_device_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.mmap		= usel_device_mmap,
	.poll		= usel_device_poll,
};

/*
 * Not for everyone: events are written in softirq, for each descriptor of a socket and each set
 * of its process, and no cgroup pays for that. 70-flotilla.rules lets a group in.
 */
static struct miscdevice usel_device = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "uselect",
	.fops	= &usel_device_fops,
	.mode	= 0660,
};

int usel_device_register(void)
{
	return misc_register(&usel_device);
}

void usel_device_unregister(void)
{
	misc_deregister(&usel_device);
}
