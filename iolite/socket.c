// SPDX-License-Identifier: GPL-2.0
/*
 * Sockets. Sending: the pages themselves, as often as the protocol needs them. Receiving: UNIX
 * streams through a private pipe, in which pages of ours are known again; anything else by one
 * copy, since a foreign packet's page may hold other people's bytes.
 */
#include <linux/bvec.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/net.h>
#include <linux/pipe_fs_i.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/splice.h>
#include <linux/uio.h>
#include <net/sock.h>

#include "cache.h"
#include "counter.h"
#include "io.h"

static bool iol_socket_nowait(struct iol_call *call)
{
	return call->nowait || (call->file->f_flags & O_NONBLOCK);
}

/* A page, and at most one more where a copy buffer ends, comes from each slot. */
static int iol_scratch_room(struct iol_call *call, struct pipe_inode_info *pipe)
{
	return iol_list_reserve(&call->list, call->list.n + 2 * pipe->max_usage);
}

/*
 * What is out of the socket cannot go back, so everything that taking needs is there before: room
 * for slices, and a copy buffer for all of it, which the call has pended already.
 */
static ssize_t iol_unix_splice(struct iol_call *call, struct pipe_inode_info *pipe)
{
	size_t size = min_t(size_t, call->size, IOL_CHUNK_SIZE);
	struct iol_buf *copy;
	loff_t pos = 0;
	ssize_t ret;
	int err;

	err = iol_scratch_room(call, pipe);
	if (err)
		return err;
	err = iol_call_copy_buf(call, size);
	if (err)
		return err;
	copy = call->copy;
	err = iol_domain_pend(call->domain, copy);
	if (err)
		return err;
	ret = call->file->f_op->splice_read(call->file, &pos, pipe, size, SPLICE_F_NONBLOCK);
	if (ret > 0) {
		call->final = true;
		ret = iol_pipe_take(call, pipe, ret);
	}
	iol_domain_cancel(call->domain, copy);
	return ret;
}

static void iol_scratch_empty(struct pipe_inode_info *pipe)
{
	while (!pipe_empty(pipe->head, pipe->tail)) {
		pipe_buf_release(pipe, &pipe->bufs[pipe->tail & (pipe->ring_size - 1)]);
		pipe->tail++;
	}
}

static ssize_t iol_unix_read(struct iol_call *call, struct socket *sock)
{
	struct file *scratch = call->domain->scratch;
	struct pipe_inode_info *pipe = scratch->private_data;
	long wait, timeo = sock_rcvtimeo(sock->sk, iol_socket_nowait(call));
	ssize_t ret;

	for (;;) {
		mutex_lock(&call->domain->scratch_lock);
		pipe_lock(pipe);
		/* Somebody put something into it in spite of the contract: not ours to give. */
		iol_scratch_empty(pipe);
		ret = iol_unix_splice(call, pipe);
		iol_scratch_empty(pipe);
		pipe_unlock(pipe);
		mutex_unlock(&call->domain->scratch_lock);
		if (ret == -EMSGSIZE)
			return iol_read_copy(call);
		if (ret != -EAGAIN || !timeo)
			return ret;
		iol_call_copy_end(call);
		wait = wait_event_interruptible_timeout(*sk_sleep(sock->sk),
							vfs_poll(call->file, NULL) &
							(EPOLLIN | EPOLLHUP | EPOLLERR), timeo);
		if (wait < 0)
			return sock_intr_errno(timeo);
		timeo = wait;
	}
}

ssize_t iol_socket_read(struct iol_call *call, struct socket *sock)
{
	if (sock->sk->sk_family == AF_UNIX && sock->type == SOCK_STREAM && call->domain->scratch &&
	    call->file->f_op->splice_read)
		return iol_unix_read(call, sock);
	return iol_read_copy(call);
}

/* Protocols whose sendmsg takes pages; others copy. */
bool iol_socket_takes_pages(struct socket *sock)
{
	switch (sock->sk->sk_family) {
	case AF_UNIX:
		return sock->type == SOCK_STREAM;
	case AF_INET:
	case AF_INET6:
		return sk_is_tcp(sock->sk);
	default:
		return false;
	}
}

static ssize_t iol_socket_send(struct iol_call *call, struct socket *sock)
{
	struct bio_vec few[IOL_BVEC_FEW];
	bool pages = iol_socket_takes_pages(sock) &&
		     !iol_list_is_small(&call->list, iol_cache_pool());
	struct msghdr msg = { };
	struct bio_vec *bvec;
	unsigned int n;
	ssize_t ret;

	bvec = iol_list_bvec(&call->list, few, &n);
	if (!bvec)
		return -ENOMEM;
	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, bvec, n, call->list.bytes);
	/* The pages stay marked as shared: who must change a packet on the way copies first. */
	if (pages)
		msg.msg_flags |= MSG_SPLICE_PAGES;
	if (iol_socket_nowait(call))
		msg.msg_flags |= MSG_DONTWAIT;
	if (call->more)
		msg.msg_flags |= MSG_MORE;
	ret = sock_sendmsg(sock, &msg);
	iol_bvec_put(bvec, few);
	if (ret > 0)
		iol_count_add(pages ? IOL_BYTES_BY_REFERENCE : IOL_BYTES_COPIED_SEND, ret);
	return ret;
}

/* The protocol waits for memory in the middle of a long send and would let another one in. */
ssize_t iol_socket_write(struct iol_call *call, struct socket *sock)
{
	struct iol_object *object;
	ssize_t ret;

	/* One that does not wait keeps the socket's own lock from its beginning to its end. */
	if (iol_socket_nowait(call) && sk_is_tcp(sock->sk) && !iol_object_written(call->file))
		return iol_socket_send(call, sock);
	object = iol_object_lock(call, sock_sndtimeo(sock->sk, iol_socket_nowait(call)));
	if (IS_ERR(object))
		return PTR_ERR(object);
	ret = iol_socket_send(call, sock);
	iol_object_unlock(object);
	return ret;
}
