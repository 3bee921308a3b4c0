// SPDX-License-Identifier: GPL-2.0
/*
 * The moment of accept(). A child with unacknowledged bytes in its write queue stays parked until
 * then: its program has to be charged for them (flt_sendq_return()), and by how much is known only
 * as long as no acknowledgment of the client frees any. Nothing in the kernel calls us when a child
 * is accepted, except that it frees the request that stood in the queue for it, last thing and in
 * the program's own context. So that request gets operations of ours, which differ in the
 * destructor alone.
 *
 * The destructor is called as well by a listener that ends, under the child's lock: the child is
 * then reset, or moves on to another listener of the group with a copy of the request.
 *
 * Until it has been called it keeps this module loaded.
 */
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <net/request_sock.h>
#include "adopt.h"
#include "tasks.h"

static void flt_accept_destructor(struct request_sock *req)
{
	struct flt_accept *accept = container_of(req->rsk_ops, struct flt_accept, ops);
	const struct request_sock_ops *own = accept->own;

	/* accept() is not called with bottom halves off, the end of a listener is. */
	if (!in_softirq())
		accept->done(accept, true);
	else if (sock_flag(accept->child, SOCK_DEAD))
		accept->done(accept, false);
	req->rsk_ops = own;
	own->destructor(req);
}

void flt_accept_await(struct flt_accept *accept, struct request_sock *req, struct sock *child,
		      void (*done)(struct flt_accept *accept, bool accepted))
{
	__module_get(THIS_MODULE);
	accept->own = req->rsk_ops;
	accept->ops = *req->rsk_ops;
	accept->ops.destructor = flt_accept_destructor;
	accept->child = child;
	accept->done = done;
	req->rsk_ops = &accept->ops;
}

void flt_accept_forget(struct flt_accept *accept, struct request_sock *req)
{
	req->rsk_ops = accept->own;
	module_put(THIS_MODULE);
}

static void flt_accept_free(struct rcu_head *rcu)
{
	struct flt_accept *accept = container_of(rcu, struct flt_accept, rcu);

	accept->free(accept);
	module_put(THIS_MODULE);
}

/* A program that is still in the last instructions of our destructor is in no other section. */
void flt_accept_over(struct flt_accept *accept, void (*free)(struct flt_accept *accept))
{
	accept->free = free;
	call_rcu_tasks(&accept->rcu, flt_accept_free);
}

void flt_accept_exit(void)
{
	flt_tasks_barrier();
}
