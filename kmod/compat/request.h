/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Requests of a listener and their way into its accept queue. Newer kernels export none of the
 * functions for it; what they do is done here, without the parts that are for a handshake.
 */
#ifndef FLT_COMPAT_REQUEST_H
#define FLT_COMPAT_REQUEST_H

#include <net/inet_connection_sock.h>
#include <net/request_sock.h>
#include <net/tcp.h>
#include <flt_compat_config.h>

/**
 * flt_compat_reqsk_alloc - a request that holds no reference to its listener
 * @ops:      of the client's family
 * @listener: whose protocol, namespace and family it has
 *
 * Context: RCU read side or a reference to @listener.
 * Return: the request, with no reference yet, or NULL.
 */
static inline struct request_sock *flt_compat_reqsk_alloc(const struct request_sock_ops *ops,
							  struct sock *listener)
{
#ifdef FLT_HAVE_REQSK_ALLOC
	return inet_reqsk_alloc(ops, listener, false);
#else
	/* Not cleared: who looks a socket up may still be on the way through what this was. */
	struct request_sock *req = kmem_cache_alloc(ops->slab, GFP_ATOMIC | __GFP_NOWARN);
	struct inet_request_sock *ireq;

	if (!req)
		return NULL;
	req->rsk_listener = NULL;
	req->rsk_ops = ops;
	req_to_sk(req)->sk_prot = listener->sk_prot;
	sk_node_init(&req_to_sk(req)->sk_node);
	sk_tx_queue_clear(req_to_sk(req));
	req->saved_syn = NULL;
	req->syncookie = 0;
	req->num_timeout = 0;
	req->num_retrans = 0;
	req->sk = NULL;
	refcount_set(&req->rsk_refcnt, 0);
	ireq = inet_rsk(req);
	ireq->ireq_opt = NULL;
#if IS_ENABLED(CONFIG_IPV6)
	ireq->pktopts = NULL;
#endif
	atomic64_set(&ireq->ir_cookie, 0);
	ireq->ireq_state = TCP_NEW_SYN_RECV;
	write_pnet(&ireq->ireq_net, sock_net(listener));
	ireq->ireq_family = listener->sk_family;
	return req;
#endif
}

/**
 * flt_compat_reqsk_put - drop a reference to a request of flt_compat_reqsk_alloc()
 * @req: in no table and no queue
 */
static inline void flt_compat_reqsk_put(struct request_sock *req)
{
#ifdef FLT_HAVE_REQSK_ALLOC
	reqsk_put(req);
#else
	if (!refcount_dec_and_test(&req->rsk_refcnt))
		return;
	req->rsk_ops->destructor(req);
	kmem_cache_free(req->rsk_ops->slab, req);
#endif
}

/**
 * flt_compat_reqsk_queue_add - put a child into its listener's accept queue
 * @listener: may be closing
 * @req:      the child's
 * @child:    bh-locked and owned by nobody
 *
 * Context: bottom halves off.
 * Return: false: the listener has closed. The caller says flt_compat_child_forget() then, when
 * the lock of @child is no longer his.
 */
static inline bool flt_compat_reqsk_queue_add(struct sock *listener, struct request_sock *req,
					      struct sock *child)
{
#ifdef FLT_HAVE_REQSK_ALLOC
	return inet_csk_reqsk_queue_add(listener, req, child);
#else
	struct request_sock_queue *queue = &inet_csk(listener)->icsk_accept_queue;
	bool listens;

	spin_lock(&queue->rskq_lock);
	listens = listener->sk_state == TCP_LISTEN;
	if (listens) {
		req->sk = child;
		req->dl_next = NULL;
		if (!queue->rskq_accept_head)
			WRITE_ONCE(queue->rskq_accept_head, req);
		else
			queue->rskq_accept_tail->dl_next = req;
		queue->rskq_accept_tail = req;
		sk_acceptq_added(listener);
	}
	spin_unlock(&queue->rskq_lock);
	return listens;
#endif
}

/**
 * flt_compat_child_forget - reset a child that no listener took
 * @child: owned by nobody; the reference that the queue would have had goes
 *
 * Context: process.
 */
static inline void flt_compat_child_forget(struct sock *child)
{
#ifndef FLT_HAVE_REQSK_ALLOC	/* inet_csk_reqsk_queue_add() has done it */
	sock_set_flag(child, SOCK_LINGER);
	child->sk_lingertime = 0;
	tcp_close(child, 0);
#endif
}

#endif
