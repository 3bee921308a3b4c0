// SPDX-License-Identifier: MIT
/* Many receives and sends in one system call. */

#include <sys/ioctl.h>
#include <sys/socket.h>

#include "internal.h"

static int usl_move_one(const struct usel_move *move)
{
	void *at = (void *)(uintptr_t)move->addr;
	bool send_it = move->flags & USEL_MOVE_SEND;
	int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
	ssize_t n;

	if (move->flags & ~(USEL_MOVE_SEND | (send_it ? USEL_MOVE_MORE : 0)))
		return -EINVAL;
	if (move->flags & USEL_MOVE_MORE)
		flags |= MSG_MORE;
	n = send_it ? send(move->fd, at, move->len, flags) :
		      recv(move->fd, at, move->len, flags);
	return n < 0 ? -errno : n;
}

/* A call of its own for one: the security modules look longer at an ioctl(). */
int uselect_move(struct usel_move *moves, unsigned int nr)
{
	struct usel_moves all = { .moves = (uintptr_t)moves, .nr = nr };
	unsigned int i;
	int done;

	if (nr > USEL_MOVES_MAX) {
		errno = EINVAL;
		return -1;
	}
	if (nr > 1 && (usl_region.features & USEL_FEATURE_MOVE)) {
		done = ioctl(usl_region_fd(), USEL_MOVE, &all);
		/* Else none was made: a filter, or the descriptor is not the set's any more. */
		if (done >= 0 || errno == EFAULT)
			return done;
	}
	for (i = 0; i < nr; i++)
		moves[i].result = usl_move_one(&moves[i]);
	return nr;
}
