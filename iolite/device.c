// SPDX-License-Identifier: GPL-2.0
/* /dev/iolite: the calls of uapi/flotilla/iolite.h, checked and handed on. */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pipe_fs_i.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "kmod/param.h"

#include "cache.h"
#include "counter.h"
#include "device.h"
#include "domain.h"
#include "io.h"
#include "window.h"

static uint inline_max = 512;
module_param(inline_max, admin_uint, 0644);
MODULE_PARM_DESC(inline_max, "unsealed slices up to this many bytes go by value (512, most 4096)");

/* Slices of a call that need no allocation. */
#define IOL_SLICES_STACK	8

static int iol_open(struct inode *inode, struct file *file)
{
	file->private_data = NULL;
	iol_window_attach(file);
	return nonseekable_open(inode, file);
}

static int iol_release(struct inode *inode, struct file *file)
{
	if (file->private_data)
		iol_domain_destroy(file->private_data);
	return 0;
}

/* Set once by INIT; NULL before. */
static struct iol_domain *iol_file_domain(struct file *file)
{
	/* Pairs with iol_ioc_init(). */
	struct iol_domain *domain = smp_load_acquire(&file->private_data);

	if (!domain)
		return ERR_PTR(-ENXIO);
	if (domain->mm != current->mm)
		return ERR_PTR(-EPERM);
	return domain;
}

static int iol_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct iol_domain *domain = iol_file_domain(file);

	return IS_ERR(domain) ? PTR_ERR(domain) : iol_window_mmap(domain, vma);
}

static struct file *iol_scratch_get(int fd)
{
	struct file *file;

	if (fd < 0)
		return NULL;
	file = fget(fd);
	if (!file)
		return ERR_PTR(-EBADF);
	if (iol_is_pipe(file) && (file->f_mode & FMODE_READ))
		return file;
	fput(file);
	return ERR_PTR(-EINVAL);
}

static int iol_ioc_init(struct file *file, void __user *arg)
{
	struct iol_init init;
	struct iol_domain *domain;
	struct file *scratch;

	if (copy_from_user(&init, arg, sizeof(init)))
		return -EFAULT;
	if (init.version != IOL_VERSION)
		return -EPROTONOSUPPORT;
	if (init.flags)
		return -EOPNOTSUPP;
	if (init.reserved || init.scratch < -1)
		return -EINVAL;
	if (READ_ONCE(file->private_data))
		return -EBUSY;
	scratch = iol_scratch_get(init.scratch);
	if (IS_ERR(scratch))
		return PTR_ERR(scratch);
	domain = iol_domain_create(scratch);
	if (!domain) {
		if (scratch)
			fput(scratch);
		return -ENOMEM;
	}
	init.features = IOL_FEATURE_PIPE | IOL_FEATURE_TCP | IOL_FEATURE_FILE;
	if (scratch)
		init.features |= IOL_FEATURE_UNIX;
	init.window = IOL_WINDOW_SIZE;
	init.fill = IOL_WINDOW_SIZE;
	init.domain = domain->id;
	init.pool = domain->pool->id;
	if (copy_to_user(arg, &init, sizeof(init))) {
		iol_domain_destroy(domain);
		return -EFAULT;
	}
	/* Pairs with iol_file_domain(). */
	if (cmpxchg_release(&file->private_data, NULL, domain)) {
		iol_domain_destroy(domain);
		return -EBUSY;
	}
	return 0;
}

