// SPDX-License-Identifier: GPL-2.0
/* /dev/handoff: see the uapi header for the contract. */

#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/poll.h>
#include <linux/uaccess.h>
#include <net/sock.h>
#include <flotilla/early_table.h>
#include <flotilla/relocate.h>
#include <flotilla/takeover.h>

#include "kmod/compat/cookie.h"
#include "kmod/endpoint.h"
#include "kmod/node.h"

#include "device.h"
#include "early.h"
#include "early_table.h"
#include "move.h"
#include "net.h"
#include "relocate.h"
#include "takeover.h"
#include "ticket.h"
#include "transfer.h"

#define HOF_FEATURES	(HOF_FEATURE_IPV6 | HOF_FEATURE_ENCAP | HOF_FEATURE_SENDQUEUE | \
			 HOF_FEATURE_LATER | HOF_FEATURE_MOVE | HOF_FEATURE_TLS | \
			 HOF_FEATURE_MOVE_NODE | HOF_FEATURE_TAKEOVER | HOF_FEATURE_RELOCATE | \
			 HOF_FEATURE_TLS_PORT | \
			 (FLT_COOKIES ? HOF_FEATURE_EARLY | HOF_FEATURE_EARLY_TABLE : 0))

static int hof_device_open(struct inode *inode, struct file *filp)
{
	struct net *net = get_net(current->nsproxy->net_ns);
	struct hof_file *file = hof_file_create(hof_net(net));

	if (!file) {
		put_net(net);
		return -ENOMEM;
	}
	filp->private_data = file;
	return stream_open(inode, filp);
}

static int hof_device_release(struct inode *inode, struct file *filp)
{
	struct hof_file *file = filp->private_data;
	struct net *net = file->hn->net;

	hof_early_file_closed(file);
	hof_transfer_file_closed(file);
	hof_early_table_free(file->table);
	hof_file_close(file);
	hof_file_put(file);
	put_net(net);
	return 0;
}

/* Wait for an event; one is not promised on return, another reader may have it. */
static int hof_device_wait(struct hof_file *file, struct file *filp)
{
	if (filp->f_flags & O_NONBLOCK)
		return -EAGAIN;
	return wait_event_interruptible(file->wait, !list_empty_careful(&file->ready));
}

static ssize_t hof_device_read(struct file *filp, char __user *buf, size_t len, loff_t *pos)
{
	struct hof_file *file = filp->private_data;
	struct hof_ticket *ticket;
	struct hof_event event;
	size_t done = 0;
	int err;

	if (len < sizeof(event))
		return -EINVAL;
	while (len - done >= sizeof(event)) {
		if (!hof_ticket_next(file, &event, &ticket)) {
			if (done)
				break;
			err = hof_device_wait(file, filp);
			if (err)
				return err;
			continue;
		}
		if (copy_to_user(buf + done, &event, sizeof(event))) {
			hof_ticket_undo(ticket, &event);
			hof_ticket_put(ticket);
			return done ?: -EFAULT;
		}
		hof_ticket_put(ticket);
		done += sizeof(event);
	}
	return done;
}

static __poll_t hof_device_poll(struct file *filp, struct poll_table_struct *wait)
{
	struct hof_file *file = filp->private_data;

	poll_wait(filp, &file->wait, wait);
	return list_empty_careful(&file->ready) ? 0 : EPOLLIN | EPOLLRDNORM;
}

