// SPDX-License-Identifier: GPL-2.0
/* Drives the endpoint API from user space. For tests; never installed. */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/nsproxy.h>
#include <linux/uaccess.h>
#include <net/sock.h>
#include "../../endpoint.h"
#include "../../freeze.h"
#include "endpoint_test.h"

/**
 * struct flt_test - an open file
 * @lock:     one call at a time
 * @adoption: NULL, or what ADOPT made; under @lock
 * @frozen:   NULL, or what FREEZE made; the same
 */
struct flt_test {
	struct mutex lock;
	struct flt_adoption *adoption;
	struct flt_freeze *frozen;
};

static void flt_test_thaw(struct flt_test *test)
{
	flt_freeze_thaw(test->frozen);
	test->frozen = NULL;
}

static long flt_test_checkpoint(struct sock *sk, struct flt_test_call *call,
				struct flt_freeze **frozen)
{
	unsigned int flags = call->send ? FLT_CHECKPOINT_END | FLT_CHECKPOINT_OOO : 0;
	struct flt_checkpoint *ckpt;
	long err = 0;

	lock_sock(sk);
	call->refusal = flt_endpoint_checkpoint(sk, flags, FLT_CHECKPOINT_MAX, call->send, NULL,
						&ckpt);
	if (!call->refusal && frozen && flt_endpoint_freeze(sk, frozen)) {
		kvfree(ckpt);
		call->refusal = FLT_REFUSE_NOMEM;
	}
	release_sock(sk);
	if (call->refusal)
		return 0;
	if (ckpt->len > call->len)
		err = -ENOSPC;
	else if (copy_to_user(u64_to_user_ptr(call->buf), ckpt->wire, ckpt->len))
		err = -EFAULT;
	call->len = ckpt->len;
	kvfree(ckpt);
	return err;
}

/* UNCHANGED, or RELEASE of what is unchanged, under one lock as whoever gives a connection does it. */
static long flt_test_compare(struct sock *sk, struct flt_test_call *call, const void *wire,
			     bool release, struct flt_freeze *frozen)
{
	struct flt_checkpoint *ckpt;

	ckpt = kvmalloc(struct_size(ckpt, wire, call->len), GFP_KERNEL);
	if (!ckpt)
		return -ENOMEM;
	ckpt->len = call->len;
	memcpy(ckpt->wire, wire, call->len);
	lock_sock(sk);
	if (release && frozen)
		flt_freeze_lift(frozen);
	call->refusal = flt_endpoint_unchanged(sk, ckpt) ? FLT_REFUSE_NONE : FLT_REFUSE_CHANGED;
	if (release && call->refusal == FLT_REFUSE_NONE) {
		call->send = flt_endpoint_tsval(sk);
		flt_endpoint_release(sk);
	}
	release_sock(sk);
	kvfree(ckpt);
	return 0;
}

static long flt_test_on_socket(struct flt_test *test, unsigned int cmd,
			       struct flt_test_call *call, const void *wire)
{
	struct socket *sock;
	long err = 0;
	int error;

	sock = sockfd_lookup(call->fd, &error);
	if (!sock)
		return error;
	switch (cmd) {
	case FLT_TEST_CHECKPOINT:
		err = flt_test_checkpoint(sock->sk, call, NULL);
		break;
	case FLT_TEST_FREEZE:
		err = test->frozen ? -EBUSY : flt_test_checkpoint(sock->sk, call, &test->frozen);
		break;
	case FLT_TEST_UNCHANGED:
		err = flt_test_compare(sock->sk, call, wire, false, NULL);
		break;
	case FLT_TEST_RELEASE:
		if (call->len) {
			err = flt_test_compare(sock->sk, call, wire, true, test->frozen);
			if (!err && !call->refusal)
				flt_test_thaw(test);
			break;
		}
		lock_sock(sock->sk);
		call->send = flt_endpoint_tsval(sock->sk);
		flt_endpoint_release(sock->sk);
		release_sock(sock->sk);
		break;
	}
	sockfd_put(sock);
	return err;
}

