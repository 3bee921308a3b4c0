// SPDX-License-Identifier: GPL-2.0
/* /dev/sksplice: see the uapi header for the contract. */

#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/uaccess.h>
#include <net/sock.h>

#include "call.h"
#include "counter.h"
#include "device.h"
#include "pair.h"
#include "permit.h"
#include "tunable.h"

#define SSP_FLAGS_SPLICE	(SSP_BIDIR | SSP_LIMIT | SSP_KEEPCOPY | SSP_AUTORELEASE)

static int ssp_device_info(void __user *arg)
{
	struct ssp_info info = {
		.version = SSP_VERSION,
		.flags = SSP_FLAGS_SPLICE | SSP_DISCARD,
		.active = ssp_pair_count(),
	};

	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

/* A structure that begins with its size, of this version or a later one. */
static int ssp_device_copy(void *args, size_t known, const void __user *arg)
{
	u32 size;

	if (get_user(size, (const u32 __user *)arg))
		return -EFAULT;
	if (size < known || size > PAGE_SIZE)
		return -EINVAL;
	return copy_struct_from_user(args, known, arg, size);
}

static struct socket *ssp_device_sock(int fd, int *err)
{
	struct socket *sock = sockfd_lookup(fd, err);

	if (!sock)
		return NULL;
	if (sk_is_tcp(sock->sk))
		return sock;
	sockfd_put(sock);
	*err = -EOPNOTSUPP;
	return NULL;
}

static int ssp_device_check(const struct ssp_splice *args)
{
	if (args->flags & ~SSP_FLAGS_SPLICE)
		return -EOPNOTSUPP;
	if ((args->flags & SSP_BIDIR) && (args->flags & (SSP_LIMIT | SSP_KEEPCOPY)))
		return -EINVAL;
	if (!(args->flags & SSP_LIMIT) && args->limit)
		return -EINVAL;
	if (!(args->flags & SSP_KEEPCOPY) &&
	    (args->inbuf || args->inbuf_len || args->min2read || args->max2cache))
		return -EINVAL;
	if (args->max2cache && args->min2read > args->max2cache)
		return -EINVAL;
	if (args->data_len > INT_MAX || args->inbuf_len > INT_MAX || args->max2cache > INT_MAX ||
	    args->min2read > INT_MAX)
		return -EINVAL;
	return 0;
}

static int ssp_device_splice(struct ssp_splice __user *arg)
{
	struct socket *sock0, *sock1;
	struct ssp_splice args;
	u32 size;
	int err;

	err = ssp_device_copy(&args, sizeof(args), arg) ?: ssp_device_check(&args);
	if (err)
		return err;
	size = args.size;
	args.status = SSP_IDLE;
	args.cause = SSP_CAUSE_NONE;
	args.moved01 = 0;
	args.moved10 = 0;
	args.data_done = 0;
	args.inbuf_done = 0;

	sock0 = ssp_device_sock(args.fd0, &err);
	if (!sock0)
		return err;
	sock1 = ssp_device_sock(args.fd1, &err);
	if (!sock1)
		goto put0;
	err = -EINVAL;
	if (sock0 == sock1)
		goto put1;
	err = -EOPNOTSUPP;
	if (!READ_ONCE(ssp_enabled)) {
		ssp_count(ssp_net(sock_net(sock0->sk)), SSP_STAT_REFUSED_OFF);
		goto put1;
	}
	err = ssp_permit(sock0, sock1, &args);
	if (err) {
		ssp_count(ssp_net(sock_net(sock0->sk)),
			  err == -ENOTCONN ? SSP_STAT_REFUSED_STATE : SSP_STAT_REFUSED_DENIED);
		goto put1;
	}
	/* Better now than when the bytes are gone. */
	err = -EFAULT;
	if (copy_to_user(arg, &args, sizeof(args)))
		goto put1;
	err = ssp_call_splice(sock0->sk, sock1->sk, &args);
	args.size = size;
	if (copy_to_user(arg, &args, sizeof(args)))
		err = err ?: -EFAULT;
put1:
	sockfd_put(sock1);
put0:
	sockfd_put(sock0);
	return err;
}

static int ssp_device_unsplice(struct ssp_result __user *arg)
{
	struct socket *sock0, *sock1;
	struct ssp_result args;
	int err;

	err = ssp_device_copy(&args, sizeof(args), arg);
	if (err)
		return err;
	if (args.flags & ~SSP_DISCARD)
		return -EOPNOTSUPP;
	sock0 = ssp_device_sock(args.fd0, &err);
	if (!sock0)
		return err;
	sock1 = ssp_device_sock(args.fd1, &err);
	if (!sock1)
		goto put0;
	err = ssp_call_unsplice(sock0->sk, sock1->sk, &args);
	if (!err && copy_to_user(arg, &args, sizeof(args)))
		err = -EFAULT;
	sockfd_put(sock1);
put0:
	sockfd_put(sock0);
	return err;
}

static int ssp_device_result(struct ssp_result __user *arg)
{
	struct ssp_result args;
	struct socket *sock;
	int err;

	err = ssp_device_copy(&args, sizeof(args), arg);
	if (err)
		return err;
	if (args.flags)
		return -EOPNOTSUPP;
	if (args.fd1 != -1)
		return -EINVAL;
	sock = ssp_device_sock(args.fd0, &err);
	if (!sock)
		return err;
	err = ssp_call_result(sock->sk, &args);
	if (!err && copy_to_user(arg, &args, sizeof(args)))
		err = -EFAULT;
	sockfd_put(sock);
	return err;
}

static long ssp_device_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	switch (cmd) {
	case SSP_IOC_INFO:
		return ssp_device_info((void __user *)arg);
	case SSP_IOC_SPLICE:
		return ssp_device_splice((void __user *)arg);
	case SSP_IOC_UNSPLICE:
		return ssp_device_unsplice((void __user *)arg);
	case SSP_IOC_RESULT:
		return ssp_device_result((void __user *)arg);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations ssp_device_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = ssp_device_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

/*
 * Not for everyone: what is forwarded in softirq no cgroup pays for, and a user's share of it
 * (user.c) is a bound, not an account. 70-flotilla.rules lets a group in.
 */
static struct miscdevice ssp_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "sksplice",
	.mode = 0660,
	.fops = &ssp_device_fops,
};

int ssp_device_register(void)
{
	return misc_register(&ssp_device);
}

void ssp_device_unregister(void)
{
	misc_deregister(&ssp_device);
}
