// SPDX-License-Identifier: GPL-2.0
/* /dev/afpa: see the uapi header for the contract. */

#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <flotilla/afpa.h>

#include "cache.h"
#include "calls.h"
#include "counter.h"
#include "device.h"
#include "log.h"
#include "protocol.h"
#include "remote.h"
#include "site.h"

#define AFPA_STALL_LEAST	1000
#define AFPA_STALL_MOST		3600000
#define AFPA_OBJECT_MOST	BIT_ULL(30)

/* A structure of @known bytes that begins with its size, of this version or a later one. */
static int afpa_device_copy(void *args, size_t known, const void __user *arg)
{
	u32 size;

	if (get_user(size, (const u32 __user *)arg))
		return -EFAULT;
	if (size < known || size > PAGE_SIZE)
		return -EINVAL;
	return copy_struct_from_user(args, known, arg, size);
}

/* Its size stays what the caller has said. */
static int afpa_device_return(void __user *arg, const void *args, size_t known)
{
	const size_t skip = sizeof(u32);

	return copy_to_user(arg + skip, args + skip, known - skip) ? -EFAULT : 0;
}

/* --- settings --- */

static int afpa_device_settings(struct afpa_net *an, const struct afpa_info *args)
{
	const u32 known = AFPA_SET_MODE | AFPA_SET_BUDGET | AFPA_SET_MAX_OBJECT | AFPA_SET_STALL;

	if (args->flags & ~known)
		return -EOPNOTSUPP;
	if ((args->flags & AFPA_SET_MODE && args->mode > AFPA_MODE_HYBRID) ||
	    (args->flags & AFPA_SET_BUDGET && args->budget > S64_MAX) ||
	    (args->flags & AFPA_SET_MAX_OBJECT && args->max_object > AFPA_OBJECT_MOST) ||
	    (args->flags & AFPA_SET_STALL &&
	     (args->stall_ms < AFPA_STALL_LEAST || args->stall_ms > AFPA_STALL_MOST)))
		return -EINVAL;
	if (args->flags & AFPA_SET_MODE)
		WRITE_ONCE(an->mode, args->mode);
	if (args->flags & AFPA_SET_BUDGET)
		afpa_cache_set_budget(an, args->budget);
	if (args->flags & AFPA_SET_MAX_OBJECT)
		WRITE_ONCE(an->max_object, args->max_object);
	if (args->flags & AFPA_SET_STALL)
		WRITE_ONCE(an->stall_ms, args->stall_ms);
	return 0;
}

static int afpa_device_set(struct afpa_net *an, void __user *arg)
{
	struct afpa_info args;
	int err;

	err = afpa_device_copy(&args, sizeof(args), arg);
	if (err)
		return err;
	err = afpa_device_settings(an, &args);
	if (err)
		return err;
	args.flags = 0;
	return afpa_call_info(an, &args, true) ?: afpa_device_return(arg, &args, sizeof(args));
}

static int afpa_device_policy(struct net *net, void __user *arg)
{
	struct afpa_net *an = afpa_net(net);
	struct afpa_policy_args args;
	int err;

	err = afpa_device_copy(&args, sizeof(args), arg);
	if (err)
		return err;
	if (args.flags & ~AFPA_POLICY_SET)
		return -EOPNOTSUPP;
	if (args.flags && !ns_capable(net->user_ns, CAP_NET_ADMIN))
		return -EPERM;
	if (args.pad || (args.flags && args.policy > AFPA_POLICY_LRU))
		return -EINVAL;
	if (args.flags)
		afpa_cache_set_policy(an, args.policy);
	args.policy = READ_ONCE(an->cache.policy);
	return afpa_device_return(arg, &args, sizeof(args));
}

static int afpa_device_remote(struct net *net, void __user *arg)
{
	struct afpa_net *an = afpa_net(net);
	struct afpa_remote_args args;
	int err;

	err = afpa_device_copy(&args, sizeof(args), arg);
	if (err)
		return err;
	if (args.flags & ~AFPA_REMOTE_SET)
		return -EOPNOTSUPP;
	if (args.flags && !ns_capable(net->user_ns, CAP_NET_ADMIN))
		return -EPERM;
	if (args.pad || (args.flags && args.from > AFPA_REMOTE_NODES))
		return -EINVAL;
	if (args.flags)
		afpa_serve_set(an, args.from);
	args.from = READ_ONCE(an->remote.from);
	return afpa_device_return(arg, &args, sizeof(args));
}

/* --- sites --- */

static int afpa_device_site(struct afpa_net *an, void __user *arg,
			    int (*do_it)(struct afpa_net *an, struct afpa_site_args *args))
{
	struct afpa_site_args args;
	int err;

	err = afpa_device_copy(&args, sizeof(args), arg);
	if (err)
		return err;
	if (args.flags)
		return -EOPNOTSUPP;
	args.listeners = 0;
	args.refused = 0;
	args.error = 0;
	args.objects = 0;
	return do_it(an, &args) ?: afpa_device_return(arg, &args, sizeof(args));
}

static int afpa_device_copy_listen(struct afpa_listen *args, void __user *arg)
{
	int err = afpa_device_copy(args, sizeof(*args), arg);

	if (err)
		return err;
	return args->flags ? -EOPNOTSUPP : 0;
}

static int afpa_device_listen(struct afpa_net *an, void __user *arg)
{
	struct afpa_site_args site = {};
	struct afpa_listen args;
	int err;

	err = afpa_device_copy_listen(&args, arg);
	if (err)
		return err;
	if (strnlen(args.protocol, sizeof(args.protocol)) == sizeof(args.protocol))
		return -EINVAL;
	site.site = args.site;
	err = afpa_site_listen(an, &site, args.protocol);
	if (err)
		return err;
	args.listeners = site.listeners;
	args.refused = site.refused;
	args.error = site.error;
	return afpa_device_return(arg, &args, sizeof(args));
}

