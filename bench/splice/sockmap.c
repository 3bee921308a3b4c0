// SPDX-License-Identifier: MIT
/* sockmap as a relay: whatever arrives on a socket of the hash is sent on the one stored for it. */

#include <arpa/inet.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "relay.h"

#define INSN(c, d, s, o, i) { .code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) }

static int hash = -1;

static int bpf(int command, union bpf_attr *attr)
{
	return syscall(__NR_bpf, command, attr, sizeof(*attr));
}

/* return bpf_sk_redirect_hash(skb, &hash, &{ skb->remote_port, skb->local_port }, 0) */
static int load(void)
{
	struct bpf_insn code[] = {
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, 6, 1, 0, 0),
		INSN(BPF_LDX | BPF_MEM | BPF_W, 2, 6, offsetof(struct __sk_buff, remote_port), 0),
		INSN(BPF_STX | BPF_MEM | BPF_W, 10, 2, -8, 0),
		INSN(BPF_LDX | BPF_MEM | BPF_W, 2, 6, offsetof(struct __sk_buff, local_port), 0),
		INSN(BPF_STX | BPF_MEM | BPF_W, 10, 2, -4, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, 3, 10, 0, 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, 3, 0, 0, -8),
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, 1, 6, 0, 0),
		INSN(BPF_LD | BPF_DW | BPF_IMM, 2, BPF_PSEUDO_MAP_FD, 0, hash),
		INSN(0, 0, 0, 0, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 4, 0, 0, 0),
		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_sk_redirect_hash),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_SK_SKB,
		.insn_cnt = sizeof(code) / sizeof(code[0]),
		.insns = (uintptr_t)code,
		.license = (uintptr_t)"GPL",
	};

	return bpf(BPF_PROG_LOAD, &attr);
}

static int open_hash(void)
{
	union bpf_attr map = {
		.map_type = BPF_MAP_TYPE_SOCKHASH, .key_size = 8, .value_size = 4,
		.max_entries = 65536,
	};
	union bpf_attr attach;

	hash = bpf(BPF_MAP_CREATE, &map);
	if (hash < 0)
		return -1;
	memset(&attach, 0, sizeof(attach));
	attach.target_fd = hash;
	attach.attach_bpf_fd = load();
	attach.attach_type = BPF_SK_SKB_STREAM_VERDICT;
	return (int)attach.attach_bpf_fd < 0 ? -1 : bpf(BPF_PROG_ATTACH, &attach);
}

/* What arrives on @from shall leave on @to. */
static int put(int from, int to)
{
	struct sockaddr_in local, remote;
	socklen_t len = sizeof(local);
	uint32_t key[2];
	union bpf_attr attr = {
		.map_fd = hash, .key = (uintptr_t)key, .value = (uintptr_t)&to,
	};

	if (getsockname(from, (struct sockaddr *)&local, &len) ||
	    getpeername(from, (struct sockaddr *)&remote, &len))
		return -1;
	key[0] = (uint32_t)remote.sin_port << 16;	/* as __sk_buff has it on this machine */
	key[1] = ntohs(local.sin_port);
	return bpf(BPF_MAP_UPDATE_ELEM, &attr);
}

int sockmap_join(int client, int origin)
{
	if (hash < 0 && open_hash())
		return -1;
	return put(origin, client) || put(client, origin) ? -1 : 0;
}
