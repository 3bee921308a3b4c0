// SPDX-License-Identifier: GPL-2.0
/*
 * The first segment of a connection is not sent again for a minute: beside a guest that works in
 * turns an answer takes longer than it would. For outside.sh; later segments have a sysctl.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define PATIENCE	(60 * 250)	/* jiffies of Debian's kernels */

SEC("sockops")
int patient(struct bpf_sock_ops *ops)
{
	ops->reply = ops->op == BPF_SOCK_OPS_TIMEOUT_INIT ? PATIENCE : -1;
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
