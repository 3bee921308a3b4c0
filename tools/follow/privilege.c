// SPDX-License-Identifier: GPL-2.0
/* What is read comes from the network: of root's rights only that to change nodes stays. */
#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "follow.h"

/* Who runs as root gets capabilities back by a set-user-ID program or a plain exec, unless the bound says no. */
static void bound(uint64_t mask)
{
	int capability;

	for (capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
		if (!(mask >> capability & 1))
			prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
}

int privilege_drop(struct cli *cli, bool net_admin)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };
	uint64_t mask = net_admin ? 1ULL << CAP_NET_ADMIN : 0;
	unsigned int i;

	cli_doing(cli, "give up privileges");
	bound(mask);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_capget, &head, data))
		return cli_fail(cli, "%s", strerror(errno));
	for (i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		data[i].permitted &= mask >> (32 * i);
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &head, data))
		return cli_fail(cli, "%s", strerror(errno));
	cli->doing[0] = '\0';
	return CLI_OK;
}
