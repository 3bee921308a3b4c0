// SPDX-License-Identifier: GPL-2.0
/*
 * A header from memory and a range of a file, or what a pipe holds, to a descriptor in one call: no
 * domain gets hold of the data, so there is nothing to tell, to map or to give back.
 */
#include <linux/bvec.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/fsnotify.h>
#include <linux/mm.h>
#include <linux/net.h>
#include <linux/pipe_fs_i.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <net/sock.h>

#include "counter.h"
#include "io.h"

/* The header, and a MiB or more of a file. */
#define IOL_SEND_VECS		64

static int iol_send_check(const struct iol_send *args)
{
	if (args->flags & ~(IOL_IO_NOWAIT | IOL_SEND_RESIDENT | IOL_SEND_MORE))
		return -EOPNOTSUPP;
	if (args->position < 0 || args->head_len > PAGE_SIZE || !args->size)
		return -EINVAL;
	return 0;
}

/* The header goes by value; @vec is empty without one. */
static int iol_send_head(struct iol_domain *domain, const struct iol_send *args,
			 struct iol_vec *vec)
{
	void *at;

	*vec = (struct iol_vec){ };
	if (!args->head_len)
		return 0;
	mutex_lock(&domain->lock);
	at = iol_domain_frag(domain, args->head_len, vec);
	mutex_unlock(&domain->lock);
	if (!at)
		return -ENOMEM;
	if (!copy_from_user(at, u64_to_user_ptr(args->head), args->head_len)) {
		iol_count_add(IOL_BYTES_INLINE, args->head_len);
		return 0;
	}
	put_page(vec->page);
	return -EFAULT;
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
	ret = iol_send_head(domain, args, few);
	if (ret)
		return ret;
	call.list.n = args->head_len ? 1 : 0;
	call.list.bytes = args->head_len;
	ret = iol_read(&call);
	if (ret == -EAGAIN)
		ret = -ENODATA;
	if (ret > 0) {
		call.file = to;
		call.position = IOL_POSITION_FILE;
		call.nowait = args->flags & IOL_IO_NOWAIT;
		call.more = args->flags & IOL_SEND_MORE;
		ret = iol_write(&call);
	}
	iol_list_drop(&call.list);
	return ret;
}

/* One try, with the pipe locked: -ENODATA when it is empty, -EAGAIN when the socket is full. */
static ssize_t iol_pipe_send(struct iol_call *call, struct pipe_inode_info *pipe,
			     struct socket *sock, const struct iol_vec *head)
{
	unsigned int room = pipe_occupancy(pipe->head, pipe->tail) + 1, first = !!head->len;
	struct msghdr msg = { .msg_flags = MSG_SPLICE_PAGES | MSG_DONTWAIT };
	struct bio_vec few[IOL_BVEC_FEW], *bvec = few;
	size_t size = call->size;
	ssize_t ret;

	if (call->more)
		msg.msg_flags |= MSG_MORE;
	if (room > IOL_BVEC_FEW)
		bvec = kvmalloc_array(room, sizeof(*bvec), GFP_KERNEL_ACCOUNT);
	if (!bvec)
		return -ENOMEM;
	if (first)
		bvec_set_page(bvec, head->page, head->len, head->off);
	ret = iol_pipe_bvec(pipe, bvec + first, room - first, &size);
	if (ret > 0) {
		iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, bvec, first + ret, head->len + size);
		ret = sock_sendmsg(sock, &msg);
	} else if (!ret) {
		ret = pipe->writers ? -ENODATA : 0;
	}
	iol_bvec_put(bvec, few);
	/* What the socket did not take is still in the pipe; so none is lost whatever happens. */
	if (ret >= 0 || ret == -ENODATA)
		iol_pipe_consume(pipe, max_t(ssize_t, ret - head->len, 0));
	if (ret > 0)
		iol_count_add(IOL_BYTES_BY_REFERENCE, ret);
	return ret;
}

