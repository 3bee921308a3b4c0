// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * big: requests whose path begins with /big go to the first node that the operator has named,
 * others stay.
 *
 *	clang -target bpf -O2 -g -c big.bpf.c && load big.bpf.o /sys/fs/bpf/big
 *	flotilla migrate policy set 10.9.0.200:80 big be2
 */
#include <flotilla/policy.bpf.h>

SEC("struct_ops/request")
int BPF_PROG(request, struct hof_policy_request *req)
{
	__u32 offset, length, node;
	char path[4];
	int err;

	err = bpf_hof_path(req, &offset, &length);
	if (err == -11)	/* EAGAIN */
		return HOF_POLICY_MORE;
	if (err || bpf_hof_bytes(req, offset, path, sizeof(path)) < sizeof(path))
		return HOF_POLICY_STAY;
	if (path[0] != '/' || path[1] != 'b' || path[2] != 'i' || path[3] != 'g')
		return HOF_POLICY_STAY;
	if (!bpf_hof_nodes(req, &node, sizeof(node)) || bpf_hof_target(req, node))
		return HOF_POLICY_STAY;
	return HOF_POLICY_MOVE;
}

SEC(".struct_ops.link")
struct hof_policy_ops big = { .name = "big", .request = (void *)request };

char LICENSE[] SEC("license") = "GPL";
