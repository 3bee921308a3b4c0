// SPDX-License-Identifier: GPL-2.0
#include "privilege.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "config.h"
#include "tools/base/capability.h"
#include "tools/base/lines.h"
#include "tools/base/log.h"

#define GROUPS_MAX 64

/* Whom root is to become; the process's, as its user is. @uid 0: nobody else. */
static struct {
	uid_t uid;
	gid_t gid, groups[GROUPS_MAX];
	int group_count;
	char name[64];
} user;

static const char *const defaults[] = { "flotilla", "nobody" };

static uint64_t capabilities(void)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (syscall(SYS_capget, &head, data))
		return 0;
	return (uint64_t)data[1].effective << 32 | data[0].effective;
}

static bool has(int capability)
{
	return capabilities() >> capability & 1;
}

static uint64_t needed(const struct config *config)
{
	uint64_t all = 1ULL << CAP_NET_BIND_SERVICE;

	if (config->mode == MODE_AUTO || config->splice_min || config->cache_kernel)
		all |= 1ULL << CAP_NET_ADMIN;
	return all;
}

/* The devices of sksplice.ko and uselect.ko are a group's. */
static void add_group(const char *name)
{
	const struct group *group = getgrnam(name);

	if (group && user.group_count < GROUPS_MAX)
		user.groups[user.group_count++] = group->gr_gid;
}

static const struct passwd *find(const char *name)
{
	errno = 0;
	return getpwnam(name);
}

int privilege_find(const struct config *config, char *error, size_t size)
{
	const struct passwd *pw = NULL;
	unsigned int i;

	memset(&user, 0, sizeof(user));
	if (*config->user) {
		pw = find(config->user);
		if (!pw) {
			snprintf(error, size, "user %s: %s", config->user,
				 errno ? strerror(errno) : "there is none");
			return errno ? -errno : -ENOENT;
		}
		if (geteuid() && geteuid() != pw->pw_uid) {
			snprintf(error, size, "user %s: only root can become another", config->user);
			return -EPERM;
		}
	} else {
		for (i = 0; !pw && i < sizeof(defaults) / sizeof(defaults[0]); i++)
			pw = find(defaults[i]);
	}
	if (geteuid() || !pw || !pw->pw_uid)
		return 0;
	if (!*config->user && !(has(CAP_SETUID) && has(CAP_SETGID)))
		return 0;
	user.uid = pw->pw_uid;
	user.gid = pw->pw_gid;
	snprintf(user.name, sizeof(user.name), "%s", pw->pw_name);
	user.group_count = GROUPS_MAX - 1;
	if (getgrouplist(user.name, user.gid, user.groups, &user.group_count) < 0)
		user.group_count = GROUPS_MAX - 1;	/* the first of them */
	add_group("flotilla");
	return 0;
}

bool privilege_lacks(const struct config *config)
{
	return user.uid && geteuid() && (needed(config) & ~capabilities());
}

bool privilege_is_user(uid_t uid)
{
	return user.uid && user.uid == uid;
}

const char *privilege_name(void)
{
	return user.uid ? user.name : NULL;
}

int privilege_make(const char *path, mode_t mode)
{
	return lines_make(path, mode, user.uid, user.gid);
}

void privilege_mark(int fd)
{
	if (user.uid && fchown(fd, user.uid, -1))
		log_debug("privilege", "text=\"a socket stays root's\"");
}

static int cannot_become(int err, char *error, size_t size)
{
	snprintf(error, size, "cannot become %s: %s", *user.name ? user.name : "less", strerror(-err));
	return err;
}

int privilege_as_user(char *error, size_t size)
{
	if (!user.uid || (!setgroups(user.group_count, user.groups) && !setegid(user.gid) &&
			  !seteuid(user.uid)))
		return 0;
	return cannot_become(-errno, error, size);
}

/* From the saved ids: it cannot fail. */
void privilege_again(void)
{
	if (user.uid && (seteuid(0) || setegid(0)))
		log_error("root", "text=\"%s\"", strerror(errno));
}

int privilege_open(const char *path, int flags)
{
	int fd = open(path, flags), err;
	char why[128];

	if (fd >= 0 || errno != EACCES || !user.uid || geteuid())
		return fd;
	fd = privilege_as_user(why, sizeof(why)) ? -1 : open(path, flags);
	err = fd < 0 ? EACCES : 0;
	privilege_again();
	errno = err;
	return fd;
}

static int become(uint64_t mask)
{
	if (setgroups(user.group_count, user.groups) ||
	    setresgid(user.gid, user.gid, user.gid) ||
	    prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) ||
	    setresuid(user.uid, user.uid, user.uid))
		return -errno;
	prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
	return capability_keep(mask);
}

int privilege_drop(const struct config *config, char *error, size_t size)
{
	int err;

	if (user.uid) {
		err = become(needed(config));
	} else if (geteuid()) {
		err = capability_keep(needed(config));
	} else {
		if (!*config->user)
			log_warn("root", "text=\"runs as root with all its rights: there is no user to become, or no right to (CAP_SETUID, CAP_SETGID); 'user root' says that it is meant\"");
		return 0;
	}
	if (err)
		return cannot_become(err, error, size);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	/* A change of user ends core files. With keys in them it should (tls_file.h). */
	prctl(PR_SET_DUMPABLE, !config->tls && !config->share_given, 0, 0, 0);
	return 0;
}
