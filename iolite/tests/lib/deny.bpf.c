// SPDX-License-Identifier: GPL-2.0
/* A security module for iolite_denied: one user's files are not read, another's are not written. */
#include <linux/bpf.h>
#include <linux/errno.h>
#include <bpf/bpf_helpers.h>

#define UNREAD		65014
#define UNWRITTEN	65015

#define MAY_WRITE	2
#define MAY_READ	4

/* Of the kernel's structures what is used here. */
struct inode {
	struct {
		unsigned int val;
	} i_uid;
} __attribute__((preserve_access_index));

struct file {
	struct inode *f_inode;
} __attribute__((preserve_access_index));

SEC("lsm/file_permission")
int deny_file(unsigned long long *ctx)
{
	struct file *file = (void *)ctx[0];
	unsigned int owner = file->f_inode->i_uid.val;
	int mask = ctx[1], said = ctx[2];

	if (said)
		return said;
	if ((owner == UNREAD && mask & MAY_READ) || (owner == UNWRITTEN && mask & MAY_WRITE))
		return -EACCES;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
