// SPDX-License-Identifier: GPL-2.0
/* What is read comes from the network: of root's rights only that to change objects stays. */
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "door.h"
#include "tools/base/capability.h"

int privilege_find(const struct config *config, uid_t *uid, gid_t *gid, char *error, size_t size)
{
	const struct passwd *pw;

	*uid = geteuid();
	*gid = getegid();
	if (*uid)
		return 0;
	errno = 0;
	pw = getpwnam(config->user);
	if (!pw) {
		snprintf(error, size, "user %s: %s", config->user,
			 errno ? strerror(errno) : "there is none (systemd-sysusers, or 'user' in the configuration)");
		return -ENOENT;
	}
	*uid = pw->pw_uid;
	*gid = pw->pw_gid;
	return 0;
}

/* Before the user changes: it takes CAP_SETPCAP. */
static void bound(uint64_t mask)
{
	int capability;

	for (capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
		if (!(mask >> capability & 1))
			prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
}

static int become(uid_t uid, gid_t gid)
{
	if (uid == geteuid())
		return 0;
	if (setgroups(0, NULL) || setresgid(gid, gid, gid) || prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) ||
	    setresuid(uid, uid, uid))
		return -errno;
	return 0;
}

int privilege_drop(uid_t uid, gid_t gid, char *error, size_t size)
{
	int err;

	bound(1ULL << CAP_NET_ADMIN);
	err = become(uid, gid);
	if (!err)
		err = capability_keep(1ULL << CAP_NET_ADMIN);
	if (!err && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		err = -errno;
	/* There are tokens in it. */
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (err)
		snprintf(error, size, "cannot give up privileges: %s", strerror(-err));
	return err;
}
