// SPDX-License-Identifier: GPL-2.0
#include "tls/host.h"
#include <string.h>
#include "loop.h"
#include "privilege.h"
#include "tools/base/log.h"

uint64_t tls_host_clock(void)
{
	return loop_clock();
}

void tls_host_warn(const char *event, const char *text)
{
	char quoted[600];

	log_warn(event, "text=%s", log_quote(text, strlen(text), quoted, sizeof(quoted)));
}

bool tls_host_is_user(uid_t uid)
{
	return privilege_is_user(uid);
}

const char *tls_host_user(void)
{
	return privilege_name();
}

int tls_host_open(const char *path, int flags)
{
	return privilege_open(path, flags);
}