static int iol_ioc_pool(struct iol_domain *domain, unsigned int cmd, void __user *arg)
{
	struct iol_pool_args args;
	struct iol_pool *pool;
	int err = 0;

	if (copy_from_user(&args, arg, sizeof(args)))
		return -EFAULT;
	if (args.flags)
		return -EOPNOTSUPP;
	switch (cmd) {
	case IOL_IOC_POOL_CREATE:
		err = iol_domain_pool_create(domain, args.quota, &args.pool);
		break;
	case IOL_IOC_POOL_DESTROY:
		return iol_domain_pool_destroy(domain, args.pool);
	default:
		pool = iol_domain_pool(domain, args.pool);
		if (!pool)
			return -ENOENT;
		if (cmd == IOL_IOC_POOL_GRANT)
			err = iol_domain_grant(args.domain, pool);
		else
			iol_pool_stat(pool, &args);
		iol_pool_put(pool);
	}
	if (err || cmd == IOL_IOC_POOL_GRANT)
		return err;
	if (!copy_to_user(arg, &args, sizeof(args)))
		return 0;
	if (cmd == IOL_IOC_POOL_CREATE)
		iol_domain_pool_destroy(domain, args.pool);
	return -EFAULT;
}

static int iol_ioc_alloc(struct iol_domain *domain, void __user *arg)
{
	struct iol_vec vec = { };
	struct iol_list list = { .vec = &vec, .n = 1 };
	struct iol_alloc alloc;
	struct iol_pool *pool;
	struct iol_buf *buf;
	int err;

	if (copy_from_user(&alloc, arg, sizeof(alloc)))
		return -EFAULT;
	if (alloc.flags)
		return -EOPNOTSUPP;
	if (!alloc.size || alloc.size > IOL_CHUNK_SIZE)
		return -EINVAL;
	pool = iol_domain_pool(domain, alloc.pool);
	if (!pool)
		return -ENOENT;
	buf = iol_buf_alloc(pool, alloc.size, domain->id);
	iol_pool_put(pool);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	vec.buf = buf;
	vec.len = iol_buf_size(buf);
	err = iol_domain_pend(domain, buf);
	if (!err) {
		alloc.size = iol_buf_size(buf);
		alloc.offset = (u64)iol_buf_pgoff(buf) << PAGE_SHIFT;
		alloc.generation = buf->generation;
		if (copy_to_user(arg, &alloc, sizeof(alloc))) {
			iol_domain_cancel(domain, buf);
			err = -EFAULT;
		} else {
			iol_domain_publish(domain, &list);
		}
	}
	iol_buf_put(buf);
	return err;
}

static int iol_ioc_reopen(struct iol_domain *domain, void __user *arg)
{
	struct iol_slice slice = { .length = 1 };
	struct iol_alloc alloc;
	int err;

	if (copy_from_user(&alloc, arg, sizeof(alloc)))
		return -EFAULT;
	if (alloc.flags)
		return -EOPNOTSUPP;
	slice.offset = alloc.offset;
	slice.generation = alloc.generation;
	err = iol_domain_reopen(domain, &slice);
	if (err)
		return err;
	alloc.generation = slice.generation;
	/* Too late to undo: the caller lost the name and gets rid of the buffer only by ending. */
	return copy_to_user(arg, &alloc, sizeof(alloc)) ? -EFAULT : 0;
}

static int iol_ioc_seal(struct iol_domain *domain, void __user *arg)
{
	struct iol_seal seal;
	struct iol_buf *buf;

	if (copy_from_user(&seal, arg, sizeof(seal)))
		return -EFAULT;
	buf = iol_domain_find(domain, &seal.slice);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	iol_buf_seal(buf);
	iol_buf_put(buf);
	return 0;
}

/* Slices of the caller, on the stack when there are few. */
static struct iol_slice *iol_slices_get(u64 from, u32 n, struct iol_slice *few)
{
	struct iol_slice *slices = few;

	if (!n || n > IOL_SLICES_MAX)
		return ERR_PTR(-EINVAL);
	if (n > IOL_SLICES_STACK) {
		slices = kvmalloc_array(n, sizeof(*slices), GFP_KERNEL_ACCOUNT);
		if (!slices)
			return ERR_PTR(-ENOMEM);
	}
	if (!copy_from_user(slices, u64_to_user_ptr(from), n * sizeof(*slices)))
		return slices;
	if (slices != few)
		kvfree(slices);
	return ERR_PTR(-EFAULT);
}

static void iol_slices_put(struct iol_slice *slices, struct iol_slice *few)
{
	if (slices != few)
		kvfree(slices);
}

