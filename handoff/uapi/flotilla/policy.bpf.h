/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * A migration policy as a BPF program: it sees the first bytes of a request before the server does,
 * and says whether the connection stays on this node or moves to another one. For programs that
 * are compiled with clang -target bpf: handoff/examples/big.bpf.c is one, handoff/doc/policy-bpf.md
 * says how it is loaded.
 *
 *	SEC("struct_ops/request")
 *	int BPF_PROG(request, struct hof_policy_request *r) { ... }
 *
 *	SEC(".struct_ops.link")
 *	struct hof_policy_ops mine = { .name = "mine", .request = (void *)request };
 *
 * The program is not sleepable, and may use maps, time and what else every BPF program may use.
 */
#ifndef _FLOTILLA_POLICY_BPF_H
#define _FLOTILLA_POLICY_BPF_H

#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

enum hof_policy_verdict {
	HOF_POLICY_STAY	= 0,	/* the server gets it; anything else says so, too */
	HOF_POLICY_MORE	= 1,	/* ask again when more bytes of it have come */
	HOF_POLICY_MOVE	= 2,	/* the connection goes to the target, the request unread */
};

#define HOF_POLICY_NAME_MAX	16
/* Nodes that one service's policy may name. */
#define HOF_POLICY_NODES_MAX	32

/**
 * struct hof_policy_request - a request that nobody has read; its fields are read only
 * @length:    bytes of it that are there; more may be of requests behind it
 * @requests:  how many of this connection were decided here before it
 * @hops:      how often policies have moved this connection
 * @waited_ms: since its first byte was seen
 */
struct hof_policy_request {
	__u32 length;
	__u32 requests;
	__u32 hops;
	__u32 waited_ms;
} __attribute__((preserve_access_index));

/**
 * struct hof_policy_ops - a policy
 * @name:    by which an operator sets it; letters, digits, - and _, at most 15
 * @request: the program
 *
 * Registering: EBUSY: the name is taken; EINVAL: no program, another name than that of the policy
 * it takes the place of; EPERM: without CAP_NET_ADMIN in the first user namespace (loading takes
 * CAP_BPF and CAP_PERFMON).
 */
struct hof_policy_ops {
	char name[HOF_POLICY_NAME_MAX];
	int (*request)(struct hof_policy_request *req);
} __attribute__((preserve_access_index));

/* Copies bytes of the request from @offset on; how many: 0 if it has no more. */
__u32 bpf_hof_bytes(const struct hof_policy_request *req, __u32 offset, void *buffer,
		    __u32 buffer__sz) __ksym;

/* Where the path of an HTTP request is. 0; -EAGAIN: not all of it is there; -EINVAL: it is none. */
int bpf_hof_path(const struct hof_policy_request *req, __u32 *offset, __u32 *length) __ksym;

/* Where HOF_POLICY_MOVE goes. 0; -ENOENT: no such node; -EHOSTDOWN: its link is not up. */
int bpf_hof_target(struct hof_policy_request *req, __u32 node) __ksym;
int bpf_hof_target_name(struct hof_policy_request *req, const char *name__str) __ksym;

/*
 * The nodes that may be targets, as the operator named them (0: this one), or of the node table;
 * how many. @ids__sz is in bytes. One that he named is there when its link is down, too.
 */
__u32 bpf_hof_nodes(const struct hof_policy_request *req, __u32 *ids, __u32 ids__sz) __ksym;

/* Connections that the node serves for this one; -ENOENT; -EHOSTDOWN. */
int bpf_hof_node_load(const struct hof_policy_request *req, __u32 node) __ksym;

/* 0, 1, 2, ...: another number at each call for the same service. */
__u32 bpf_hof_turn(const struct hof_policy_request *req) __ksym;

/* The number that the operator gave as NAME=NUMBER; @otherwise: he did not. */
__u64 bpf_hof_option(const struct hof_policy_request *req, const char *name__str,
		     __u64 otherwise) __ksym;

#endif
