// SPDX-License-Identifier: GPL-2.0
/* Counts for the processes in `targets`, and for the TCP sockets that are theirs. See count.c. */

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "count.h"

/* Process ids (tgid), filled by count.c; children are added here. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u8);
} targets SEC(".maps");

/* Local ports that the targets listen on, host order, filled by count.c. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u16);
	__type(value, u8);
} ports SEC(".maps");

/* Sockets that the targets connected to somewhere, by address in the kernel. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, u8);
} connected SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNT_WHATS);
	__type(key, u32);
	__type(value, u64);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNT_CALLS);
	__type(key, u32);
	__type(value, u64);
} calls SEC(".maps");

static void count(u32 what, u64 n)
{
	u64 *value = bpf_map_lookup_elem(&counts, &what);

	if (value)
		*value += n;
}

static bool is_target(u32 tgid)
{
	return bpf_map_lookup_elem(&targets, &tgid);
}

static bool ours(void)
{
	return is_target(bpf_get_current_pid_tgid() >> 32);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long nr)
{
	u32 key = nr;
	u64 *value;

	if (!ours())
		return 0;
	count(COUNT_SYSCALLS, 1);
	value = bpf_map_lookup_elem(&calls, &key);
	if (value)
		*value += 1;
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (is_target(prev->tgid))
		count(preempt ? COUNT_SWITCHES_FORCED : COUNT_SWITCHES_WAIT, 1);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 tgid = child->tgid;
	u8 one = 1;

	if (is_target(parent->tgid))
		bpf_map_update_elem(&targets, &tgid, &one, BPF_ANY);
	return 0;
}

/*
 * Copies between kernel and program, at the functions all of them go through: breakpoints that
 * main.c sets by the program's name (on_ and the function). Iterators over kernel memory do not
 * count. Writes to files copy by a function of their own, seen by its caller's result.
 */
static void count_iter(u32 what, struct bpf_perf_event_data *ctx)
{
	struct iov_iter *iter = (void *)PT_REGS_PARM3(&ctx->regs);
	u64 n = PT_REGS_PARM2(&ctx->regs), left;

	if (!ours() || BPF_CORE_READ(iter, iter_type) > bpf_core_enum_value(enum iter_type, ITER_IOVEC))
		return;
	left = BPF_CORE_READ(iter, count);
	count(what, n < left ? n : left);
}

SEC("perf_event")
int on__copy_to_user(struct bpf_perf_event_data *ctx)
{
	if (ours())
		count(COUNT_COPIED_TO_USER, PT_REGS_PARM3(&ctx->regs));
	return 0;
}

SEC("perf_event")
int on__copy_from_user(struct bpf_perf_event_data *ctx)
{
	if (ours())
		count(COUNT_COPIED_FROM_USER, PT_REGS_PARM3(&ctx->regs));
	return 0;
}

SEC("perf_event")
int on__copy_to_iter(struct bpf_perf_event_data *ctx)
{
	count_iter(COUNT_COPIED_TO_USER, ctx);
	return 0;
}

SEC("perf_event")
int on__copy_from_iter(struct bpf_perf_event_data *ctx)
{
	count_iter(COUNT_COPIED_FROM_USER, ctx);
	return 0;
}

SEC("fexit/generic_perform_write")
int BPF_PROG(on_file_write, struct kiocb *iocb, struct iov_iter *iter, ssize_t written)
{
	if (written > 0 && ours() &&
	    BPF_CORE_READ(iter, iter_type) <= bpf_core_enum_value(enum iter_type, ITER_IOVEC))
		count(COUNT_COPIED_FROM_USER, written);
	return 0;
}

/* --- packets of their sockets; a packet that offload joined counts as what is on the wire --- */

static bool sock_is_ours(struct sock *sk)
{
	u64 key = (u64)sk;
	u16 port = sk->__sk_common.skc_num;

	return bpf_map_lookup_elem(&ports, &port) || bpf_map_lookup_elem(&connected, &key);
}

static void count_skb(struct sk_buff *skb, u32 packets, u32 bytes)
{
	struct skb_shared_info *info = (void *)(BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, end));
	u16 segments = BPF_CORE_READ(info, gso_segs);

	count(packets, segments ?: 1);
	count(bytes, BPF_CORE_READ(skb, len));
}

SEC("fentry/tcp_connect")
int BPF_PROG(on_tcp_connect, struct sock *sk)
{
	u64 key = (u64)sk;
	u8 one = 1;

	if (ours())
		bpf_map_update_elem(&connected, &key, &one, BPF_ANY);
	else
		bpf_map_delete_elem(&connected, &key);	/* the memory of a socket that was */
	return 0;
}

SEC("fentry/tcp_rcv_established")
int BPF_PROG(on_rcv_established, struct sock *sk, struct sk_buff *skb)
{
	if (sock_is_ours(sk))
		count_skb(skb, COUNT_PACKETS_IN, COUNT_BYTES_IN);
	return 0;
}

SEC("fentry/tcp_rcv_state_process")
int BPF_PROG(on_rcv_state, struct sock *sk, struct sk_buff *skb)
{
	if (sock_is_ours(sk))
		count_skb(skb, COUNT_PACKETS_IN, COUNT_BYTES_IN);
	return 0;
}

SEC("fentry/__ip_queue_xmit")
int BPF_PROG(on_ip_xmit, struct sock *sk, struct sk_buff *skb)
{
	if (sock_is_ours(sk))
		count_skb(skb, COUNT_PACKETS_OUT, COUNT_BYTES_OUT);
	return 0;
}

SEC("fentry/inet6_csk_xmit")
int BPF_PROG(on_ip6_xmit, struct sock *sk, struct sk_buff *skb)
{
	if (sock_is_ours(sk))
		count_skb(skb, COUNT_PACKETS_OUT, COUNT_BYTES_OUT);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