static int iol_ioc_release(struct iol_domain *domain, void __user *arg)
{
	struct iol_slice few[IOL_SLICES_STACK], *slices;
	struct iol_release batch;
	int err = 0;

	if (copy_from_user(&batch, arg, sizeof(batch)))
		return -EFAULT;
	slices = iol_slices_get(batch.slices, batch.count, few);
	if (IS_ERR(slices))
		return PTR_ERR(slices);
	for (batch.done = 0; batch.done < batch.count && !err; batch.done++) {
		u32 times = slices[batch.done].length;

		slices[batch.done].length = 1;
		err = iol_domain_release(domain, &slices[batch.done], times);
		if (err)
			break;
	}
	iol_slices_put(slices, few);
	return copy_to_user(arg, &batch, sizeof(batch)) ? -EFAULT : err;
}

/* Tell the caller what was read. */
static int iol_slices_report(const struct iol_list *list, u64 to)
{
	struct iol_slice __user *slices = u64_to_user_ptr(to);
	u32 i;

	for (i = 0; i < list->n; i++) {
		const struct iol_vec *vec = &list->vec[i];
		struct iol_slice slice = {
			.offset = ((u64)iol_buf_pgoff(vec->buf) << PAGE_SHIFT) + vec->off,
			.generation = vec->buf->generation,
			.length = vec->len,
		};

		if (copy_to_user(&slices[i], &slice, sizeof(slice)))
			return -EFAULT;
	}
	return 0;
}

static int iol_io_check(const struct iol_io *io)
{
	if (io->flags & ~IOL_IO_NOWAIT)
		return -EOPNOTSUPP;
	if (!io->count || io->count > IOL_SLICES_MAX || io->position < IOL_POSITION_FILE)
		return -EINVAL;
	return 0;
}

/* A caller that does not learn what it got does not have it. */
static int iol_read_call(struct iol_call *call, struct iol_io *io, void __user *arg)
{
	ssize_t ret = iol_read(call);
	int err = min_t(ssize_t, ret, 0);
	u32 i;

	io->size = max_t(ssize_t, ret, 0);
	io->count = call->list.n;
	if (!err)
		err = iol_slices_report(&call->list, io->slices);
	if (!err && copy_to_user(arg, io, sizeof(*io)))
		err = -EFAULT;
	if (!err)
		iol_domain_publish(call->domain, &call->list);
	else
		for (i = 0; i < call->list.n; i++)
			iol_domain_cancel(call->domain, call->list.vec[i].buf);
	return err;
}

static int iol_ioc_read(struct iol_domain *domain, void __user *arg)
{
	struct iol_call call = { .domain = domain };
	struct iol_vec few[IOL_VEC_FEW];
	struct iol_io io;
	int err;

	if (copy_from_user(&io, arg, sizeof(io)))
		return -EFAULT;
	err = iol_io_check(&io);
	if (err)
		return err;
	call.file = fget(io.fd);
	if (!call.file)
		return -EBADF;
	call.pool = iol_domain_pool(domain, io.pool);
	if (!call.pool) {
		err = -ENOENT;
		goto put_file;
	}
	call.size = min_t(u64, io.size, MAX_RW_COUNT);
	call.position = io.position;
	call.nowait = io.flags & IOL_IO_NOWAIT;
	iol_list_init(&call.list, few, io.count);
	err = iol_read_call(&call, &io, arg);
	iol_list_drop(&call.list);
	iol_pool_put(call.pool);
put_file:
	fput(call.file);
	return err;
}

