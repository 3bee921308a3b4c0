/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Policies: which requests of a connection are served here, and which at another node. A policy
 * sees the bytes of a request before the server's program does (gate.h), and says one of
 *
 *	HOF_POLICY_STAY	the program gets them
 *	HOF_POLICY_MORE	not known yet: it is asked again when more have come; after
 *			net.flotilla.migrate_wait_ms or migrate_bytes the request stays
 *	HOF_POLICY_MOVE	the connection goes to the node of hof_policy_target(), with the request
 *			unread; if that fails the program gets it as if nothing had been tried
 *
 * A module that has one:
 *
 *	static int my_request(struct hof_policy_request *req)
 *	{
 *		char first;
 *
 *		if (!hof_policy_bytes(req, 0, &first, 1))
 *			return HOF_POLICY_MORE;
 *		if (first != 'P' || hof_policy_target_name(req, "be2"))
 *			return HOF_POLICY_STAY;
 *		return HOF_POLICY_MOVE;
 *	}
 *
 *	static struct hof_policy_ops my_policy = {
 *		.name = "posts", .request = my_request, .owner = THIS_MODULE,
 *	};
 *
 * with hof_policy_register(&my_policy) in its init and hof_policy_unregister() in its exit. The
 * operator switches it on: flotilla migrate policy set 10.9.0.200:80 posts. A service that has it
 * holds a reference on its module, so that rmmod says EBUSY.
 */
#ifndef HOF_POLICY_H
#define HOF_POLICY_H

#include <linux/list.h>
#include <linux/types.h>
#include <flotilla/flotilla.h>

struct hof_policy_set;
struct module;
struct net;
struct sock;

#define HOF_POLICY_NAME_MAX	16
/* Nodes that one service's policy may name. */
#define HOF_POLICY_NODES_MAX	32
/* Among them: this node. */
#define HOF_POLICY_SELF	"self"

enum hof_policy_verdict {
	HOF_POLICY_STAY	= 0,
	HOF_POLICY_MORE	= 1,
	HOF_POLICY_MOVE	= 2,
};

/**
 * struct hof_policy_request - a request that nobody has read
 * @tuple:    client and server of the connection
 * @length:   bytes of it that are there; more may be of requests behind it
 * @requests: how many of this connection were decided here before it
 * @hops:     how often policies have moved this connection
 * @waited_ms: since its first byte was seen
 * @key:      what hof_policy_ops.answered() is told with if it stays, set by request(); 0: is not
 * @sk:       the engine's from here on
 * @set:      of the service
 * @target:   node; 0: none yet
 * @down:     one was named that is not up
 *
 * Valid during hof_policy_ops.request().
 */
struct hof_policy_request {
	struct flt_tuple tuple;
	u32 length;
	u32 requests;
	u32 hops;
	u32 waited_ms;
	u64 key;
	struct sock *sk;
	const struct hof_policy_set *set;
	u32 target;
	bool down;
};

/**
 * struct hof_policy_ops - a policy
 * @name:    by which an operator names it; unique
 * @request: enum hof_policy_verdict of a request; anything else is HOF_POLICY_STAY.
 *	     Softirq or process, bottom halves off, the connection's socket locked (it may be its
 *	     spin lock alone), under rcu_read_lock(): must not sleep, and calls nothing of the
 *	     socket but the functions below.
 * @answered: optional: the answer to a request that stayed was @bytes long, with its header, as
 *	     far as that is known: it was whole when the next request came or the connection ended.
 *	     @key: as request() has set it, perhaps of another policy before. Any context, under
 *	     rcu_read_lock()
 * @owner:   module; NULL: none (BPF), then hof_policy_unregister() takes it off its services
 * @list:    the registry's
 */
struct hof_policy_ops {
	char name[HOF_POLICY_NAME_MAX];
	int (*request)(struct hof_policy_request *req);
	void (*answered)(u64 key, u64 bytes);
	struct module *owner;
	struct list_head list;
};

/**
 * hof_policy_register - offer a policy
 * @ops: stays valid until it is unregistered
 *
 * Context: process, may sleep.
 * Return: 0; -EINVAL: no name or no @request; -EEXIST: the name is taken.
 */
int hof_policy_register(struct hof_policy_ops *ops);

/**
 * hof_policy_unregister - take it back
 * @ops: registered
 *
 * Services that still have it (only without @owner) serve all of their requests themselves. On
 * return no call of it runs or will run.
 *
 * Context: process, may sleep.
 */
void hof_policy_unregister(struct hof_policy_ops *ops);

/**
 * hof_policy_update - another one takes its place, in the registry and at its services
 * @old:   registered
 * @fresh: not registered; of the same name and owner
 *
 * No request is lost or left undecided. On return no call of @old runs or will run.
 *
 * Context: process, may sleep.
 * Return: 0; -EINVAL; -ENOENT: @old is not registered.
 */
int hof_policy_update(struct hof_policy_ops *old, struct hof_policy_ops *fresh);

/* --- for @request; none of them sleeps --- */

/* Copies up to @length bytes of the request from @offset on; how many: 0 if it has no more. */
u32 hof_policy_bytes(const struct hof_policy_request *req, u32 offset, void *buffer, u32 length);

/**
 * hof_policy_path - where is the path of an HTTP request
 * @req:    the request
 * @offset: of its first byte
 * @length: up to the '?' or the end of the URL
 *
 * Return: 0; -EAGAIN: not all of it is there; -EINVAL: it is no HTTP request.
 */
int hof_policy_path(const struct hof_policy_request *req, u32 *offset, u32 *length);

/**
 * hof_policy_target - where HOF_POLICY_MOVE goes
 * @req:  the request
 * @node: in the node table
 *
 * Return: 0; -ENOENT: there is no such node; -EHOSTDOWN: its link is not up.
 */
int hof_policy_target(struct hof_policy_request *req, u32 node);
int hof_policy_target_name(struct hof_policy_request *req, const char *name);

/**
 * hof_policy_nodes - who may be a target
 * @req: the request
 * @ids: filled in the order in which the operator has named them, or of the node table when he
 *	 has named none; 0 is this node itself, when he has named it
 * @max: room in @ids
 *
 * A node whose link is down, or that is not to get anything (node set NAME admin), is among them
 * when it was named: so what is hashed over them stays where it is. Without names it is not.
 *
 * Return: how many.
 */
u32 hof_policy_nodes(const struct hof_policy_request *req, u32 *ids, u32 max);

/* Connections that the node serves for this one; -ENOENT; -EHOSTDOWN: its link is not up. */
int hof_policy_node_load(const struct hof_policy_request *req, u32 node);

/* 0, 1, 2 ... : another number at each call for the same service. */
u32 hof_policy_turn(const struct hof_policy_request *req);

/* The number that the operator gave as NAME=NUMBER; @otherwise: he did not. */
u64 hof_policy_option(const struct hof_policy_request *req, const char *name, u64 otherwise);

#endif
