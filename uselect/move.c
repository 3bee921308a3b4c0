// SPDX-License-Identifier: GPL-2.0
/* Many receives and sends in one call. */

#include <linux/file.h>
#include <linux/net.h>
#include <linux/sched/signal.h>
#include <linux/seccomp.h>
#include <linux/socket.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "move.h"

#define USEL_MOVE_FLAGS	(USEL_MOVE_SEND | USEL_MOVE_MORE)
/* Copied at a time. */
#define USEL_MOVE_CHUNK	16

/* The way of recv(2) and send(2): security modules, BPF and layers see it. */
static int usel_move_one(const struct usel_move *move)
{
	bool send = move->flags & USEL_MOVE_SEND;
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct socket *sock;
	int err;

	if (move->flags & ~USEL_MOVE_FLAGS || (!send && (move->flags & USEL_MOVE_MORE)))
		return -EINVAL;
	CLASS(fd, f)(move->fd);
	if (fd_empty(f))
		return -EBADF;
	sock = sock_from_file(fd_file(f));
	if (!sock)
		return -ENOTSOCK;
	err = import_ubuf(send ? ITER_SOURCE : ITER_DEST, u64_to_user_ptr(move->addr), move->len,
			  &msg.msg_iter);
	if (err)
		return err;
	if (!send)
		return sock_recvmsg(sock, &msg, MSG_DONTWAIT);
	if (move->flags & USEL_MOVE_MORE)
		msg.msg_flags |= MSG_MORE;
	return sock_sendmsg(sock, &msg);
}

long usel_move_all(const struct usel_moves __user *arg)
{
	struct usel_move chunk[USEL_MOVE_CHUNK], __user *at;
	unsigned int done, n, i;
	struct usel_moves moves;
	int ret;

	/* It may let ioctl() pass, and not send(). */
	if (seccomp_mode(&current->seccomp) != SECCOMP_MODE_DISABLED)
		return -EPERM;
	if (copy_from_user(&moves, arg, sizeof(moves)))
		return -EFAULT;
	if (moves.reserved || moves.nr > USEL_MOVES_MAX)
		return -EINVAL;
	at = u64_to_user_ptr(moves.moves);
	for (done = 0; done < moves.nr; done += n) {
		n = min_t(unsigned int, moves.nr - done, USEL_MOVE_CHUNK);
		if (copy_from_user(chunk, at + done, n * sizeof(*chunk)))
			break;
		/* Who cannot be told of one makes no more: it would be made again. */
		for (i = 0; i < n; i++) {
			ret = usel_move_one(&chunk[i]);
			/* This move is not restarted. */
			if (ret == -ERESTARTSYS)
				ret = -EINTR;
			if (put_user(ret, &at[done + i].result) || fatal_signal_pending(current)) {
				done += i;
				goto out;
			}
			cond_resched();
		}
	}
out:
	return done || !moves.nr ? done : -EFAULT;
}