static int hof_device_info(struct hof_file *file, void __user *arg)
{
	struct hof_info info = {
		.version = HOF_VERSION,
		.features = HOF_FEATURES,
		.inflight = READ_ONCE(file->inflight),
		.queued = hof_ticket_count(file),
	};

	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

/* @sock is ours to give: a TCP socket of this namespace that nobody else uses. */
static int hof_device_check(struct hof_file *file, struct socket *sock, struct hof_submit *args)
{
	struct net *net = sock_net(sock->sk);

	if (!ns_capable(net->user_ns, CAP_NET_ADMIN))
		return -EPERM;
	if (!net_eq(net, file->hn->net))
		return -EXDEV;
	if (!sk_is_tcp(sock->sk)) {
		args->refusal = FLT_REFUSE_NOTTCP;
		return -EOPNOTSUPP;
	}
	/* The descriptor's reference and ours; more are other descriptors or running calls. */
	if (file_count(sock->file) > 2) {
		args->refusal = FLT_REFUSE_SHARED;
		return -EOPNOTSUPP;
	}
	return 0;
}

static int hof_device_give(struct hof_file *file, struct hof_submit *args,
			   const struct flt_tls *tls)
{
	struct flt_node *node;
	struct socket *sock;
	int err;

	sock = sockfd_lookup(args->fd, &err);
	if (!sock)
		return err;
	err = hof_device_check(file, sock, args);
	if (err)
		goto put;
	node = flt_node_by_id(file->hn->net, args->node);
	if (!node) {
		err = -ENOENT;
		goto put;
	}
	err = hof_transfer_submit(file, sock->sk, node, args, tls);
	flt_node_put(node);
put:
	sockfd_put(sock);
	return err;
}

/* Nothing but a port: for a connection whose keys the kernel has. */
static bool hof_tls_is_port(const struct flt_tls *tls)
{
	struct flt_tls other = *tls;
	bool is;

	other.port = 0;
	is = tls->port && !memchr_inv(&other, 0, sizeof(other));
	memzero_explicit(&other, sizeof(other));
	return is;
}

static int hof_device_give_tls(struct hof_file *file, struct hof_submit *args)
{
	struct flt_tls tls;
	int err = 0;

	if (copy_from_user(&tls, u64_to_user_ptr(args->tls), sizeof(tls)))
		err = -EFAULT;
	else if (!hof_tls_is_port(&tls) && !flt_tls_ok(&tls))
		err = -EINVAL;
	if (!err)
		err = hof_device_give(file, args, &tls);
	memzero_explicit(&tls, sizeof(tls));
	return err;
}

static int hof_device_submit(struct hof_file *file, struct hof_submit __user *arg)
{
	struct hof_submit args;
	u32 size;
	int err;

	if (get_user(size, &arg->size))
		return -EFAULT;
	if (size < HOF_SUBMIT_SIZE_1 || size > PAGE_SIZE)
		return -EINVAL;
	err = copy_struct_from_user(&args, sizeof(args), arg, size);
	if (err)
		return err;
	if (args.size != size || args.flags & ~HOF_FLAGS_ALL ||
	    args.timeout_ms > HOF_TIMEOUT_MAX_MS)
		return -EINVAL;
	args.refusal = FLT_REFUSE_NONE;
	if (args.tls)
		err = hof_device_give_tls(file, &args);
	else
		err = hof_device_give(file, &args, NULL);
	/* Fails only when the page has gone meanwhile: the result stands. */
	if (put_user(args.refusal, &arg->refusal) && !err)
		return 0;
	return err ?: READ_ONCE(file->nr_ready) & INT_MAX;
}

static long hof_device_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	struct hof_file *file = filp->private_data;

	switch (cmd) {
	case HOF_IOC_INFO:
		return hof_device_info(file, (void __user *)arg);
	case HOF_IOC_SUBMIT:
		return hof_device_submit(file, (void __user *)arg);
	case HOF_IOC_TAKEOVER:
		return hof_takeover_ioctl(file, (void __user *)arg);
	case HOF_IOC_RELOCATE:
		return hof_relocate_ioctl(file, (void __user *)arg);
	case HOF_IOC_EARLY:
		return hof_early_ioctl(file, (void __user *)arg);
	case HOF_IOC_EARLY_TABLE:
		return hof_early_table_ioctl(file, (void __user *)arg);
	case HOF_IOC_MOVE:
		return hof_move_open(file->hn->net, (void __user *)arg);
	default:
		return -ENOTTY;
	}
}

static int hof_device_mmap(struct file *filp, struct vm_area_struct *vma)
{
	return hof_early_table_mmap(filp->private_data, vma);
}

static const struct file_operations hof_device_fops = {
	.owner = THIS_MODULE,
	.open = hof_device_open,
	.release = hof_device_release,
	.read = hof_device_read,
	.poll = hof_device_poll,
	.unlocked_ioctl = hof_device_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = hof_device_mmap,
};

/* Anyone may open it: what it does is checked against the socket that it is done to. */
static struct miscdevice hof_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "handoff",
	.mode = 0666,
	.fops = &hof_device_fops,
};

int hof_device_register(void)
{
	return misc_register(&hof_device);
}

void hof_device_unregister(void)
{
	misc_deregister(&hof_device);
}
