// SPDX-License-Identifier: GPL-2.0
/* What handoff_policy_bpf registers, or fails to: a policy for each -DCASE_name. */
#include <flotilla/policy.bpf.h>

#ifdef CASE_elsewhere
/* Not a policy. */
SEC("tc")
int elsewhere(struct __sk_buff *skb)
{
	return bpf_hof_turn((void *)skb);
}
#else

#if defined(CASE_nameless)
#define NAME	""
#elif defined(CASE_spaced)
#define NAME	"a b"
#elif defined(CASE_taken)
#define NAME	"simple"
#elif defined(CASE_staying)
#define NAME	"big"
#else
#define NAME	"tried"
#endif

#if defined(CASE_everything)
/* Calls all that there is, and goes to who has least. */
static int decide(struct hof_policy_request *req)
{
	static const char bound[] = "bound", be2[] = "be2";
	__u32 nodes[4] = {}, offset, length, count, i, best = 0;
	int load, least = bpf_hof_option(req, bound, 1000);
	char path[2];

	if (bpf_hof_path(req, &offset, &length) || length < 2 ||
	    bpf_hof_bytes(req, offset, path, sizeof(path)) < 2)
		return HOF_POLICY_STAY;
	count = bpf_hof_nodes(req, nodes, sizeof(nodes));
	for (i = 0; i < 4 && i < count; i++) {
		load = bpf_hof_node_load(req, nodes[i]);
		if (nodes[i] && load >= 0 && load < least) {
			best = nodes[i];
			least = load;
		}
	}
	if (best ? bpf_hof_target(req, best) : bpf_hof_target_name(req, be2))
		return HOF_POLICY_STAY;
	return path[1] == 't' && bpf_hof_turn(req) % 2 ? HOF_POLICY_STAY : HOF_POLICY_MOVE;
}
#elif !defined(CASE_empty)
static int decide(struct hof_policy_request *req)
{
#if defined(CASE_writes)
	req->hops = 0;
#elif defined(CASE_overruns)
	char bytes[4];

	bpf_hof_bytes(req, 0, bytes, 8);
	return bytes[0];
#elif defined(CASE_forges)
	struct hof_policy_request mine = { .length = 1 };

	return bpf_hof_target(&mine, 2);
#elif defined(CASE_loops)
	while (bpf_hof_turn(req) != 7)
		;
#elif defined(CASE_nonsense)
	return -77;
#endif
	return HOF_POLICY_STAY;
}
#endif

#ifndef CASE_empty
#ifdef CASE_sleeps
SEC("struct_ops.s/request")
#else
SEC("struct_ops/request")
#endif
int BPF_PROG(request, struct hof_policy_request *req)
{
	return decide(req);
}
#endif

SEC(".struct_ops.link")
struct hof_policy_ops policy = {
	.name = NAME,
#ifndef CASE_empty
	.request = (void *)request,
#endif
};
#endif

char LICENSE[] SEC("license") = "GPL";
