// SPDX-License-Identifier: GPL-2.0
/*
 * What is the least that forwarding a packet to a node of the same segment can cost, in XDP or in
 * tc? One table lookup, hop count, MAC header, out again: what handoff/forward.c does, and nothing
 * of what makes it right (holding, ending, encapsulation, path MTU). For bench/pathlen/front-ends.
 */
#include "vmlinux.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define TC_ACT_OK	0
#define ETH_P_IP	0x0800

struct flow {
	__be32 client;
	__be32 server;
	__be16 client_port;
	__be16 server_port;
};

/* The node of each flow: index in headers. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct flow);
	__type(value, u32);
} flows SEC(".maps");

/* MAC headers to the two nodes; filled from outside. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct ethhdr);
} headers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} forwarded SEC(".maps");

static __always_inline void count(u32 what, u64 n)
{
	u64 *value = bpf_map_lookup_elem(&forwarded, &what);

	if (value)
		*value += n;
}

/* Rewrites the headers; false: not ours. */
static __always_inline bool shortcut(void *data, void *end)
{
	struct ethhdr *eth = data, *header;
	struct iphdr *ip = data + sizeof(*eth);
	struct tcphdr *tcp = data + sizeof(*eth) + sizeof(*ip);
	struct flow flow;
	u32 *node, fresh, sum;

	if ((void *)(tcp + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP) || ip->ihl != 5 ||
	    ip->protocol != IPPROTO_TCP || tcp->dest != bpf_htons(80) || ip->ttl <= 1)
		return false;
	flow = (struct flow){ ip->saddr, ip->daddr, tcp->source, tcp->dest };
	node = bpf_map_lookup_elem(&flows, &flow);
	if (!node) {
		fresh = bpf_ntohs(tcp->source) % 2;
		bpf_map_update_elem(&flows, &flow, &fresh, BPF_ANY);
		node = &fresh;
	}
	header = bpf_map_lookup_elem(&headers, node);
	if (!header || !header->h_proto)
		return false;
	*eth = *header;
	sum = ip->check + bpf_htons(0x0100);
	ip->check = sum + (sum >= 0xffff);
	ip->ttl--;
	count(0, 1);
	count(1, end - data);
	return true;
}

SEC("xdp")
int in_xdp(struct xdp_md *ctx)
{
	return shortcut((void *)(long)ctx->data, (void *)(long)ctx->data_end) ? XDP_TX : XDP_PASS;
}

SEC("tc")
int in_tc(struct __sk_buff *skb)
{
	if (bpf_skb_pull_data(skb, sizeof(struct ethhdr) + sizeof(struct iphdr) + sizeof(struct tcphdr)) ||
	    !shortcut((void *)(long)skb->data, (void *)(long)skb->data_end))
		return TC_ACT_OK;
	return bpf_redirect(skb->ifindex, 0);
}

char LICENSE[] SEC("license") = "GPL";
