/* SPDX-License-Identifier: GPL-2.0 */
/* Whom a limit per user counts for. Inline: rooms that do not depend on flotilla.ko use it, too. */
#ifndef FLT_USER_H
#define FLT_USER_H

#include <linux/cred.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>

/**
 * flt_user_uid - the user whom the caller counts as
 *
 * A user namespace makes users by the thousand, and another namespace within it thousands more:
 * all of them are the one who made the outermost, whom the initial namespace knows. Where root
 * made it, it is a container: that counts as its own root, so that containers are not one user.
 *
 * Context: process.
 * Return: a user of the initial user namespace.
 */
static inline kuid_t flt_user_uid(void)
{
	struct user_namespace *ns = current_user_ns();
	kuid_t root;

	if (ns == &init_user_ns)
		return current_uid();
	while (ns->parent && ns->parent != &init_user_ns)
		ns = ns->parent;
	if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
		return ns->owner;
	root = make_kuid(ns, 0);
	return uid_valid(root) ? root : ns->owner;
}

#endif