static long flt_test_on_adoption(struct flt_test *test, unsigned int cmd,
				 struct flt_test_call *call, const void *wire)
{
	struct flt_adoption *adoption = test->adoption;

	if (cmd == FLT_TEST_ADOPT) {
		if (adoption)
			return -EBUSY;
		call->refusal = flt_endpoint_adopt(current->nsproxy->net_ns,
						   call->send & ~FLT_TEST_TRUST,
						   call->send & FLT_TEST_TRUST ? FLT_ADOPT_CWND : 0,
						   wire, call->len, &test->adoption);
		return 0;
	}
	if (!adoption)
		return -ENOENT;
	test->adoption = NULL;
	call->refusal = FLT_REFUSE_NONE;
	if (cmd == FLT_TEST_COMMIT) {
		flt_adoption_advance(adoption, call->send);
		call->refusal = flt_adoption_commit(adoption);
	} else {
		flt_adoption_abort(adoption);
	}
	return 0;
}

static long flt_test_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct flt_test *test = file->private_data;
	struct flt_test_call call;
	void *wire = NULL;
	long err;

	if (copy_from_user(&call, (void __user *)arg, sizeof(call)))
		return -EFAULT;
	if (call.len > SZ_16M)
		return -EINVAL;
	if (cmd == FLT_TEST_UNCHANGED || cmd == FLT_TEST_RELEASE || cmd == FLT_TEST_ADOPT) {
		/* kmalloc where it can, so that KASAN sees a read past the end. */
		wire = kvmalloc(max_t(u32, call.len, 1), GFP_KERNEL);
		if (!wire)
			return -ENOMEM;
		if (copy_from_user(wire, u64_to_user_ptr(call.buf), call.len)) {
			kvfree(wire);
			return -EFAULT;
		}
	}
	mutex_lock(&test->lock);
	switch (cmd) {
	case FLT_TEST_CHECKPOINT:
	case FLT_TEST_FREEZE:
	case FLT_TEST_UNCHANGED:
	case FLT_TEST_RELEASE:
		err = flt_test_on_socket(test, cmd, &call, wire);
		break;
	case FLT_TEST_THAW:
		flt_test_thaw(test);
		err = 0;
		break;
	case FLT_TEST_ADOPT:
	case FLT_TEST_COMMIT:
	case FLT_TEST_ABORT:
		err = flt_test_on_adoption(test, cmd, &call, wire);
		break;
	default:
		err = -ENOTTY;
	}
	mutex_unlock(&test->lock);
	kvfree(wire);
	if (!err && copy_to_user((void __user *)arg, &call, sizeof(call)))
		err = -EFAULT;
	return err;
}

static int flt_test_open(struct inode *inode, struct file *file)
{
	struct flt_test *test = kzalloc(sizeof(*test), GFP_KERNEL);

	if (!test)
		return -ENOMEM;
	mutex_init(&test->lock);
	file->private_data = test;
	return 0;
}

static int flt_test_release(struct inode *inode, struct file *file)
{
	struct flt_test *test = file->private_data;

	if (test->adoption)
		flt_adoption_abort(test->adoption);
	flt_test_thaw(test);
	mutex_destroy(&test->lock);
	kfree(test);
	return 0;
}

static const struct file_operations flt_test_fops = {
	.owner = THIS_MODULE,
	.open = flt_test_open,
	.release = flt_test_release,
	.unlocked_ioctl = flt_test_ioctl,
};

static struct miscdevice flt_test_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "flt_endpoint_test",
	.fops = &flt_test_fops,
	.mode = 0600,
};

module_misc_device(flt_test_device);

MODULE_DESCRIPTION("Flotilla: the endpoint API for tests");
MODULE_LICENSE("GPL");
