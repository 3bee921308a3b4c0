// SPDX-License-Identifier: GPL-2.0
/* A security module for splice_denied: one user may not receive from sockets, another may not send. */
#include <linux/bpf.h>
#include <linux/errno.h>
#include <bpf/bpf_helpers.h>

#define NO_RECEIVER	65011
#define NO_SENDER	65012

/* A hook's last argument is what programs before this one have said. */
static int deny(unsigned int uid, int said)
{
	if (said)
		return said;
	return (unsigned int)bpf_get_current_uid_gid() == uid ? -EACCES : 0;
}

SEC("lsm/socket_recvmsg")
int deny_receive(unsigned long long *ctx)
{
	return deny(NO_RECEIVER, ctx[4]);
}

SEC("lsm/socket_sendmsg")
int deny_send(unsigned long long *ctx)
{
	return deny(NO_SENDER, ctx[3]);
}

char LICENSE[] SEC("license") = "GPL";