/* Not EPOLLERR: what lies in the error queue, for as long as its program likes, makes no room. */
static bool iol_send_has_room(const struct iol_call *call, const struct sock *sk)
{
	return (vfs_poll(call->file, NULL) & (EPOLLOUT | EPOLLHUP)) || READ_ONCE(sk->sk_err);
}

/* The pipe is locked while the socket takes the pages, as for splice(2), but not while it waits. */
static ssize_t iol_pipe_send_wait(struct iol_call *call, struct socket *sock,
				  struct pipe_inode_info *pipe, const struct iol_vec *head,
				  bool resident)
{
	long timeo = sock_sndtimeo(sock->sk, call->nowait);
	struct iol_object *object;
	bool was_full;
	long wait = 0;
	ssize_t ret;

	/* Each turn waits for what was missing in the last. */
	while (wait >= 0) {
		object = iol_object_lock(call, timeo);
		if (IS_ERR(object))
			return PTR_ERR(object);
		pipe_lock(pipe);
		was_full = pipe_full(pipe->head, pipe->tail, pipe->max_usage);
		ret = iol_pipe_send(call, pipe, sock, head);
		pipe_unlock(pipe);
		iol_object_unlock(object);
		if (ret > 0)
			iol_pipe_wake_writers(pipe, was_full);
		if (ret == -ENODATA && !resident) {
			wait = iol_pipe_wait(pipe);
		} else if (ret == -EAGAIN && timeo) {
			wait = wait_event_interruptible_timeout(*sk_sleep(sock->sk),
								iol_send_has_room(call, sock->sk),
								timeo);
			timeo = max(wait, 0L);
			/* With room, but no memory, that did not sleep, and looked at no signal. */
			if (signal_pending(current))
				wait = -ERESTARTSYS;
		} else {
			return ret;
		}
	}
	return sock_intr_errno(sock_sndtimeo(sock->sk, false));
}

static ssize_t iol_send_pipe(struct iol_domain *domain, struct file *to, struct file *from,
			     const struct iol_send *args)
{
	struct socket *sock = sock_from_file(to);
	struct iol_call call = {
		.domain = domain,
		.file = to,
		.size = min_t(u64, args->size, MAX_RW_COUNT),
		.nowait = (args->flags & IOL_IO_NOWAIT) || (to->f_flags & O_NONBLOCK),
		.more = args->flags & IOL_SEND_MORE,
	};
	struct iol_vec head;
	ssize_t ret;

	if (!sock || !iol_socket_takes_pages(sock) || args->position)
		return -EINVAL;
	if (!(from->f_mode & FMODE_READ) || !(to->f_mode & FMODE_WRITE))
		return -EBADF;
	/* As splice(2). */
	ret = rw_verify_area(READ, from, NULL, call.size);
	if (!ret)
		ret = rw_verify_area(WRITE, to, NULL, call.size);
	if (!ret)
		ret = iol_send_head(domain, args, &head);
	if (ret)
		return ret;
	ret = iol_pipe_send_wait(&call, sock, from->private_data, &head,
				 (args->flags & IOL_SEND_RESIDENT) || (from->f_flags & O_NONBLOCK));
	if (head.page)
		put_page(head.page);
	if (ret > 0) {
		fsnotify_access(from);
		fsnotify_modify(to);
	}
	return ret;
}

/**
 * iol_send - memory, and a range of a file or what a pipe holds, to a descriptor
 * @domain: the caller
 * @args:   of uapi/flotilla/iolite.h, copied in
 *
 * Return: bytes, 0: the file ends before @args->position, or the pipe has no writer; or -errno.
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
	if (iol_is_pipe(from))
		ret = iol_send_pipe(domain, to, from, args);
	else
		ret = iol_is_cacheable(from) ? iol_send_files(domain, to, from, pool, args) :
					       -EINVAL;
	fput(from);
put_to:
	fput(to);
put_pool:
	iol_pool_put(pool);
	return ret;
}
