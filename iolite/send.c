// SPDX-License-Identifier: GPL-2.0
/*
 * A header from memory and a range of a file, to a descriptor, in one call: no domain gets hold of
 * the data, so there is nothing to tell, to map or to give back.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/uaccess.h>

#include "counter.h"
#include "io.h"

/* The header, and a MiB or more of a file. */
#define IOL_SEND_VECS		64

static int iol_send_check(const struct iol_send *args)
{
	if (args->flags & ~(IOL_IO_NOWAIT | IOL_SEND_RESIDENT))
		return -EOPNOTSUPP;
	if (args->position < 0 || args->head_len > PAGE_SIZE || !args->size)
		return -EINVAL;
	return 0;
}

/* The header goes by value. */
static int iol_send_head(struct iol_domain *domain, struct iol_list *list, u64 from, u32 len)
{
	struct iol_vec vec;
	void *at;

	if (!len)
		return 0;
	mutex_lock(&domain->lock);
	at = iol_domain_frag(domain, len, &vec);
	mutex_unlock(&domain->lock);
	if (!at)
		return -ENOMEM;
	if (copy_from_user(at, u64_to_user_ptr(from), len)) {
		put_page(vec.page);
		return -EFAULT;
	}
	list->vec[list->n++] = vec;
	list->bytes += len;
	iol_count_add(IOL_BYTES_INLINE, len);
	return 0;
}

static ssize_t iol_send_files(struct iol_domain *domain, struct file *to, struct file *from,
			      struct iol_pool *pool, const struct iol_send *args)
{
	struct iol_vec few[IOL_VEC_FEW];
	struct iol_call call = {
		.domain = domain,
		.file = from,
		.pool = pool,
		.size = min_t(u64, args->size, MAX_RW_COUNT),
		.position = args->position,
		.nowait = args->flags & IOL_SEND_RESIDENT,
		.inside = true,
	};
	ssize_t ret;

	iol_list_init(&call.list, few, IOL_SEND_VECS);
	ret = iol_send_head(domain, &call.list, args->head, args->head_len);
	if (ret)
		return ret;
	ret = iol_read(&call);
	if (ret == -EAGAIN)
		ret = -ENODATA;
	if (ret > 0) {
		call.file = to;
		call.position = IOL_POSITION_FILE;
		call.nowait = args->flags & IOL_IO_NOWAIT;
		ret = iol_write(&call);
	}
	iol_list_drop(&call.list);
	return ret;
}

/**
 * iol_send - memory and a range of a file to a descriptor
 * @domain: the caller
 * @args:   of uapi/flotilla/iolite.h, copied in
 *
 * Return: bytes, 0: the file ends before @args->position; or -errno.
 */
ssize_t iol_send(struct iol_domain *domain, struct iol_send *args)
{
	ssize_t ret = iol_send_check(args);
	struct file *to, *from;
	struct iol_pool *pool;

	if (ret)
		return ret;
	/* For what must be copied: a file that is not cached now. */
	pool = iol_domain_pool(domain, 0);
	if (!pool)
		return -ESHUTDOWN;
	ret = -EBADF;
	to = fget(args->fd);
	if (!to)
		goto put_pool;
	from = fget(args->file);
	if (!from)
		goto put_to;
	ret = iol_is_cacheable(from) ? iol_send_files(domain, to, from, pool, args) : -EINVAL;
	fput(from);
put_to:
	fput(to);
put_pool:
	iol_pool_put(pool);
	return ret;
}