static int iol_ioc_write(struct iol_domain *domain, void __user *arg)
{
	struct iol_slice few[IOL_SLICES_STACK], *slices;
	struct iol_call call = { .domain = domain };
	struct iol_vec few_vecs[IOL_VEC_FEW];
	struct iol_io io;
	ssize_t ret;
	int err;

	if (copy_from_user(&io, arg, sizeof(io)))
		return -EFAULT;
	err = iol_io_check(&io);
	if (err)
		return err;
	slices = iol_slices_get(io.slices, io.count, few);
	if (IS_ERR(slices))
		return PTR_ERR(slices);
	call.file = fget(io.fd);
	if (!call.file) {
		err = -EBADF;
		goto put_slices;
	}
	call.position = io.position;
	call.nowait = io.flags & IOL_IO_NOWAIT;
	io.inline_max = min3(io.inline_max, READ_ONCE(inline_max), (u32)PAGE_SIZE);
	iol_list_init(&call.list, few_vecs, io.count);
	err = iol_list_reserve(&call.list, io.count);
	if (err)
		goto put_file;
	err = iol_domain_import(domain, slices, io.count, io.inline_max, &call.list);
	if (!err) {
		ret = iol_write(&call);
		io.size = max_t(ssize_t, ret, 0);
		err = min_t(ssize_t, ret, 0);
	}
	if (copy_to_user(arg, &io, sizeof(io)))
		err = -EFAULT;
put_file:
	iol_list_drop(&call.list);
	fput(call.file);
put_slices:
	iol_slices_put(slices, few);
	return err;
}

static int iol_ioc_send(struct iol_domain *domain, void __user *arg)
{
	struct iol_send args;
	ssize_t ret;

	if (copy_from_user(&args, arg, sizeof(args)))
		return -EFAULT;
	ret = iol_send(domain, &args);
	if (ret < 0)
		return ret;
	args.size = ret;
	return copy_to_user(arg, &args, sizeof(args)) ? -EFAULT : 0;
}

static int iol_ioc_policy(struct iol_domain *domain, void __user *arg)
{
	struct iol_policy args;

	if (copy_from_user(&args, arg, sizeof(args)))
		return -EFAULT;
	if (args.flags)
		return -EOPNOTSUPP;
	return iol_cache_policy(&domain->manager, args.policy);
}

static long iol_ioctl(struct file *file, unsigned int cmd, unsigned long param)
{
	void __user *arg = (void __user *)param;
	struct iol_domain *domain;

	if (cmd == IOL_IOC_INIT)
		return iol_ioc_init(file, arg);
	domain = iol_file_domain(file);
	if (IS_ERR(domain))
		return PTR_ERR(domain);
	/* With its mapping what a domain has goes, whoever has the descriptor. */
	if (!READ_ONCE(domain->windows))
		return -ENXIO;
	switch (cmd) {
	case IOL_IOC_POOL_CREATE:
	case IOL_IOC_POOL_DESTROY:
	case IOL_IOC_POOL_GRANT:
	case IOL_IOC_POOL_STAT:
		return iol_ioc_pool(domain, cmd, arg);
	case IOL_IOC_ALLOC:
		return iol_ioc_alloc(domain, arg);
	case IOL_IOC_REOPEN:
		return iol_ioc_reopen(domain, arg);
	case IOL_IOC_SEAL:
		return iol_ioc_seal(domain, arg);
	case IOL_IOC_RELEASE:
		return iol_ioc_release(domain, arg);
	case IOL_IOC_READ:
		return iol_ioc_read(domain, arg);
	case IOL_IOC_WRITE:
		return iol_ioc_write(domain, arg);
	case IOL_IOC_SEND:
		return iol_ioc_send(domain, arg);
	case IOL_IOC_POLICY:
		return iol_ioc_policy(domain, arg);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations iol_fops = {
	.owner = THIS_MODULE,
	.open = iol_open,
	.release = iol_release,
	.mmap = iol_mmap,
	.unlocked_ioctl = iol_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

/* Not for everyone: memory in the kernel, within limits. 70-flotilla.rules lets a group in. */
static struct miscdevice iol_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "iolite",
	.fops = &iol_fops,
	.groups = iol_counter_groups,
	.mode = 0660,
};

int iol_device_register(void)
{
	return misc_register(&iol_misc);
}

void iol_device_unregister(void)
{
	misc_deregister(&iol_misc);
}
