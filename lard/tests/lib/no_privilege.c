// SPDX-License-Identifier: GPL-2.0
/* In the place of lard/privilege.c: whoever runs the test stays who he is. */
#include <fcntl.h>
#include <stddef.h>
#include "lard/privilege.h"

bool privilege_is_user(uid_t uid)
{
	(void)uid;
	return false;
}

const char *privilege_name(void)
{
	return NULL;
}

int privilege_open(const char *path, int flags)
{
	return open(path, flags);
}