/* --- the device --- */

/**
 * struct afpa_file - an open file of the device
 * @net: namespace that it was opened in, with a reference
 * @log: NULL, or the access log; set once
 * @far: NULL, or the node whose cache it is for; set once
 */
struct afpa_file {
	struct net *net;
	struct afpa_log *log;
	struct afpa_far *far;
};

static int afpa_device_node(struct afpa_file *file, void __user *arg)
{
	struct afpa_node args;
	struct afpa_far *far;
	int err;

	err = afpa_device_copy(&args, sizeof(args), arg);
	if (err)
		return err;
	if (READ_ONCE(file->log))
		return -EBUSY;
	far = afpa_far_make(afpa_net(file->net), &args);
	if (IS_ERR(far))
		return PTR_ERR(far);
	/* Who sees it sees what is in it. */
	if (cmpxchg(&file->far, NULL, far)) {
		kfree(far);
		return -EBUSY;
	}
	return 0;
}

/* What may be asked of another node, too. */
static int afpa_device_call(struct afpa_file *file, const struct afpa_call *call,
			    const struct afpa_far *far, void __user *arg)
{
	struct afpa_net *an = afpa_net(file->net);
	union afpa_args args;
	int err, done;

	err = afpa_device_copy(&args, call->size, arg);
	if (err)
		return err;
	done = far ? afpa_remote_call(an, far, call, &args) : call->run(an, &args, true);
	if (!afpa_call_answers(call, done))
		return done;
	return afpa_device_return(arg, &args, call->size) ?: done;
}

static int afpa_device_log(struct afpa_file *file, void __user *arg)
{
	struct afpa_net *an = afpa_net(file->net);
	struct afpa_log_args args;
	struct afpa_log *log;
	int err;

	err = afpa_device_copy(&args, sizeof(args), arg);
	if (err)
		return err;
	if (args.flags)
		return -EOPNOTSUPP;
	if (args.pad)
		return -EINVAL;
	/* A file that has one is refused as the namespace is. */
	log = afpa_log_open(an, args.bytes);
	if (IS_ERR(log))
		return PTR_ERR(log);
	/* Who sees it sees what is in it. */
	smp_store_release(&file->log, log);
	return 0;
}

static ssize_t afpa_device_read(struct file *filp, char __user *buf, size_t count, loff_t *pos)
{
	struct afpa_file *file = filp->private_data;
	struct afpa_log *log = smp_load_acquire(&file->log);	/* with afpa_device_log() */

	return log ? afpa_log_read(log, buf, count, !(filp->f_flags & O_NONBLOCK)) : -EINVAL;
}

static __poll_t afpa_device_poll(struct file *filp, poll_table *table)
{
	struct afpa_file *file = filp->private_data;
	struct afpa_log *log = smp_load_acquire(&file->log);	/* with afpa_device_log() */

	return log ? afpa_log_poll(log, filp, table) : EPOLLERR;
}

static long afpa_device_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	struct afpa_file *file = filp->private_data;
	struct net *net = file->net;
	struct afpa_net *an = afpa_net(net);
	void __user *argp = (void __user *)arg;

	/* With afpa_device_node(). */
	const struct afpa_far *far = smp_load_acquire(&file->far);
	const struct afpa_call *call = afpa_call_of(cmd);

	if (call) {
		if ((call->admin || far) && !ns_capable(net->user_ns, CAP_NET_ADMIN))
			return -EPERM;
		return afpa_device_call(file, call, far, argp);
	}
	if (far)
		return cmd == AFPA_IOC_NODE ? -EBUSY : -EOPNOTSUPP;
	switch (cmd) {
	case AFPA_IOC_POLICY:
		return afpa_device_policy(net, argp);
	case AFPA_IOC_REMOTE:
		return afpa_device_remote(net, argp);
	}
	if (!ns_capable(net->user_ns, CAP_NET_ADMIN))
		return -EPERM;
	switch (cmd) {
	case AFPA_IOC_SET:
		return afpa_device_set(an, argp);
	case AFPA_IOC_SITE_ADD:
		return afpa_device_site(an, argp, afpa_site_add);
	case AFPA_IOC_LISTEN:
		return afpa_device_listen(an, argp);
	case AFPA_IOC_SITE_DEL:
		return afpa_device_site(an, argp, afpa_site_del);
	case AFPA_IOC_LOG:
		return afpa_device_log(file, argp);
	case AFPA_IOC_NODE:
		return afpa_device_node(file, argp);
	default:
		return -ENOTTY;
	}
}

static int afpa_device_open(struct inode *inode, struct file *filp)
{
	struct afpa_file *file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);

	if (!file)
		return -ENOMEM;
	file->net = get_net(current->nsproxy->net_ns);
	filp->private_data = file;
	return 0;
}

static int afpa_device_release(struct inode *inode, struct file *filp)
{
	struct afpa_file *file = filp->private_data;

	if (file->log)
		afpa_log_close(afpa_net(file->net), file->log);
	kfree(file->far);
	put_net(file->net);
	kfree(file);
	return 0;
}

static const struct file_operations afpa_device_fops = {
	.owner = THIS_MODULE,
	.open = afpa_device_open,
	.release = afpa_device_release,
	.read = afpa_device_read,
	.poll = afpa_device_poll,
	.unlocked_ioctl = afpa_device_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice afpa_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "afpa",
	.mode = 0660,
	.fops = &afpa_device_fops,
};

int afpa_device_register(void)
{
	return misc_register(&afpa_device);
}

void afpa_device_unregister(void)
{
	misc_deregister(&afpa_device);
}
